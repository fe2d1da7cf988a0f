"""Files that were there once: 410 with when and why, rather than 404."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from models.repositories import ExpiredFileRepository
from models.tables.federations import ExpiredFile
from models.values import FileKind

_SETTINGS: dict[FileKind, str] = {
    "artifact": "FEDAUDIT_KEEP_ARTIFACTS_DAYS",
    "attack-files": "FEDAUDIT_KEEP_RESULTS_DAYS",
    "model": "FEDAUDIT_KEEP_RESULTS_DAYS",
    "record-table": "FEDAUDIT_KEEP_RESULTS_DAYS",
}
_WHAT: dict[FileKind, str] = {
    "artifact": "the file of parameters",
    "attack-files": "what attacks found",
    "model": "the trained model",
    "record-table": "the record table",
}


def refuse_gone(session: Session, project_id: str, kind: FileKind, owner: str) -> None:
    """Raises ProblemError where the project had this file and it was removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    if found is not None:
        raise ProblemError(
            410, "gone", why_gone(found), reason=found.reason, gone_at=found.expired_at.isoformat()
        )


def why_gone(found: ExpiredFile) -> str:
    """When and why a file was removed, as a sentence."""
    when = f"{found.expired_at:%Y-%m-%d}"
    what = _WHAT[found.kind]
    if found.reason == "erased":
        return f"{what} was erased with its federation on {when}"
    days = f"{found.kept_days} days ({_SETTINGS[found.kind]})"
    return f"{what} expired on {when}: this service keeps such files for {days}"


def gone_words(session: Session, project_id: str, kind: FileKind, owner: str) -> str | None:
    """The same as a sentence for a page; None where the file was not removed."""
    found = ExpiredFileRepository(session, project_id).get(kind, owner)
    return None if found is None else why_gone(found)
