"""Refusals as problem documents (RFC 9457), whatever they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from api.http.observation import HEADER, METHODS, instance_of, request_id
from fedaudit.spec.errors import FieldError, InvalidInputError
from infrastructure.storage import StorageError
from models.database import AWAY

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_MOST_NAMED = 5


@dataclass(frozen=True)
class Kind:
    """A kind of problem in words, as its page at `/problems/{slug}` shows it."""

    title: str
    statuses: tuple[int, ...]
    means: str
    remedy: str


KINDS: dict[str, Kind] = {
    "validation-error": Kind(
        "The request is not valid",
        (400, 422),
        "A field or parameter is missing, unknown or out of range, or the data contradict their "
        "description. Nothing was stored.",
        "`errors` lists every fault, each with its field as a JSON pointer (below /query, /path or "
        "/header for a parameter) and the remedy. Correct them and send it again.",
    ),
    "unauthorised": Kind(
        "A valid API key is needed",
        (401,),
        "The request has no API key, or an unknown or revoked one.",
        "Send `Authorization: Bearer KEY` with a key in force. `fedaudit up` prints one; `fedaudit "
        "keys create` and `POST /v1/api-keys` make others.",
    ),
    "forbidden": Kind(
        "The API key does not allow this",
        (403,),
        "The key is in force and lacks the scope that this call needs; `scope` names it. Forms "
        "that were not sent from the service's own pages are refused too.",
        "Use a key with the scope, or ask the project's administrator for one.",
    ),
    "not-found": Kind(
        "There is no such thing",
        (404,),
        "There is nothing at this address in the key's project. Objects of other projects are "
        "answered alike.",
        "Check the address, the id, and the key's project.",
    ),
    "method-not-allowed": Kind(
        "The method is not allowed here",
        (405,),
        "The address exists and does not take this method.",
        "The header `Allow` names the methods that it takes.",
    ),
    "gone": Kind(
        "It was there and is gone",
        (410,),
        "The object was removed: it expired, or was erased with its federation. `reason` and "
        "`gone_at` say which, and when.",
        "Run the experiment again, or upload the file again; the service's operator sets how long "
        "files are kept.",
    ),
    "conflict": Kind(
        "The request does not fit the present state",
        (409,),
        "The request is valid and does not fit the present state: an experiment that has ended "
        "cannot be cancelled, data that are still being profiled have no profile.",
        "`detail` names the state. Wait for another, or ask for something else.",
    ),
    "budget-exhausted": Kind(
        "The federation's budget has no room",
        (409,),
        "The experiment's worst-case cost exceeds what is left of a budget on its data.",
        "Ask for fewer rounds, smaller cohorts or more noise; `?validate_only=true` shows the cost "
        "of a spec and stores nothing. Or let the owner of the data raise the total.",
    ),
    "simulation-forbidden": Kind(
        "The federation admits no simulated noise",
        (409,),
        "The owner of these data admits no experiment whose noise can be drawn again from its "
        "seed, and none without noise.",
        "Set `noise: release` under `privacy`.",
    ),
    "idempotency-mismatch": Kind(
        "The idempotency key was used with another body",
        (409,),
        "The same `Idempotency-Key` was sent before with another body.",
        "Use a new key for a new request, and the old one only to repeat a request unchanged.",
    ),
    "payload-too-large": Kind(
        "The body is too large",
        (413,),
        "The body, a part of it or the file is larger than the service takes.",
        "`detail` has the limit. Send large data as an upload, or put the file below the service's "
        "sources folder and register its path.",
    ),
    "unsupported-media-type": Kind(
        "The body has the wrong media type",
        (415,),
        "The header Content-Type is missing or names a form that is not taken here.",
        "Send JSON as application/json, uploads as multipart/form-data.",
    ),
    "request-timeout": Kind(
        "The request came too slowly",
        (408,),
        "The body stopped for too long, or came at less than a kilobyte a second.",
        "Send it again over a better connection.",
    ),
    "rate-limited": Kind(
        "There are too many requests at once",
        (429,),
        "The project has too many requests waiting for data to be loaded, or reached the quota "
        "that `quota` names.",
        "Wait as long as `Retry-After` says and send fewer at once, or do what `detail` says.",
    ),
    "too-many-streams": Kind(
        "There are too many event streams",
        (429, 503),
        "The key, or this process of the service, has reached its limit of open event streams.",
        "Close unused streams, or wait as long as `Retry-After` says.",
    ),
    "unavailable": Kind(
        "The service cannot answer just now",
        (503,),
        "The database or the storage does not answer or is full, the database's schema is of "
        "another version, or there are too many connections.",
        "Try again, after `Retry-After` where it is given. If it lasts, give the service's "
        "operator the `instance`, by which the log names the request.",
    ),
    "internal-error": Kind(
        "The service failed",
        (500,),
        "An unexpected error.",
        "Give the service's operator the `instance`, by which the log names the request. Ask for "
        "the object to see whether it was stored.",
    ),
}


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
    """The request, by the id in its answer's X-Request-ID and in the service's log."""
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
    return f"/problems/{slug}"


def not_found(what: str) -> ProblemError:
    """The answer for what does not exist, and for what belongs to another project."""
    return ProblemError(404, "not-found", f"there is no such {what}")


def conflict(detail: str, **members: Any) -> ProblemError:
    """The answer for a valid request that does not fit the present state."""
    return ProblemError(409, "conflict", detail, **members)


def unavailable(detail: str, *, retry_seconds: int | None = None) -> ProblemError:
    """The answer where the service cannot do now what it can do at other times."""
    headers = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
    return ProblemError(503, "unavailable", detail, headers=headers)


def invalid(pointer: str, message: str) -> ProblemError:
    """The answer for one invalid field or parameter."""
    return _invalid([FieldError(pointer, message)])


def _invalid(errors: Sequence[FieldError]) -> ProblemError:
    places = [error.pointer or "the body" for error in errors]
    detail = f"{places[0]}: {errors[0].message}"
    if len(errors) > 1:
        # Of several faults only where they are: `errors`, shown beside it, has each in full.
        named = list(dict.fromkeys(places))
        shown = ", ".join(named[:_MOST_NAMED]) + (", ..." if len(named) > _MOST_NAMED else "")
        detail = f"{len(places)} faults, in {shown}"
    return ProblemError(422, "validation-error", detail, errors=errors)


def problem_response(error: ProblemError, scope: Mapping[str, Any]) -> JSONResponse:
    """The document of a problem that a request met."""
    document = {
        "type": type_of(error.slug),
        "title": KINDS[error.slug].title,
        "status": error.status,
        "detail": error.detail,
        "instance": instance_of(scope),
        **error.members,
    }
    if error.errors:
        document["errors"] = [
            {"pointer": fault.pointer, "message": fault.message} for fault in error.errors
        ]
    # Some answers come from outside of the middleware that sets these headers.
    headers = {"X-Content-Type-Options": "nosniff", HEADER: request_id(scope), **error.headers}
    return JSONResponse(document, error.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every failure of the application end in a problem document."""
    problems: dict[type[Exception], Any] = {
        ProblemError: lambda _request, error: error,
        InvalidInputError: lambda _request, error: _invalid(error.errors),
        RequestValidationError: _invalid_parameters,
        HTTPException: _http_problem,
        **dict.fromkeys(AWAY, _outage),
        StorageError: _storage_failure,
        Exception: _bug,
    }
    for kind, problem in problems.items():

        async def answer(request: Request, error: Exception, problem: Any = problem) -> Any:
            return problem_response(problem(request, error), request.scope)

        app.add_exception_handler(kind, answer)


