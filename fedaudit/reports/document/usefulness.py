"""Whether the model of a stored report decides anything, whichever version wrote it."""

from collections.abc import Mapping
from typing import Any

NOT_COMPARED = (
    "the report does not say whether the model is better than a constant prediction; it was made "
    "before reports did"
)


def is_compared(report: Mapping[str, Any]) -> bool:
    """Whether the report compares its model with a constant prediction, or was made when reports
    did so and lacks it."""
    utility = report["utility"]
    return any(name in utility for name in ("degenerate", "baseline", "start_loss")) or (
        report.get("verdict_parts") is not None
    )


def why_not_useful(report: Mapping[str, Any]) -> str | None:
    """Why the model is degenerate, or not shown to be better than a constant; None where it is
    shown."""
    utility = report["utility"]
    if not is_compared(report):
        return NOT_COMPARED
    if utility.get("degenerate") is False:
        return None
    reason: str = utility["reasons"].get("degenerate", NOT_COMPARED)
    return reason
