"""The table of a sweep: a row for each combination, its figures over seeds, and which is best.

A row is best in a figure only if its interval is beyond the intervals of all other rows. Every
figure is measured on the same held-out clients by which the rows are compared, so the best of many
looks better than it is: the table says so.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from typing_extensions import TypedDict

from fedaudit.number_text import UNBOUNDED, at_most, plain, table
from fedaudit.reports.charts.report_charts import Measured, Point
from fedaudit.reports.checks import leaves
from fedaudit.reports.comparison.fronts import GROUPED_BY, MEASURED_BY, dominated_by
from fedaudit.reports.figures import direction
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS
from fedaudit.reports.sections.other_runs import SpreadSection
from fedaudit.spec.metrics import LEADING_METRICS, SHARES
from fedaudit.spec.sweeps import SEED
from fedaudit.spreadsheet import plain_text

LEVEL = 0.95


def spread(name: str, values: Sequence[float]) -> SpreadSection:
    """Spread of the values of all seeds that have the figure `name`, such as `accuracy` or
    `loss_ratio[sex]`, without infinite ones. Of costs it is the largest, since a mean bounds none
    of them."""
    found = [value for value in values if math.isfinite(value)]
    n = len(found)
    mean = math.fsum(found) / n if n else None
    if n and name in PRIVACY_COSTS:
        mean = max(found)
        found = [mean] * n
    if mean is None or n == 1:
        return {"n": n, "mean": mean, "standard_deviation": None, "low": None, "high": None}
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (n - 1))
    bounded = name.partition("[")[0] in SHARES
    # Takes a while to import, which commands without a sweep need not wait for.
    from scipy.special import stdtrit

    half = float(stdtrit((n - 1), 0.5 + LEVEL / 2)) * deviation / math.sqrt(n)
    return {
        "n": n,
        "mean": mean,
        "standard_deviation": deviation,
        "low": max(mean - half, 0.0) if bounded else mean - half,
        "high": min(mean + half, 1.0) if bounded else mean + half,
    }


_COSTS = ("epsilon_max", "log_ratio_max", "leakage_max")
"""What a row costs, the strongest statement first."""
_COUNTED_AS = {
    "epsilon_max": "epsilon",
    "log_ratio_max": "log_ratio",
    **dict.fromkeys(("leakage_median", "leakage_max", "leakage_per_release"), "leakage"),
}
"""The figures that say what a cell costs, and what they are counted as."""
_UTILITIES = ("accuracy", "validation_loss")
_DATA = ("source", "path", "id", "target", "classes", "positive")
_SCORED_BY = (*(f"federation.{name}" for name in _DATA), "training.method.kind")
"""What every figure of held-out people depends on: the data, and whose models are scored."""
_OF_FAVOURABLE = ("balanced_accuracy", "precision", "recall")

SELECTED = (
    "the rows are compared by the held-out clients that also measure them: the figures of a row "
    "that was chosen for them look better than they are; measure it again on clients that no cell "
    "has seen"
)
COVERED = (
    "choosing among the cells by held-out clients costs no more privacy than all cells together: "
    "state the sweep's costs, not those of the chosen cell"
)
SURVIVORS = (
    "cells that failed, were cancelled or go on have no figures: a row that lacks some is called "
    "best in nothing and is not on the front, because which seeds fail is not chance"
)
LARGEST = (
    "a row's costs are those of the seed that costs most, and no mean; all cells together cost "
    "what the sweep states"
)
ONE_SEED = "one seed shows no spread, so no row is called best; give `repeats`"
OTHER_TERMS = (
    "the costs of the cells do not mean the same: their guarantees have other terms or noises, or "
    "one has none or is contradicted by an attack; so no row is called best by its cost, and the "
    "front leaves costs out"
)


class FigureSpread(SpreadSection):
    """A figure of a row."""

    best: bool
    """Whether its interval is beyond the intervals of all other rows."""


class SweepRow(TypedDict):
    """One combination over its seeds."""

    values: dict[str, Any]
    experiment_ids: list[str]
    seeds: int
    """How many cells the row has; figures come from those that have ended well."""
    succeeded: int
    degenerate: int
    """Number of succeeded cells whose models decide no better than a constant."""
    figures: dict[str, FigureSpread]
    unbounded: bool
    """Whether nothing bounds what a cell of it reveals: its costs are then null."""
    front: bool
    """Whether no other row is better in all of `front_figures`."""


class SweepTable(TypedDict):
    """All rows, in the order of the cells."""

    figures: list[str]
    rows: list[SweepRow]
    front_figures: list[str]
    """The figures whose means decide which rows are on the front: cost, utility, fairness, where
    every row has them."""
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
    if costs and any(row["seeds"] > 1 for row in rows):
        notes.append(LARGEST)
    if len(rows) > 1 and any(row["succeeded"] < row["seeds"] for row in rows):
        notes.append(SURVIVORS)
    return {"figures": names, "rows": rows, "front_figures": front_figures, "notes": notes}


def _means_the_same(cells: Sequence[CellFigures], name: str) -> bool:
    counted_as = _COUNTED_AS.get(name)
    if counted_as is None:
        measured = [*_SCORED_BY, *(MEASURED_BY if "loss" in name else ())]
        measured += GROUPED_BY if "[" in name else ()
        measured += ["fairness.favourable"] if name in _OF_FAVOURABLE else []
        varied = {f"{path}." for cell in cells for path in cell.values}
        pairs = product(varied, (f"{path}.".replace("*.", "") for path in measured))
        return not any(one.startswith(other) or other.startswith(one) for one, other in pairs)
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
    for kind in (_COSTS, _UTILITIES, LEADING_METRICS):
        of_kind = [one for plain in kind for one in names if one.partition("[")[0] == plain]
        found += [one for one in of_kind if complete(one)][:1]
    return found


def _mark_front(rows: Sequence[SweepRow], names: Sequence[str]) -> None:
    """Rows that no other row dominates, by their means; none where nothing can be compared. Rows
    that lack some of their seeds, or whose models decide nothing, are not compared: their figures
    would hide those of others."""
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
    for row, others in zip(compared, dominated_by(points), strict=True):
        row["front"] = not others


ABSENT = ""
"""The value of a field that a row lacks."""


def varied_fields(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The value of every row, by path. An object, such as `privacy: {mechanism: none}`, is a column
    for each of its fields; rows whose object has no such field have ABSENT there."""
    flat = [dict(leaves(row)) for row in rows]
    tops = dict.fromkeys(path for row in rows for path in row)
    paths = dict.fromkeys(
        path for top in tops for row in rows if top in row for path, _ in leaves({top: row[top]})
    )
    return {path: [row.get(path, ABSENT) for row in flat] for path in paths}


