"""Quotas of a project: requests a minute, experiments at once, bytes stored."""

import time

from sqlalchemy.orm import Session
from starlette.types import Scope

from api.http.middleware import RATE_LIMIT
from api.http.problems import ProblemError
from api.shared.resources import Resources
from infrastructure.settings import Settings
from models.repositories import ProjectUsageRepository

_SECONDS = 60


def count_request(resources: Resources, project_id: str, scope: Scope) -> None:
    """Raises ProblemError where the project has made all requests of this minute."""
    limit = resources.settings.quota_requests_per_minute
    if limit is None:
        return
    now = int(time.time())
    with resources.database.write() as session:
        used = ProjectUsageRepository(session, project_id).count_request(now // _SECONDS)
    left = _SECONDS - now % _SECONDS
    scope.setdefault("state", {})[RATE_LIMIT] = {
        "RateLimit-Policy": f'"requests";q={limit};w=60',
        "RateLimit": f'"requests";r={max(0, limit - used)};t={left}',
    }
    if used > limit:
        raise ProblemError(
            429,
            "rate-limited",
            f"the project has made its {limit} requests of this minute "
            f"(FEDAUDIT_QUOTA_REQUESTS_PER_MINUTE); send the request again in {left} seconds, or "
            "ask whoever runs the service for more",
            headers={"Retry-After": str(left)},
            quota="requests-per-minute",
            limit=limit,
        )


_RETRY_SECONDS = {"running": "60", "stored-bytes": "3600"}


def refuse_over_running(session: Session, project_id: str, settings: Settings) -> None:
    """Call it last, with the new experiment stored. Raises ProblemError, to be followed by a
    roll-back, where it is one too many."""
    limit = settings.quota_running
    if limit is None:
        return
    usage = ProjectUsageRepository(session, project_id)
    usage.hold()
    if usage.running() > limit:
        raise _over(
            "running",
            limit,
            f"the project has {limit} experiments or attacks queued or running already "
            "(FEDAUDIT_QUOTA_RUNNING); wait for the end of one, or cancel one",
        )


def refuse_over_stored(session: Session, project_id: str, settings: Settings) -> None:
    """The same for a file that was stored and entered. Raises ProblemError."""
    limit = settings.quota_stored_bytes
    if limit is None:
        return
    usage = ProjectUsageRepository(session, project_id)
    usage.hold()
    if (stored := usage.stored_bytes()) > limit:
        raise _over(
            "stored-bytes",
            limit,
            f"with this file the project would store {stored} bytes, and {limit} are allowed "
            "(FEDAUDIT_QUOTA_STORED_BYTES); delete a federation or an artifact first",
        )


def _over(quota: str, limit: int, detail: str) -> ProblemError:
    return ProblemError(
        429,
        "rate-limited",
        detail,
        headers={"Retry-After": _RETRY_SECONDS[quota]},
        quota=quota,
        limit=limit,
    )
