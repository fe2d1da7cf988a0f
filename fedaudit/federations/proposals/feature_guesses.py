"""A column as a feature: its kind, its categories, and what becomes of its gaps."""

import math
import re
from dataclasses import dataclass
from typing import Any

from fedaudit.federations.levels import number_in
from fedaudit.federations.proposals.column_roles import words_of
from fedaudit.federations.proposals.surveyed_columns import Column

MAX_CATEGORIES = 50
_FEW_GAPS, _MANY_GAPS = 0.05, 0.5
_FEW_CODES = 10
_USABLE = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


@dataclass(frozen=True)
class FeatureGuess:
    """A feature as a registration names it, or None with the reason why the column is none."""

    feature: str | dict[str, Any] | None
    reason: str = ""
    scale: float | None = None


def usable_name(text: str) -> bool:
    """Whether a registration can name a column, or a category, so."""
    return bool(_USABLE.fullmatch(text))


def guess_feature(column: Column) -> FeatureGuess:
    """What a column that is neither sensitive, client key nor target may be."""
    why_none = _why_no_feature(column)
    if why_none is not None:
        return FeatureGuess(None, why_none)
    if column.numeric:
        return _number(column)
    feature = {"name": column.name, "kind": "categorical", "categories": column.distinct}
    numbers = sum(number_in(value) is not None for value in column.distinct)
    reason = "some of its texts are numbers, others are not" if numbers else ""
    return _with_gaps(column, feature, reason)


def _why_no_feature(column: Column) -> str | None:
    if len(column.distinct) < 2:
        return "it has one value at most"
    if column.missing > _MANY_GAPS * column.rows:
        return f"it is empty in {column.missing} of {column.rows} rows"
    if _identifies(column):
        return "it tells single rows apart, as an identifier does"
    if not column.numeric and (column.many or len(column.distinct) > MAX_CATEGORIES):
        return f"it holds more than {MAX_CATEGORIES} different texts"
    if not (column.numeric or all(map(usable_name, column.distinct))):
        return "its texts are too long for categories"
    return None


def power_above(size: float) -> float:
    """The power of ten that is not below a size; 1 for 0."""
    return float(10.0 ** math.ceil(math.log10(size))) if size > 0 else 1.0


def _number(column: Column) -> FeatureGuess:
    few = len(column.distinct) <= _FEW_CODES and not column.fractions and not column.many
    reason = ""
    if few and len(column.distinct) > 2:
        reason = "few whole numbers: if they are codes, give `kind: categorical` and `categories`"
    guess = _with_gaps(column, {"name": column.name}, reason)
    power = power_above(column.largest)
    return FeatureGuess(guess.feature, guess.reason, power if power > 1 else None)


def _with_gaps(column: Column, feature: dict[str, Any], reason: str) -> FeatureGuess:
    if not column.missing:
        return FeatureGuess(feature["name"] if len(feature) == 1 else feature, reason)
    share = f"{column.missing} of {column.rows} rows are empty"
    if column.missing <= _FEW_GAPS * column.rows:
        return FeatureGuess({**feature, "missing": "drop-row"}, _joined(share, reason))
    fill: Any = max(column.distinct, key=lambda value: column.values[value])
    if column.numeric:
        fill = number_in(fill) or 0.0
    gap = f"{share}, and too many to leave out: `fill` is the commonest value, better take another"
    filled = {**feature, "missing": "constant", "fill": fill}
    return FeatureGuess(filled, _joined(gap, reason))


def _joined(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _identifies(column: Column) -> bool:
    """Whether nearly every row has a value of its own that is no measurement."""
    named_so = {"id", "uuid", "name", "key"} & set(words_of(column.name))
    present = column.rows - column.missing
    many = column.many or len(column.distinct) > max(MAX_CATEGORIES, present / 2)
    return bool(many and (named_so or not column.numeric))
