"""The table of a sweep: a row for each combination, its figures over seeds, and which is best.

A figure is called best in a row only where its interval lies beyond those of all other rows. Every
figure is measured on the same held-out clients by which the rows are compared, so that the best of
many looks better than it is: the table says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from fedaudit.spec.sweeps import SEED
from fedaudit.sweeps.seed_spread import Spread, spread

Direction = Literal["lower", "higher"]

_HIGHER = ("accuracy", "accuracy_over_baseline", "loss_under_baseline")
_NEITHER = (
    *("prediction_share", "participations_max", "rounds", "collapsed_rounds"),
    # For stopping alone: the more hypotheses there are, the more optimistic it is.
    "selection_loss",
    # Of a constant prediction: they say what the held-out people are like.
    *("baseline_accuracy", "baseline_loss"),
)
_COSTS = ("epsilon_max", "log_ratio_max", "leakage_max")
"""What a row costs, the strongest statement first."""
_COUNTED_AS = {
    "epsilon_max": "epsilon",
    "log_ratio_max": "log_ratio",
    **dict.fromkeys(("leakage_median", "leakage_max", "leakage_per_release"), "leakage"),
}
"""The figures that say what a cell costs, and what they are counted as."""
_UTILITIES = ("accuracy", "validation_loss")
_GAP = "equalized_odds_difference"
_GAPS = (_GAP, "demographic_parity_difference", "equal_opportunity_difference")

SELECTED = (
    "the rows are compared by the held-out clients that also measure them: the figures of a row "
    "that was chosen for them look better than they are; measure it again on clients that no cell "
    "has seen"
)
COVERED = (
    "choosing among the cells costs no more privacy than all cells together: state the sweep's "
    "costs, not those of the chosen cell"
)
SURVIVORS = (
    "cells that failed, were cancelled or go on have no figures: a row that lacks some is called "
    "best in nothing and is not on the front, because which seeds fail is not chance"
)
ONE_SEED = "one seed tells nothing of the spread, so no row is called best; give `repeats`"
OTHER_TERMS = (
    "the costs of the cells do not mean the same: their guarantees have other terms or noises, or "
    "one has none; so no row is called best by its cost, and the front leaves costs out"
)


class FigureSpread(Spread):
    """A figure of a row."""

    best: bool
    """Whether its interval lies beyond those of all other rows."""


class SweepRow(TypedDict):
    """One combination over its seeds."""

    values: dict[str, Any]
    experiment_ids: list[str]
    seeds: int
    """How many cells the row has; figures come from those that have ended well."""
    succeeded: int
    degenerate: int
    """Of these, how many models decide no better than a constant."""
    figures: dict[str, FigureSpread]
    unbounded: bool
    """Whether nothing bounds what a cell of it reveals: its costs are then null."""
    front: bool
    """Whether no other row is better in all of `front_figures`."""


class SweepTable(TypedDict):
    """All rows, in the order of the cells."""

    figures: list[str]
    """By name; those of an attribute as name[attribute]."""
    rows: list[SweepRow]
    front_figures: list[str]
    """By the means of which rows are on the front: cost, utility, fairness; as far as every row
    has them."""
    notes: list[str]


@dataclass(frozen=True)
class CellFigures:
    """What one cell has to show."""

    experiment_id: str
    values: Mapping[str, Any]
    succeeded: bool
    degenerate: bool
    figures: Mapping[str, float | None]
    cost_terms: Mapping[str, str]
    """What its costs mean, by what they are counted as: `leakage`, `log_ratio` or `epsilon`. Empty
    where nothing bounds what the cell reveals."""


def sweep_table(cells: Sequence[CellFigures]) -> SweepTable:
    """Rows of cells that differ in their seed alone."""
    grouped: dict[str, list[CellFigures]] = {}
    for cell in cells:
        grouped.setdefault(json.dumps(_without_seed(cell), sort_keys=True), []).append(cell)
    names = list(dict.fromkeys(name for cell in cells for name in cell.figures))
    rows = [_row(group, names) for group in grouped.values()]
    compared = [name for name in names if _means_the_same(cells, name)]
    for name in compared:
        _mark_best(rows, name)
    front_figures = _front_figures(rows, compared)
    _mark_front(rows, front_figures)
    notes = [SELECTED, COVERED] if len(rows) > 1 else []
    if len(rows) > 1 and all(row["seeds"] == 1 for row in rows):
        notes.append(ONE_SEED)
    costs = [name for name in names if name in _COSTS]
    if len(rows) > 1 and costs and not any(name in compared for name in costs):
        notes.append(OTHER_TERMS)
    if len(rows) > 1 and any(row["succeeded"] < row["seeds"] for row in rows):
        notes.append(SURVIVORS)
    return {"figures": names, "rows": rows, "front_figures": front_figures, "notes": notes}


def direction(name: str) -> Direction | None:
    """Which way a figure is better; None where neither is."""
    plain = name.partition("[")[0]
    if plain in _NEITHER:
        return None
    return "higher" if plain in _HIGHER or plain.endswith("_ratio") else "lower"


def _means_the_same(cells: Sequence[CellFigures], name: str) -> bool:
    """Whether a figure may be compared between cells: a cost only where it bounds the same."""
    counted_as = _COUNTED_AS.get(name)
    if counted_as is None:
        return True
    terms = {cell.cost_terms.get(counted_as) for cell in cells}
    return len(terms) == 1 and None not in terms


def _without_seed(cell: CellFigures) -> dict[str, Any]:
    return {path: value for path, value in cell.values.items() if path != SEED}


def _row(group: Sequence[CellFigures], names: Sequence[str]) -> SweepRow:
    figures: dict[str, FigureSpread] = {}
    for name in names:
        found = [one.figures.get(name) for one in group]
        figures[name] = {
            **spread(name, [value for value in found if value is not None]),
            "best": False,
        }
    return {
        "values": _without_seed(group[0]),
        "experiment_ids": [one.experiment_id for one in group],
        "seeds": len(group),
        "succeeded": sum(one.succeeded for one in group),
        "degenerate": sum(one.degenerate for one in group),
        "figures": figures,
        "unbounded": not all(one.cost_terms for one in group),
        "front": False,
    }


def _mark_best(rows: Sequence[SweepRow], name: str) -> None:
    """The row whose interval is beyond all others; rows without an interval, or without some of
    their seeds, leave it open."""
    better = direction(name)
    if better is None or len(rows) < 2:
        return
    sign = 1.0 if better == "higher" else -1.0
    ends = []
    for row in rows:
        figure = row["figures"][name]
        if figure["low"] is None or figure["high"] is None or row["succeeded"] < row["seeds"]:
            return
        ends.append(sorted((sign * figure["low"], sign * figure["high"])))
    first = max(range(len(rows)), key=lambda place: ends[place][0])
    others = [high for place, (_, high) in enumerate(ends) if place != first]
    # A model that decides nothing may well have the smallest gap of all.
    if ends[first][0] > max(others) and not rows[first]["degenerate"]:
        rows[first]["figures"][name]["best"] = True


def _front_figures(rows: Sequence[SweepRow], names: Sequence[str]) -> list[str]:
    def complete(name: str) -> bool:
        return all(row["figures"][name]["mean"] is not None for row in rows)

    found = []
    for kind in (_COSTS, _UTILITIES, _GAPS):
        of_kind = [one for plain in kind for one in names if one.partition("[")[0] == plain]
        found += [one for one in of_kind if complete(one)][:1]
    return found


def _mark_front(rows: Sequence[SweepRow], names: Sequence[str]) -> None:
    """Rows that no other row dominates, by their means; none where nothing can be compared.

    Rows that lack some of their seeds, or whose models decide nothing, are not compared: their
    figures would hide those of others.
    """
    if not names or len(rows) < 2:
        return
    compared = [row for row in rows if row["succeeded"] == row["seeds"] and not row["degenerate"]]
    points = [
        [
            (row["figures"][name]["mean"] or 0.0) * (-1.0 if direction(name) == "higher" else 1.0)
            for name in names
        ]
        for row in compared
    ]
    for row, point in zip(compared, points, strict=True):
        row["front"] = not any(_dominates(one, point) for one in points)


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether it is as good everywhere, and better somewhere; lower is better."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