def value_words(value: Any) -> str:
    """Write a value as a spec does: `k-means`, `3`, `null`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_LEADING = (*_COSTS, *_UTILITIES, *LEADING_METRICS)


def measured_figures(found: SweepTable) -> list[str]:
    """Those that some row has, the leading ones first."""
    measured = [
        name
        for name in found["figures"]
        if any(row["figures"][name]["mean"] is not None for row in found["rows"])
    ]
    leading = leading_figures(found, measured)
    return [*leading, *(name for name in measured if name not in leading)]


def leading_figures(found: SweepTable, measured: Sequence[str]) -> list[str]:
    """The figures of the front, then cost, utility and the gaps of groups, as far as measured."""
    plain = [name for head in _LEADING for name in measured if name.partition("[")[0] == head]
    unbounded = any(row["unbounded"] for row in found["rows"])
    # A row that nothing bounds has no cost, and that is what is to be seen of it.
    costs = ["leakage_max"] if unbounded and "leakage_max" in found["figures"] else []
    return list(dict.fromkeys([*found["front_figures"], *costs, *plain]))


_OF_A_FIGURE = ("mean", "standard_deviation", "low", "high", "n", "best")
_DIGITS = 4


def as_csv(found: SweepTable) -> str:
    """A line for each row; a figure takes six columns, as accuracy.mean."""
    text = io.StringIO()
    writer = csv.writer(text)
    fields = _fields(found)
    figures = [f"{name}.{part}" for name in found["figures"] for part in _OF_A_FIGURE]
    writer.writerow(
        [*fields, "seeds", "succeeded", "degenerate", "front", *map(plain_text, figures)]
    )
    for place, row in enumerate(found["rows"]):
        cells = [
            plain_text(value_words(value)) if isinstance(value, str | bool | list | dict) else value
            for value in (values[place] for values in fields.values())
        ]
        counts = [row["seeds"], row["succeeded"], row["degenerate"], row["front"]]
        parts = [
            row["figures"][name][part]  # type: ignore[literal-required]
            for name in found["figures"]
            for part in _OF_A_FIGURE
        ]
        writer.writerow([*cells, *counts, *parts])
    return text.getvalue()


def as_markdown(found: SweepTable) -> str:
    """The means with their intervals, the best ones in bold, and the notes."""
    fields = _fields(found)
    head = [*fields, "seeds", *found["figures"], "front"]
    rows = [
        [
            *(plain(value_words(values[place])) for values in fields.values()),
            f"{row['succeeded']} of {row['seeds']}"
            + (f", {row['degenerate']} degenerate" if row["degenerate"] else ""),
            *(
                f"**{figure_words(row, name)}**" if figure["best"] else figure_words(row, name)
                for name, figure in row["figures"].items()
            ),
            "yes" if row["front"] else "",
        ]
        for place, row in enumerate(found["rows"])
    ]
    lines = table([plain(one) for one in head], rows)
    if found["front_figures"]:
        front = ", ".join(found["front_figures"])
        lines += ["", f"On the front: no other row is better in all of {front}."]
    for note in found["notes"]:
        lines += ["", f"{note[0].upper()}{note[1:]}."]
    return "\n".join(lines) + "\n"


def figure_words(row: SweepRow, name: str) -> str:
    """A figure of a row with its interval over seeds, as 0.72 (0.70 to 0.74); a dash for what no
    seed has, and `unbounded` for a cost that nothing bounds, which a dash would hide. Of costs the
    largest, rounded up."""
    figure = row["figures"][name]
    if row["unbounded"] and name in PRIVACY_COSTS:
        return UNBOUNDED
    if figure["mean"] is None:
        return "–"
    if name in PRIVACY_COSTS:
        return at_most(figure["mean"], digits=_DIGITS)
    shown = f"{{:.{_DIGITS}g}}".format
    if figure["low"] is None or figure["high"] is None:
        return shown(figure["mean"])
    return f"{shown(figure['mean'])} ({shown(figure['low'])} to {shown(figure['high'])})"


def _fields(found: SweepTable) -> dict[str, list[Any]]:
    return varied_fields([row["values"] for row in found["rows"]])


def points_of(found: SweepTable) -> list[Point]:
    """The rows of a table as points of a chart, by their numbers: their figures are means over
    seeds, with the interval of the mean."""
    fields = _fields(found)
    points = []
    for place, row in enumerate(found["rows"]):
        figures = {
            name: Measured(figure["mean"], figure["low"], figure["high"])
            for name, figure in row["figures"].items()
            if figure["mean"] is not None
        }
        own = {path: value_words(values[place]) for path, values in fields.items()}
        points.append(Point(place + 1, own, figures, row["front"]))
    return points
