"""Warnings that a table has mostly the rows of other registered content."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.orm import Session

from models.repositories import NearCopyRepository
from models.repositories.near_copies import NearCopyOf

_SHOWN_SHARES = (0.99, 0.95, 0.9)
"""Coarse, so that files that differ by one row do not tell whether others have it."""
_SEPARATE = (
    "whose budget is separate: whoever has a row in both spends twice, and no budget adds it up"
)


def near_copy_warnings(
    session: Session, project_id: str, federation_ids: Sequence[str]
) -> dict[str, list[str]]:
    """By federation, what it has in common with others; other projects are not named."""
    found: dict[str, list[str]] = defaultdict(list)
    strangers: set[str] = set()
    for one in NearCopyRepository(session).of(federation_ids):
        if one.other_project_id == project_id:
            found[one.federation_id].append(_own(one))
        elif one.federation_id not in strangers:
            # The closest one comes first, and stands for all.
            strangers.add(one.federation_id)
            found[one.federation_id].append(_strangers(one))
    return found


def _own(one: NearCopyOf) -> str:
    return _alike(one, f"federation {one.other_id} of this project")


def _strangers(one: NearCopyOf) -> str:
    return _alike(one, "other registered content")


def _alike(one: NearCopyOf, whose: str) -> str:
    for share in _SHOWN_SHARES:
        if one.share >= share:
            return f"about {share:.0%} or more of its rows are those of {whose}, {_SEPARATE}"
    return f"nearly all rows of {whose} are among its rows, {_SEPARATE}"
