"""A column that seems sensitive: its groups, or why it is no attribute."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.federations.proposals.column_roles import MAX_GROUP_VALUES, sensitive_word
from fedaudit.federations.proposals.surveyed_columns import Column

_AGES = (30.0, 50.0)
_CODES = 20
_BITS = frozenset({"0", "1", "0.0", "1.0"})


@dataclass(frozen=True)
class AttributeGuess:
    """The groups of an attribute; None where a column has too many values to be one."""

    groups: tuple[str, ...] | None
    reason: str
    edges: tuple[float, ...] | None = None


def joinable_columns(columns: Sequence[Column]) -> dict[str, dict[str, str]]:
    """Attributes that columns of 0 and 1 seem to hold together: by their common beginning, each
    column and the rest of its name."""
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        start, mark, rest = column.name.rpartition("_")
        if mark and rest and start and set(column.distinct) <= _BITS and words_sound(start):
            found.setdefault(start, {})[column.name] = rest
    return {start: groups for start, groups in found.items() if len(groups) > 1}


def words_sound(name: str) -> bool:
    """Whether a name holds a word that sounds sensitive."""
    return sensitive_word(Column(name)) is not None


def guess_attribute(column: Column, word: str) -> AttributeGuess:
    """What a column whose name holds a sensitive word may be compared by."""
    named = f"a guess by its name (`{word}`)"
    if len(column.distinct) < 2:
        return AttributeGuess(None, f"{named}, but it has one value at most")
    if word in ("age", "agep") and column.numeric and len(column.distinct) > _CODES:
        return AttributeGuess((), f"{named}; a number, cut into groups by `edges`", _AGES)
    if column.many or len(column.distinct) > MAX_GROUP_VALUES:
        return AttributeGuess(
            None,
            f"{named}, but it has more than {MAX_GROUP_VALUES} values; bring them into groups to "
            "compare by it",
        )
    return AttributeGuess(tuple(column.distinct), f"{named}; {len(column.distinct)} groups")
