"""Refusals as problem documents (RFC 9457), and the ids of requests that they name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from api.http.observation import HEADER, instance_of, request_id
from fedaudit.spec.errors import FieldError, InvalidInputError
from infrastructure.storage import StorageError


@dataclass(frozen=True)
class Meaning:
    """A kind of problem in words."""

    statuses: tuple[int, ...]
    means: str
    remedy: str


MEANINGS: dict[str, Meaning] = {
    "validation-error": Meaning(
        (400, 422),
        "What was sent cannot be used: a field or parameter is missing, unknown or out of range, "
        "or the data do not fit what is said of them. Nothing was stored.",
        "`errors` has every fault that was found, each with its field as a JSON pointer (below "
        "/query, /path or /header for a parameter) and the remedy. Correct them, and send it "
        "again.",
    ),
    "unauthorised": Meaning(
        (401,),
        "The request has no API key, or one that is unknown or revoked.",
        "Send `Authorization: Bearer KEY` with a key in force. `fedaudit up` prints one; `fedaudit "
        "keys create` and `POST /v1/api-keys` make others.",
    ),
    "forbidden": Meaning(
        (403,),
        "The key is in force and lacks the scope that this call needs; `scope` names it. A form is "
        "refused so, too, where it was not sent from the service's own pages.",
        "Use a key with the scope, or ask whoever administers the project for one.",
    ),
    "not-found": Meaning(
        (404,),
        "There is nothing at this address in the key's project. What belongs to another project is "
        "answered alike.",
        "Check the address and the id, and whose key it is.",
    ),
    "method-not-allowed": Meaning(
        (405,),
        "The address exists and does not take this method.",
        "The header `Allow` names the methods that it takes.",
    ),
    "gone": Meaning(
        (410,),
        "What is asked for was there, and was removed: its time was over, or it was erased with "
        "its federation. `reason` and `gone_at` say which, and when.",
        "What was removed does not come back by itself. Run the experiment again, or bring the "
        "file again; how long files are kept is set by whoever runs the service.",
    ),
    "conflict": Meaning(
        (409,),
        "The request is right and does not fit the present state: an experiment that has ended "
        "cannot be cancelled, data that are still being profiled have no profile.",
        "`detail` says which state it is. Wait for another, or ask for something else.",
    ),
    "budget-exhausted": Meaning(
        (409,),
        "What the experiment may cost at worst does not fit what is left of a budget on its data.",
        "Ask for fewer rounds, smaller cohorts or more noise; `?validate_only=true` shows the cost "
        "of a spec and stores nothing. Or let the owner of the data raise the total.",
    ),
    "simulation-forbidden": Meaning(
        (409,),
        "The owner of these data admits no experiment whose noise anyone can draw again from its "
        "seed, and none without noise.",
        "Set `noise: release` under `privacy`.",
    ),
    "idempotency-mismatch": Meaning(
        (409,),
        "The same `Idempotency-Key` was sent before with another body.",
        "Use a new key for a new request, and the old one only to repeat a request as it was.",
    ),
    "precondition-failed": Meaning(
        (412,),
        "`If-Match` names a state that is no longer the present one, or `If-None-Match: *` "
        "something that is there already. Nothing was changed.",
        "Get it again, decide anew, and send the `ETag` that it has now.",
    ),
    "payload-too-large": Meaning(
        (413,),
        "The body, a part of it or the file is larger than the service takes.",
        "`detail` has the limit. Send large data as an upload, or put the file below the service's "
        "sources folder and register its path.",
    ),
    "unsupported-media-type": Meaning(
        (415,),
        "The header Content-Type is missing or names a form that is not taken here.",
        "Send JSON as application/json, YAML as application/yaml, uploads as multipart/form-data.",
    ),
    "request-timeout": Meaning(
        (408,),
        "The body stopped for too long, or came at less than a kilobyte a second.",
        "Send it again over a better connection.",
    ),
    "rate-limited": Meaning(
        (429,),
        "The project has too many requests waiting for data to be loaded, or reached the "
        "quota that `quota` names.",
        "Wait as long as `Retry-After` says and send fewer at once, or do what `detail` says.",
    ),
    "too-many-streams": Meaning(
        (429, 503),
        "The key, or this process of the service, has as many event streams open as it may.",
        "Close streams that nobody reads, or wait as long as `Retry-After` says.",
    ),
    "unavailable": Meaning(
        (503,),
        "The service cannot answer just now: its database or storage does not answer or is full, "
        "its schema is of another version, or there are too many connections.",
        "Try again, after `Retry-After` where it is given. If it lasts, tell whoever runs the "
        "service: its log has the request by its `instance`.",
    ),
    "internal-error": Meaning(
        (500,),
        "The service failed in a way that nobody foresaw.",
        "Tell whoever runs the service: its log has the request by its `instance`. Whether "
        "something was stored can be seen by asking for it.",
    ),
}


log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_TYPES = "/problems/"
_MOST_NAMED = 5
_DISK_FULL = ("database or disk is full", "No space left on device")
"""As SQLite and Postgres say it."""
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")

TITLES = {
    "validation-error": "The request is not valid",
    "unauthorised": "A valid API key is needed",
    "forbidden": "The API key does not allow this",
    "not-found": "There is no such thing",
    "method-not-allowed": "The method is not allowed here",
    "gone": "It was there and is gone",
    "conflict": "The request does not fit the present state",
    "budget-exhausted": "The federation's budget has no room",
    "simulation-forbidden": "The federation admits no simulated noise",
    "idempotency-mismatch": "The idempotency key was used with another body",
    "precondition-failed": "It is no longer as it was",
    "payload-too-large": "The body is too large",
    "unsupported-media-type": "The body has the wrong media type",
    "request-timeout": "The request came too slowly",
    "rate-limited": "There are too many requests at once",
    "too-many-streams": "There are too many event streams",
    "unavailable": "The service cannot answer just now",
    "internal-error": "The service failed",
}
_SLUGS = {404: "not-found", 405: "method-not-allowed", 413: "payload-too-large"}


class ProblemFault(BaseModel):
    """One fault of the input."""

    pointer: str
    """The field as a JSON pointer; below /query, /path or /header for a parameter."""
    message: str


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A relative URI whose last part names the kind of problem; a page there explains it."""
    title: str
    status: int
    detail: str
    instance: str
    """The request, by the id that its answer's X-Request-ID and the service's log have."""
    errors: list[ProblemFault] = []
    """Given where the input is at fault."""


