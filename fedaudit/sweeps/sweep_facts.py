"""What is known of the cells of a sweep before they run, and decides what their sum is worth."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.experiment import ExperimentSpec

_FIGURES = ("log_ratio_max", "epsilon_max")
_LEAKAGE = ("leakage_max",)


class SweepFacts(TypedDict):
    """Of all cells, each distinct word once."""

    cost_kinds: list[str]
    """How costs are counted: `leakage`, `epsilon`, `unbounded`."""
    noises: list[str]
    """`simulation`, `release`."""
    guarantees: list[str]
    """`formal`, `heuristic`, `none`."""
    conditions: list[str]
    """Why a guarantee bounds some datasets only."""
    leakage_conditions: list[str]
    """The same of the leakage alone, which no gate on the sweep is about."""


def sweep_facts(cells: Sequence[tuple[ExperimentSpec, LedgerContext]]) -> SweepFacts:
    """The facts of all cells together."""
    conditions: set[str] = set()
    of_leakage: set[str] = set()
    guarantees: set[str] = set()
    for spec, context in cells:
        inputs = context.inputs
        found = mechanism_of(spec).guarantee(n=inputs.n, layers=inputs.component_sizes)
        guarantees.add(found.kind)
        of_leakage |= {found.conditions[name] for name in _LEAKAGE if name in found.conditions}
        conditions |= {found.conditions[name] for name in _FIGURES if name in found.conditions}
    return {
        "cost_kinds": sorted({context.inputs.cost_kind for _, context in cells}),
        "noises": sorted({spec.privacy.noise for spec, _ in cells}),
        "guarantees": sorted(guarantees),
        "conditions": sorted(conditions),
        "leakage_conditions": sorted(of_leakage - conditions),
    }
