"""The papers' figures again, in docs/evidence/reproduction.md, from what `played_sweeps` kept.

python -m benchmarks.reproductions.drawn_figures               # into docs/evidence/figures
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reproductions.interval_chart import IntervalPlot, Measured, interval_chart
from benchmarks.reproductions.kept_sweeps import (
    GAPS,
    KEPT,
    KeptCell,
    KeptFigure,
    KeptRow,
    KeptSweep,
    read_kept,
)
from benchmarks.reproductions.picture_file import Panel, picture
from benchmarks.reproductions.plane_drawing import plane_drawing
from benchmarks.reproductions.published_figures import CLIP_ACCURACY
from benchmarks.reproductions.row_facts import (
    HYPOTHESES,
    PATIENCE,
    noise_of,
    partition_of,
    published_leakage,
    published_record_accuracy,
    record_budgets,
    record_method,
    synthetic_method,
)
from benchmarks.reproductions.side_by_side import DOLLARS
from fedaudit.reports.charts.answer_pictures import client_rows
from fedaudit.reports.charts.drawing import Drawing, range_chart
from fedaudit.reports.charts.report_charts import Line, line_chart

Rows = Sequence[KeptRow]
_FIGURES = Path("docs/evidence/figures")
_INDEPENDENT = "federation.independent_attribute"
_EQUALIZED_ODDS = "equalized_odds_difference"
_EMPTY = {
    "hospital-table-1.yaml": "empty clusters kept",
    "hospital-table-1-relocate.yaml": "empty clusters moved",
}
_SHARE = (0.0, 1.0)


def planes(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Figure 1: the hypotheses on their way, in one seed of each method."""
    return [
        Panel(_run_title(cell), plane_drawing(cell["report"]["plane"]))
        for cell in sweeps[0]["cells"]
        if cell["report"]["plane"] is not None
    ]


