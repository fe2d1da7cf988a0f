"""What the report of a cell says of its sweep."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.reports.sections.other_runs import SweepEpsilonSection, SweepSection
from fedaudit.sweeps.sweep_costs import SweepCosts

SUMS = ("sweep_epsilon_max", "sweep_log_ratio_max", "sweep_leakage")
"""What all cells cost together; null where there is no sum, as where nothing bounds one."""
_AS_BOOKED = (
    "of all {cells} cells together, in {tries} runs{at_delta}, as they had booked it {when}; files "
    "are taken to be about the same people, and of made-up data those that pay most count; cells "
    "that are tried again add to it: the sweep itself (its page, GET /v1/sweeps/{{id}}) has the "
    "sum of today"
)


@dataclass(frozen=True)
class CellPlace:
    """Which cell of which sweep a run is."""

    sweep_id: str
    name: str
    cells: int
    position: int
    values: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Of all cells: `noises`, `guarantees`, `conditions` (`sweep_facts`)."""
    tries: int
    """Runs of all cells: one that was tried again counts as often as it was tried."""


def sweep_section(
    place: CellPlace, costs: SweepCosts, *, when: str = "when this report was made"
) -> SweepSection:
    """The section; a figure's reason says since when it is what it is, which is `when`."""
    of_training = [one for one in costs["epsilon"] if one["observer"] != REPORT]
    largest = max(of_training, key=lambda one: one["value"], default=None)
    at_delta = "" if largest is None else f" at delta = {largest['delta']:g}"
    booked = partial(_AS_BOOKED.format, cells=place.cells, tries=place.tries, when=when)
    reasons = {
        "sweep_epsilon_max": costs["reasons"].get("epsilon") or booked(at_delta=at_delta),
        "sweep_log_ratio_max": costs["reasons"].get("log_ratio_max") or booked(at_delta=""),
        "sweep_leakage": costs["reasons"].get("leakage") or booked(at_delta=""),
    }
    return SweepSection(
        id=place.sweep_id,
        name=place.name,
        cells=place.cells,
        position=place.position,
        tries=place.tries,
        values=dict(place.values),
        sweep_epsilon_max=None if largest is None else largest["value"],
        sweep_log_ratio_max=costs["log_ratio_max"],
        sweep_leakage=costs["leakage"],
        epsilon=[
            SweepEpsilonSection(
                observer=one["observer"],
                delta=one["delta"],
                adjacency=one["adjacency"],
                unit=one["unit"],
                value=one["value"],
            )
            for one in costs["epsilon"]
        ],
        noises=list(place.facts["noises"]),
        guarantees=list(place.facts["guarantees"]),
        conditions=list(place.facts["conditions"]),
        reasons=reasons,
    )


def larger_sums(now: Mapping[str, Any], stated: Mapping[str, Any]) -> list[str]:
    """Those of SUMS that a later section of the same sweep has larger; one that nothing bounds any
    more is larger than any."""
    return [name for name in SUMS if _is_larger(now[name], than=stated[name])]


def _is_larger(now: float | None, *, than: float | None) -> bool:
    return than is not None and (now is None or now > than)
