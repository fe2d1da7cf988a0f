"""Pages of the history of what is set."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.http.cursors import decode_cursor, encode_cursor
from api.schemas.base import PageParameters
from api.schemas.people import ChangeBody, ChangePage
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.repositories import SettingChangeRepository
from models.repositories.audit_log import SubjectKind

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


def change_page(
    session: Session,
    caller: Caller,
    parameters: PageParameters,
    *,
    subject_kind: SubjectKind,
    subject: str,
) -> ChangePage:
    """The changes of one subject by the caller's project. Raises ProblemError for a cursor of
    another list."""
    route = f"changes:{subject_kind}:{subject}"
    page = SettingChangeRepository(session, caller.project_id).list(
        subject_kind,
        subject,
        cursor=decode_cursor(route, parameters.cursor, _KEY),
        limit=parameters.limit,
    )
    return ChangePage(
        items=[ChangeBody.of(row) for row in page.items],
        next_cursor=encode_cursor(route, page.next_cursor),
    )