def cluster_leakage(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Figure 2: the largest leakage of a client in each cluster."""
    found = []
    for cell in sweeps[0]["cells"]:
        if not cell["leakage"]:
            continue
        lines = [
            Line(f"cluster {cluster}", tuple(values)) for cluster, values in cell["leakage"].items()
        ]
        rounds = range(1, 1 + len(lines[0].values))
        drawing = line_chart(lines, rounds, unit="largest leakage")
        found.append(Panel(_run_title(cell), drawing))
    return found


def leakage_spread(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Figure 4: leakage over the clients of one run."""
    found = []
    for cell in sweeps[0]["cells"]:
        if cell["report"]["privacy"]["leakage_quantiles"]:
            rows, kinds, _ = client_rows(cell["report"]["privacy"])
            drawing = range_chart(rows, kinds=kinds, unit="leakage", whole=(0, 0))
            found.append(Panel("k = 5, nu = 3, seed 3", drawing))
    return found


def hospital_leakage(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Table 1: median and maximum over clients, by noise multiplier and hypotheses."""
    kinds = {"leakage_median": "Median", "leakage_max": "Maximum"}
    return [
        Panel(
            f"{kind} over clients, {_EMPTY[sweep['file']]}",
            _by_noise(
                [row for row in sweep["rows"] if noise_of(row)],
                name,
                unit="leakage times nu",
                factor=noise_of,
            ),
        )
        for sweep in sweeps
        for name, kind in kinds.items()
    ]


def hospital_errors(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Figure 3: the error, by noise multiplier and hypotheses."""
    return [
        Panel(
            f"Error, {_EMPTY[sweep['file']]}",
            _by_noise(
                sweep["rows"], "validation_loss", unit="RMSE, dollars", factor=lambda _: DOLLARS
            ),
        )
        for sweep in sweeps
    ]


def group_gaps(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Figure 7: gaps by noise multiplier; with small cohorts, and where groups are dealt out."""
    main, small = sweeps
    dealt = [row for row in main["rows"] if row["values"][_INDEPENDENT]]
    own = [row for row in main["rows"] if not row["values"][_INDEPENDENT]]
    panels = [
        Panel(
            _words(gap),
            _gap_chart(gap, {"": own, ", 7 clients a round": _two_hypotheses(small["rows"])}),
        )
        for gap in GAPS
    ]
    control = _gap_chart(_EQUALIZED_ODDS, {"": dealt})
    return [*panels, Panel(f"{_words(_EQUALIZED_ODDS)}, groups dealt out at random", control)]


def record_accuracies(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Accuracy by method; a panel for each distribution of budgets or partition."""
    found = []
    for partition, rows in _grouped(sweeps[0]["rows"], partition_of).items():
        methods = list(dict.fromkeys(map(record_method, rows)))
        series = []
        for budgets, own in _grouped(rows, record_budgets).items():
            at = {record_method(row): row for row in own}
            figures = [at[method]["figures"]["accuracy"] for method in methods]
            published = [published_record_accuracy(at[method]) for method in methods]
            series.append(Measured(budgets, figures, published))
        places = [method.replace("privacy-free", "no privacy") for method in methods]
        plot = IntervalPlot(places, series, across="method", unit="accuracy")
        title = f"Rows dealt out: {partition}" if partition else "Accuracy by method"
        found.append(Panel(title, interval_chart(plot)))
    return found


def clip_curves(sweeps: Sequence[KeptSweep]) -> list[Panel]:
    """Accuracy by epsilon, a line for each clip: ours, then the slides'."""
    by_clip = _grouped(sweeps[0]["rows"], lambda row: row["values"]["privacy.clip"])
    epsilons = [
        f"{row['values']['privacy.uniform_epsilon']:g}" for row in next(iter(by_clip.values()))
    ]
    ours = [
        Measured(f"clip {clip:g}", [row["figures"]["accuracy"] for row in own])
        for clip, own in by_clip.items()
    ]
    slides = [
        Measured(f"clip {clip:g}", [_printed(value) for value in CLIP_ACCURACY[clip]])
        for clip in by_clip
    ]
    plots = {
        title: IntervalPlot(
            epsilons, series, across="epsilon", unit="accuracy", whole=_SHARE, lines=True
        )
        for title, series in (("Here", ours), ("The slides", slides))
    }
    return [Panel(title, interval_chart(plot)) for title, plot in plots.items()]


@dataclass(frozen=True)
class Figure:
    """One picture: the sweeps that it needs all of, and how they are drawn."""

    sweeps: tuple[str, ...]
    panels: Callable[[Sequence[KeptSweep]], list[Panel]]
    described: str


_SYNTHETIC = ("synthetic-figures-1-2",)
_HOSPITAL = ("hospital-table-1", "hospital-table-1-relocate")
FIGURES: Mapping[str, Figure] = {
    "figure-1": Figure(_SYNTHETIC, planes, "Hypotheses on their way to the true parameters"),
    "figure-2": Figure(_SYNTHETIC, cluster_leakage, "Largest leakage in each cluster, by round"),
    "table-1": Figure(_HOSPITAL, hospital_leakage, "Leakage by noise multiplier and hypotheses"),
    "figure-3": Figure(_HOSPITAL, hospital_errors, "Error by noise multiplier and hypotheses"),
    "figure-4": Figure(_HOSPITAL[:1], leakage_spread, "Leakage over the clients of one run"),
    "figure-7": Figure(
        ("groups-figure-7", "groups-figure-7-small-cohorts"), group_gaps, "Gaps by noise multiplier"
    ),
    "rpdp-heart": Figure(("rpdp-heart",), record_accuracies, "Accuracy by method, heart disease"),
    "rpdp-mnist": Figure(("rpdp-mnist",), record_accuracies, "Accuracy by method, MNIST"),
    "clip-by-epsilon": Figure(("clip-by-epsilon",), clip_curves, "Accuracy by epsilon and clip"),
}
"""By the name of the picture's file."""


def drawn_figures(folder: Path) -> dict[str, str]:
    """Every picture whose sweeps are kept in the folder, as SVG by the name of its file."""
    found = {}
    for name, figure in FIGURES.items():
        kept = [one for stem in figure.sweeps if (one := read_kept(folder, stem)) is not None]
        panels = figure.panels(kept) if len(kept) == len(figure.sweeps) else []
        if panels:
            found[name] = picture(panels, described=figure.described)
    return found


def main() -> None:
    """Draws every picture whose sweeps are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=KEPT)
    parser.add_argument("--out", type=Path, default=_FIGURES)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, svg in drawn_figures(chosen.folder).items():
        (chosen.out / f"{name}.svg").write_text(svg, encoding="utf-8")


# -- series --------------------------------------------------------------------------------------


def _by_noise(rows: Rows, name: str, *, unit: str, factor: Callable[[KeptRow], float]) -> Drawing:
    """A figure times a factor by noise multiplier, a series for each number of hypotheses."""
    noises = list(dict.fromkeys(f"{noise_of(row):g}" for row in rows))
    series = []
    for hypotheses, own in _grouped(rows, lambda row: row["values"][HYPOTHESES]).items():
        figures = [_times(row["figures"][name], factor(row)) for row in own]
        paper = [(published_leakage(row).get(name), factor(row)) for row in own]
        published = [value * by for value, by in paper if value is not None]
        series.append(Measured(f"k = {hypotheses}", figures, published))
    return interval_chart(IntervalPlot(noises, series, across="nu", unit=unit))


def _gap_chart(gap: str, rows: Mapping[str, Rows]) -> Drawing:
    """A gap by noise multiplier, a series for each number of hypotheses and each kind of rows."""
    series = [
        Measured(
            f"{hypotheses} hypothes{'i' if hypotheses == 1 else 'e'}s{words}",
            [row["figures"][f"{gap}[group]"] for row in own],
        )
        for words, found in rows.items()
        for hypotheses, own in _grouped(found, lambda row: row["values"][HYPOTHESES]).items()
    ]
    noises = dict.fromkeys(f"{noise_of(row):g}" for found in rows.values() for row in found)
    plot = IntervalPlot(list(noises), series, across="nu", unit="difference", whole=(0, 0))
    return interval_chart(plot)


def _two_hypotheses(rows: Rows) -> Rows:
    return [row for row in rows if row["values"][HYPOTHESES] == 2]


def _grouped(rows: Rows, key: Callable[[KeptRow], Any]) -> dict[Any, list[KeptRow]]:
    found: dict[Any, list[KeptRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _times(figure: KeptFigure, factor: float) -> KeptFigure:
    mean, low, high = (
        None if value is None else factor * value
        for value in (figure["mean"], figure["low"], figure["high"])
    )
    return {"n": figure["n"], "mean": mean, "low": low, "high": high}


def _printed(value: float) -> KeptFigure:
    """A figure of a paper as one of a row."""
    return {"n": 1, "mean": value, "low": None, "high": None}


def _run_title(cell: KeptCell) -> str:
    method = synthetic_method(cell["values"])
    return f"{method[:1].upper()}{method[1:]}, patience {cell['values'][PATIENCE]}"


def _words(gap: str) -> str:
    return gap.replace("_", " ").capitalize()


if __name__ == "__main__":
    main()