class ProblemError(Exception):
    """Ends a request with a problem document; `members` are added to it."""

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members


def type_of(slug: str) -> str:
    """The address of a kind of problem, relative to the service."""
    return f"{_TYPES}{slug}"


def not_found(what: str) -> ProblemError:
    """The answer for what does not exist, and for what belongs to another project."""
    return ProblemError(404, "not-found", f"there is no such {what}")


def invalid(pointer: str, message: str) -> ProblemError:
    """The answer for one invalid field or parameter."""
    return _invalid([FieldError(pointer, message)])


def problem_response(error: ProblemError, scope: Mapping[str, Any]) -> JSONResponse:
    """The document of a problem that a request met."""
    document = {
        "type": type_of(error.slug),
        "title": TITLES[error.slug],
        "status": error.status,
        "detail": error.detail,
        "instance": instance_of(scope),
        **error.members,
    }
    if error.errors:
        document["errors"] = [
            {"pointer": fault.pointer, "message": fault.message} for fault in error.errors
        ]
    # Some answers come from outside of what sets these headers.
    headers = {"X-Content-Type-Options": "nosniff", HEADER: request_id(scope), **error.headers}
    return JSONResponse(document, error.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every failure of the application end in a problem document."""
    handlers: dict[type[Exception], Any] = {
        ProblemError: _answer_problem,
        InvalidInputError: _answer_invalid_input,
        RequestValidationError: _answer_invalid_parameters,
        HTTPException: _answer_http_exception,
        OperationalError: _answer_outage,
        InterfaceError: _answer_outage,
        PoolTimeoutError: _answer_outage,
        StorageError: _answer_storage_failure,
        Exception: _answer_bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _invalid(errors: Sequence[FieldError]) -> ProblemError:
    places = [error.pointer or "the body" for error in errors]
    # Of several faults only where they are: `errors`, which is shown beside it, has each in full.
    detail = f"{places[0]}: {errors[0].message}" if len(errors) == 1 else _counted(places)
    return ProblemError(422, "validation-error", detail, errors=errors)


def _counted(places: Sequence[str]) -> str:
    named = list(dict.fromkeys(places))
    shown = ", ".join(named[:_MOST_NAMED]) + (", ..." if len(named) > _MOST_NAMED else "")
    return f"{len(places)} faults, in {shown}"


async def _answer_problem(request: Request, error: ProblemError) -> JSONResponse:
    return problem_response(error, request.scope)


async def _answer_invalid_input(request: Request, error: InvalidInputError) -> JSONResponse:
    return problem_response(_invalid(error.errors), request.scope)


async def _answer_invalid_parameters(
    request: Request, error: RequestValidationError
) -> JSONResponse:
    faults = [_parameter_fault(found) for found in error.errors()]
    return problem_response(_invalid(faults), request.scope)


def _parameter_fault(found: Mapping[str, Any]) -> FieldError:
    message = found["msg"].removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        message = "unknown parameter; remove it or correct its name"
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in found["loc"]]
    stated = (found.get("ctx") or {}).get("pointer")
    return FieldError(stated or "".join(f"/{step}" for step in steps), message)


async def _answer_http_exception(request: Request, error: HTTPException) -> JSONResponse:
    headers = {**(error.headers or {})}
    if error.status_code == 405 and (allowed := _methods_of_path(request)):
        # The framework names those of one route; other routes of the path have others.
        headers = {name: value for name, value in headers.items() if name.lower() != "allow"}
        headers["Allow"] = ", ".join(sorted(allowed))
    slug = _SLUGS.get(error.status_code, "validation-error")
    detail = "there is no such path" if error.status_code == 404 else str(error.detail)
    found = ProblemError(error.status_code, slug, detail, headers=headers)
    return problem_response(found, request.scope)


def _methods_of_path(request: Request) -> set[str]:
    """The methods that some route of the request's path takes."""
    found = set()
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            found.add(method)
    return found


async def _answer_outage(request: Request, error: Exception) -> JSONResponse:
    log.error("database away", error=type(error).__name__, detail=str(error)[:300])
    full = any(words in str(error) for words in _DISK_FULL)
    detail = "the database's disk is full" if full else "the database does not answer"
    outage = ProblemError(503, "unavailable", detail, headers={"Retry-After": "2"})
    return problem_response(outage, request.scope)


async def _answer_storage_failure(request: Request, error: StorageError) -> JSONResponse:
    log.error("storage failed", detail=str(error), cause=repr(error.__cause__)[:300])
    return problem_response(ProblemError(503, "unavailable", str(error)), request.scope)


async def _answer_bug(request: Request, error: Exception) -> JSONResponse:
    instance = instance_of(request.scope)
    log.error("request failed", path=request.url.path, instance=instance, exc_info=error)
    detail = "an unexpected error; the service's log has it under `instance`"
    return problem_response(ProblemError(500, "internal-error", detail), request.scope)
