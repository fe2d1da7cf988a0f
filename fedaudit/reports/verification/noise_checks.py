"""Whether a report's noise multiplier follows from its spec."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.document.checks import Check, check, shown, value_at
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec

_NAME = "report.noise_multiplier"
_DIGITS = 1e-6
"""Relative: another library or machine may calibrate noise to slightly different digits."""


def noise_checks(spec: ExperimentSpec, report: Mapping[str, Any]) -> Iterator[Check]:
    """One check, or none for a report of an earlier version, which lacks the figure."""
    privacy = value_at(report, "privacy")
    if not isinstance(privacy, Mapping) or "noise_multiplier" not in privacy:
        return
    stated = privacy["noise_multiplier"]
    try:
        found = mechanism_of(spec).noise_multiplier()
    except InvalidInputError as error:
        yield check(_NAME, False, good="", bad=f"no noise follows from the spec: {error}")
        return
    known = None if isinstance(found, str) else found
    yield check(
        _NAME,
        _agree(stated, known),
        good="privacy.noise_multiplier follows from the spec",
        bad=f"privacy.noise_multiplier is {shown(stated)} in the report and {shown(known)} by "
        "the spec",
    )


def _agree(stated: Any, known: float | None) -> bool:
    if known is None or isinstance(stated, bool) or not isinstance(stated, int | float):
        return known is None and stated is None
    try:
        return math.isclose(stated, known, rel_tol=_DIGITS)
    except OverflowError:  # an integer beyond all floats
        return False
