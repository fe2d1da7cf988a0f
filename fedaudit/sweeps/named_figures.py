"""The figures of a report under the names that tables over several runs give them."""

from collections.abc import Iterable
from typing import Protocol

from fedaudit.reports.figures import COUNTED, FIGURES

_PLACES = {name: place for place, name in enumerate(FIGURES) if name not in COUNTED}


class Figure(Protocol):
    """One figure, of a document or as it is stored."""

    @property
    def figure(self) -> str: ...
    @property
    def attribute(self) -> str | None: ...
    @property
    def observer(self) -> str | None: ...
    @property
    def value(self) -> float | None: ...


def named_figures(figures: Iterable[Figure]) -> dict[str, float | None]:
    """By name, those of an attribute as name[attribute], in the order of reports. Counts are left
    out, and epsilons against one observer: the largest of all stands for them."""
    found = [one for one in figures if not one.observer and one.figure in _PLACES]
    found.sort(key=lambda one: _PLACES[one.figure])
    return {
        f"{one.figure}[{one.attribute}]" if one.attribute else one.figure: one.value
        for one in found
    }
