"""Earlier fields of reports: renamed ones, which a report has under both names and an older report
only under the earlier one, and retired ones, which only older reports have."""

from typing import Any

_COST_ALIASES = {
    "privacy_cost_by_group": "who_pays",
    "privacy_cost_by_group_reason": "who_pays_reason",
}


def fill_cost_aliases(values: Any) -> Any:
    """The values of a fairness section, with each of two names filled in from the other."""
    if not isinstance(values, dict):
        return values
    filled = dict(values)
    for name, alias in _COST_ALIASES.items():
        if name in filled:
            filled.setdefault(alias, filled[name])
        elif alias in filled:
            filled[name] = filled[alias]
    return filled


def without_retired_rows(values: Any) -> Any:
    """The values of a cross-check without the number of rows, which earlier reports stated."""
    if not isinstance(values, dict):
        return values
    return {name: value for name, value in values.items() if name not in ("rows", "reasons")}
