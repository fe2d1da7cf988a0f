"""What the runs of a sweep cost together, against an observer of all of them.

This covers the choice of the best run: composition holds for everything that was computed from the
data, so for any choice among it. The figure of a single run does not cover it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.number_text import bound_text
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.privacy.accounting.privacy_events import REPORT, adjacency_words, observer_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.unit_key import MADE_UP
from fedaudit.reports.sections.part import FigureRow
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.stored import ReservedCost

_UNPROTECTED = "a cell has no noise that can be counted, so nothing bounds what the sweep reveals"
_MIXED_NOISE = (
    "the noise of some cells is simulated, and can be drawn again by anyone who has the seed: "
    "nothing bounds what the sweep reveals"
)
_OTHER_COST = "cells are counted in different figures, which cannot be added up"
_NO_LOG_RATIO = "the mechanism is counted as an epsilon; see epsilon"
_NO_THEOREM = "the guarantee of a cell is heuristic: no theorem bounds it"
_NO_CLIP = "a cell has no clip, or none that is enforced: no theorem adds its releases up"
_ALL = ("leakage", "log_ratio_max", "epsilon")


class SweepEpsilon(TypedDict):
    """An epsilon of all cells together."""

    observer: str
    delta: float
    adjacency: str
    unit: str
    value: float
    cell_max: float
    """The largest of a single cell, at its own delta."""


class SweepCosts(TypedDict):
    """What all cells may cost together; null with a reason."""

    leakage: float | None
    log_ratio_max: float | None
    epsilon: list[SweepEpsilon]
    reasons: dict[str, str]


def sweep_costs(
    reserved: Sequence[ReservedCost], *, runs: Collection[str], facts: Mapping[str, Any]
) -> SweepCosts:
    """The cost of all runs together. `runs`: their ids; `facts`: their `SweepFacts`. Runs on
    generated data of different seeds spend on different people: the figure is the largest over
    these data. Files count as the same people, since one more line makes another file. The cost of
    the report to held-out people is a separate entry."""
    reasons = _reasons(facts)
    figures = {"leakage": "leakage", "log_ratio_max": "log_ratio"}
    uncovered = {
        "leakage": _UNPROTECTED,
        "log_ratio_max": _NO_THEOREM if "heuristic" in facts["guarantees"] else _NO_CLIP,
    }
    sums: dict[str, float | None] = dict.fromkeys(figures)
    for name, figure in figures.items():
        costs = [one for one in reserved if one.figure == figure]
        if name in reasons:
            continue
        if len({one.adjacency for one in costs}) > 1:
            reasons[name] = (
                "cells have other radii or clips: their leakages are of different neighbours, and "
                "are not added up; see log_ratio_max"
            )
        elif not _covers(costs, runs):
            reasons[name] = uncovered[name]
        elif any(len({one.unit_key for one in mine}) > 1 for mine in _by_people(costs)):
            # As by seed: a person's rows may then be in a client of each division.
            reasons[name] = (
                "cells divide the same data into clients differently, as where each seed deals the "
                "rows anew: no theorem adds up what they cost one person"
            )
        else:
            amounts = ([one.amount for one in mine] for mine in _by_people(costs))
            sums[name] = max(map(sum, amounts), default=0.0)
    return {
        "leakage": sums["leakage"],
        "log_ratio_max": sums["log_ratio_max"],
        "epsilon": _epsilons([one for one in reserved if one.figure == "epsilon"], runs, reasons),
        "reasons": reasons,
    }


def _covers(reserved: Iterable[ReservedCost], runs: Collection[str]) -> bool:
    return {one.experiment_id for one in reserved} == set(runs)


def _reasons(facts: Mapping[str, Any]) -> dict[str, str]:
    found = set(facts["cost_kinds"])
    if len(facts["noises"]) > 1:
        return dict.fromkeys(_ALL, _MIXED_NOISE)
    if "unbounded" in found:
        return dict.fromkeys(_ALL, _UNPROTECTED)
    if len(found) > 1:
        return dict.fromkeys(_ALL, _OTHER_COST)
    if found == {"epsilon"}:
        return dict.fromkeys(("leakage", "log_ratio_max"), _NO_LOG_RATIO)
    return {"epsilon": "metric privacy has no epsilon; see log_ratio_max"}


def _by_people(reserved: Iterable[ReservedCost]) -> list[list[ReservedCost]]:
    """The costs that the same people may bear, together."""
    found: dict[str, list[ReservedCost]] = {}
    for one in reserved:
        found.setdefault(one.federation_id if one.unit_key == MADE_UP else "", []).append(one)
    return list(found.values())


def _epsilons(
    reserved: Sequence[ReservedCost], runs: Collection[str], reasons: dict[str, str]
) -> list[SweepEpsilon]:
    """One entry for each group of costs that every run is in; of several populations, the largest.
    A group without some of the runs would bound a part of what the sweep reveals."""
    grouped: dict[tuple[str, ...], list[ReservedCost]] = {}
    for one in reserved:
        # What training costs has no bound where a reason says so; what a report costs may have.
        if "epsilon" not in reasons or one.observer == REPORT:
            group = (one.observer, one.adjacency, one.unit or "", one.unit_key)
            grouped.setdefault(group, []).append(one)
    found = []
    for _, costs in sorted(grouped.items()):
        if _covers(costs, runs):
            # At the smallest delta of all cells: the strongest statement that holds for all.
            delta = min(one.delta for one in costs)
            entry: SweepEpsilon = {
                "observer": costs[0].observer,
                "delta": delta,
                "adjacency": costs[0].adjacency,
                "unit": costs[0].unit or "client",
                "value": max(_together(mine, delta) for mine in _by_people(costs)),
                "cell_max": max(map(_alone, costs)),
            }
            found.append(entry)
    if "epsilon" not in reasons and all(one["observer"] == REPORT for one in found):
        reasons["epsilon"] = (
            "the guarantees of the cells are of other adjacencies, units or observers, and no "
            "theorem composes them"
        )
    return found


def _together(costs: Sequence[ReservedCost], delta: float) -> float:
    """The epsilon at `delta` of runs on the same people."""
    if len(costs) == 1 and costs[0].delta == delta:
        return _alone(costs[0])
    curves = [one.curve for one in costs if one.curve is not None]
    return composed_epsilon(np.sum(curves, axis=0), delta)


def _alone(one: ReservedCost) -> float:
    """The epsilon of one run at its own delta. Rounds that a lost worker repeats are charged
    again, beyond what the run was reserved for."""
    if one.enlarged and one.curve is not None:
        return max(one.amount, composed_epsilon(one.curve, one.delta))
    return one.amount


_FIGURES = ("log_ratio_max", "epsilon_max")


class SweepFacts(TypedDict):
    """Facts of all cells, each distinct word once."""

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
        if spec.scores_training_clients and spec.privacy.protects:
            conditions.add(
                "it covers all models, and no choice among cells by their figures, which are of "
                "rows of the clients that train"
            )
        for name, condition in found.conditions.items():
            if name in _FIGURES:
                conditions.add(condition)
            elif name == "leakage_max":
                of_leakage.add(condition)
    return {
        "cost_kinds": sorted({context.inputs.cost_kind for _, context in cells}),
        "noises": sorted({spec.privacy.noise for spec, _ in cells}),
        "guarantees": sorted(guarantees),
        "conditions": sorted(conditions),
        "leakage_conditions": sorted(of_leakage - conditions),
    }


NOT_IN_FORCE = (
    "cells draw simulated noise, which their seed repeats: the costs stated here are not in force, "
    "and no client is protected"
)
_NO_MORE = (
    "no client of the same data is charged more; a client in several data is charged for each"
)


def cost_lines(costs: SweepCosts) -> Iterator[FigureRow]:
    """The upper bounds on what all cells cost together that there are, then why there are no
    others."""
    for one in costs["epsilon"]:
        terms = (
            f"of a {one['unit']}, against {observer_words(one['observer'])}, "
            f"at delta = {one['delta']:g} under {adjacency_words(one['adjacency'])}; "
            f"a single cell at most {bound_text(one['cell_max'])}"
        )
        yield FigureRow("epsilon", bound_text(one["value"]), terms)
    named = (("log_ratio_max", "log ratio"), ("leakage", "leakage"))
    for field, name in named:
        value = costs[field]  # type: ignore[literal-required]
        if value is not None:
            yield FigureRow(name, bound_text(value), _NO_MORE)
    for field, name in (("epsilon", "epsilon"), *named):
        if field in costs["reasons"]:
            yield FigureRow(name, "", costs["reasons"][field])


def cost_cautions(facts: SweepFacts, costs: SweepCosts) -> Iterator[str]:
    """What the costs are not worth. Cells without a mechanism draw no noise in training."""
    draws = facts["cost_kinds"] != ["unbounded"] or costs["epsilon"]
    if draws and "simulation" in facts["noises"]:
        yield NOT_IN_FORCE if facts["noises"] == ["simulation"] else f"some {NOT_IN_FORCE}"
    if "heuristic" in facts["guarantees"]:
        yield (
            "the guarantee of cells is heuristic: what is counted follows a convention, and no "
            "theorem bounds what they reveal"
        )
    yield from facts["conditions"]
    yield from facts["leakage_conditions"]
