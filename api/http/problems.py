"""Refusals as problem documents (RFC 9457), whatever they come from."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match, Mount

from api.http.observation import HEADER, METHODS, instance_of, request_id
from fedaudit.spec.errors import FieldError, InvalidInputError, fault_words, pointer
from infrastructure.storage import StorageError
from models.database import AWAY, outage

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_MOST_NAMED = 5
MAX_FAULTS = 100
"""Most faults of an answer: a body may have as many as it has fields."""


KINDS = {
    "validation-error": (422, "The request is not valid"),
    "unauthorised": (401, "A valid API key is needed"),
    "forbidden": (403, "The API key does not allow this"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "gone": (410, "It was there and is gone"),
    "conflict": (409, "The request does not fit the present state"),
    "budget-exhausted": (409, "The federation's budget has no room"),
    "simulation-forbidden": (409, "The federation admits no simulated noise"),
    "idempotency-mismatch": (409, "The idempotency key was used with another body"),
    "payload-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body has the wrong media type"),
    "request-timeout": (408, "The request came too slowly"),
    "rate-limited": (429, "There are too many requests at once"),
    "too-many-streams": (429, "There are too many event streams"),
    "unavailable": (503, "The service cannot answer just now"),
    "internal-error": (500, "The service failed"),
}
"""Every kind of problem, by the last part of its type: its status unless one is given, and title.
What to do is in the `detail` of each."""


class ProblemFault(BaseModel):
    """One fault of the input."""

    pointer: str
    """The field as a JSON pointer; below /query, /path or /header for a parameter."""
    message: str


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A relative URI whose last part names the kind of problem."""
    title: str
    status: int
    detail: str
    instance: str
    """The request, by the id in its answer's X-Request-ID and in the service's log."""
    errors: list[ProblemFault] = []
    """Given where the input is at fault; the first 100."""


class ProblemError(Exception):
    """Ends a request with a problem document; `members` are added to it. `retry_seconds`: when to
    ask again."""

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        status: int | None = None,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        retry_seconds: int | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status or KINDS[slug][0]
        self.slug = slug
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        if retry_seconds is not None:
            self.headers["Retry-After"] = str(retry_seconds)
        self.members = members


def not_found(what: str) -> ProblemError:
    """The answer for what does not exist, and for what belongs to another project."""
    return ProblemError("not-found", f"there is no such {what}")


def conflict(detail: str, **members: Any) -> ProblemError:
    """The answer for a valid request that does not fit the present state."""
    return ProblemError("conflict", detail, **members)


def unavailable(detail: str, *, retry_seconds: int | None = None) -> ProblemError:
    """The answer where the service cannot do now what it can do at other times."""
    return ProblemError("unavailable", detail, retry_seconds=retry_seconds)


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
        if len(errors) > MAX_FAULTS:
            detail += f"; the first {MAX_FAULTS} are shown"
    return ProblemError("validation-error", detail, errors=errors[:MAX_FAULTS])


def problem_response(error: ProblemError, scope: Mapping[str, Any]) -> JSONResponse:
    """The document of a problem that a request met."""
    document = {
        "type": f"/problems/{error.slug}",
        "title": KINDS[error.slug][1],
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
    faults = []
    for found in error.errors():
        message = fault_words(found).replace("unknown field", "unknown parameter")
        stated = (found.get("ctx") or {}).get("pointer")
        faults.append(FieldError(stated or pointer(*found["loc"]), message))
    return _invalid(faults)


def allowed_methods(scope: Mapping[str, Any]) -> list[str]:
    """The methods that the path of a request has, by all of its routes; none where it has none."""

    def has(method: str) -> bool:
        asked = {**scope, "method": method}
        routes = scope["app"].router.routes
        # What is mounted are files, whatever method it matches.
        found = (one for one in routes if method == "GET" or not isinstance(one, Mount))
        return any(one.matches(asked)[0] is Match.FULL for one in found)

    found = {method for method in METHODS if has(method)}
    implied = {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())
    return sorted(found | implied) if found else []


def _http_problem(request: Request, error: HTTPException) -> ProblemError:
    headers = {name.lower(): text for name, text in (error.headers or {}).items()}
    if error.status_code == 405:
        # The framework names the methods of one route; other routes of the path have others.
        headers["allow"] = ", ".join(allowed_methods(request.scope))
    slugs = {404: "not-found", 405: "method-not-allowed", 413: "payload-too-large"}
    slug = slugs.get(error.status_code, "validation-error")
    detail = "there is no such path" if error.status_code == 404 else str(error.detail)
    return ProblemError(slug, detail, status=error.status_code, headers=headers)


def _outage(_request: Request, error: Exception) -> ProblemError:
    log.error("database away", **outage(error))
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
    detail = f"an unexpected error; the service's log has it under {instance}"
    return ProblemError("internal-error", detail)
