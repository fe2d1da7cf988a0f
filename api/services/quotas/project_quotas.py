"""What one project may run and store; decided in the transaction that adds to it."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from infrastructure.settings import Settings
from models.repositories import ProjectUsageRepository

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
