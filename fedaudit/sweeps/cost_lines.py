"""What a sweep costs together, in words: costs rounded up, and a reason for each that is null."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.charts.number_text import bound_text
from fedaudit.sweeps.sweep_costs import SweepCosts, SweepEpsilon
from fedaudit.sweeps.sweep_facts import SweepFacts

NOT_IN_FORCE = (
    "cells draw simulated noise, which their seed repeats: whatever is said of costs here is not "
    "in force, and protects nobody"
)
_NO_MORE = (
    "no client of the same data is charged more; whoever is in several data pays for each of them"
)
HEURISTIC = (
    "the guarantee of cells is heuristic: what is counted follows a convention, and no theorem "
    "bounds what they reveal"
)


@dataclass(frozen=True)
class CostLine:
    """One cost of all cells together."""

    name: str
    value: str | None
    """An upper bound; None where there is none."""
    remark: str
    """What the bound means, or why there is none."""


def cost_lines(costs: SweepCosts) -> Iterator[CostLine]:
    """Those that there are, then why there are no others."""
    for one in costs["epsilon"]:
        yield CostLine("epsilon", bound_text(one["value"]), _terms(one))
    named = (("log_ratio_max", "log ratio"), ("leakage", "leakage"))
    for field, name in named:
        value = costs[field]  # type: ignore[literal-required]
        if value is not None:
            yield CostLine(name, bound_text(value), _NO_MORE)
    for field, name in (("epsilon", "epsilon"), *named):
        if field in costs["reasons"]:
            yield CostLine(name, None, costs["reasons"][field])


def cost_cautions(facts: SweepFacts) -> Iterator[str]:
    """What the costs are not worth."""
    if "simulation" in facts["noises"]:
        yield NOT_IN_FORCE if facts["noises"] == ["simulation"] else f"some {NOT_IN_FORCE}"
    if "heuristic" in facts["guarantees"]:
        yield HEURISTIC
    yield from facts["conditions"]
    yield from facts["leakage_conditions"]


def _terms(one: SweepEpsilon) -> str:
    return (
        f"of a {one['unit']}, against {observer_words(one['observer'])}, "
        f"at delta = {one['delta']:g} under {adjacency_words(one['adjacency'])}; "
        f"a single cell at most {bound_text(one['cell_max'])}"
    )