def _invalid_parameters(_request: Request, error: RequestValidationError) -> ProblemError:
    return _invalid([_parameter_fault(found) for found in error.errors()])


def _parameter_fault(found: Mapping[str, Any]) -> FieldError:
    message = found["msg"].removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        message = "unknown parameter; remove it or correct its name"
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in found["loc"]]
    stated = (found.get("ctx") or {}).get("pointer")
    return FieldError(stated or "".join(f"/{step}" for step in steps), message)


def _http_problem(request: Request, error: HTTPException) -> ProblemError:
    headers = {**(error.headers or {})}
    if error.status_code == 405:
        # The framework names the methods of one route; other routes of the path have others.
        allowed = [
            method
            for method in METHODS
            if any(
                route.matches({**request.scope, "method": method})[0] is Match.FULL
                for route in request.app.router.routes
            )
        ]
        if allowed:
            headers = {name: text for name, text in headers.items() if name.lower() != "allow"}
            headers["Allow"] = ", ".join(allowed)
    slugs = {404: "not-found", 405: "method-not-allowed", 413: "payload-too-large"}
    slug = slugs.get(error.status_code, "validation-error")
    detail = "there is no such path" if error.status_code == 404 else str(error.detail)
    return ProblemError(error.status_code, slug, detail, headers=headers)


def _outage(_request: Request, error: Exception) -> ProblemError:
    log.error("database away", error=type(error).__name__, detail=str(error)[:300])
    # As SQLite and Postgres say it.
    full = ("database or disk is full", "No space left on device")
    if any(words in str(error) for words in full):
        return unavailable("the database's disk is full", retry_seconds=2)
    return unavailable("the database does not answer", retry_seconds=2)


def _storage_failure(_request: Request, error: StorageError) -> ProblemError:
    log.error("storage failed", detail=str(error), cause=repr(error.__cause__)[:300])
    return unavailable(str(error))


def _bug(request: Request, error: Exception) -> ProblemError:
    instance = instance_of(request.scope)
    log.error("request failed", path=request.url.path, instance=instance, exc_info=error)
    detail = "an unexpected error; the service's log has it under `instance`"
    return ProblemError(500, "internal-error", detail)
