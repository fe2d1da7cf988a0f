"""The one gap that a list shows of a report: the largest, with the attribute that it is about."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fedaudit.spec.metrics import HEADLINE_WITHOUT_OUTCOME, ROUND_METRICS


class Figure(Protocol):
    """A figure of an attribute, which is empty or None for figures that have none."""

    @property
    def figure(self) -> str: ...
    @property
    def attribute(self) -> str | None: ...
    @property
    def value(self) -> float | None: ...


@dataclass(frozen=True)
class LargestGap:
    """The figure with the largest value."""

    figure: str
    attribute: str
    value: float
    unmeasured: tuple[str, ...]
    """Attributes without any such figure, whose gap may be larger."""


def largest_gap(figures: Iterable[Figure]) -> LargestGap | None:
    """The largest difference of rates between groups over all attributes, by any of the metrics.

    Not by one metric for all: an attribute that lacks it could hide its gap. Where no outcome is
    favourable it is the largest difference of losses. None where there is neither.
    """
    of_attributes = [one for one in figures if one.attribute]
    for metrics in (ROUND_METRICS, (HEADLINE_WITHOUT_OUTCOME,)):
        found = [
            (one.value, one.figure, one.attribute)
            for one in of_attributes
            if one.figure in metrics and one.value is not None and one.attribute
        ]
        if found:
            value, figure, attribute = max(found, key=lambda one: one[0])
            measured = {name for _, _, name in found}
            known = dict.fromkeys(str(one.attribute) for one in of_attributes)
            unmeasured = tuple(name for name in known if name not in measured)
            return LargestGap(figure, attribute, value, unmeasured)
    return None
