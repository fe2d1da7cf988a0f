"""The papers' tables from what `played_sweeps` kept, ours beside the published.

`python -m benchmarks.reproductions.side_by_side` prints them; the site has them as a page.
`--write` puts two summaries into docs/evidence/reproduction.md.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.pages import add_write_option, tight, write
from benchmarks.reproductions.kept_sweeps import (
    GAPS,
    KEPT,
    KeptFigure,
    KeptRow,
    KeptSweep,
    read_kept,
)
from benchmarks.reproductions.published_figures import CLIP_ACCURACY, FEMNIST_ACCURACY
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
from benchmarks.reproductions.runs import table

Rows = Sequence[KeptRow]
DOLLARS = 10_000
"""What a unit of the hospital task's error is."""
_INDEPENDENT = "federation.independent_attribute"
_PLAYED = "played"


def words(figure: KeptFigure, *, digits: int, scale: float = 1) -> str:
    """The mean over seeds and its 95 % interval; the mean alone of one seed."""
    mean, low, high = figure["mean"], figure["low"], figure["high"]
    if mean is None:
        return "none"
    if low is None or high is None:
        return f"{mean * scale:.{digits}f}"
    return f"{mean * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def synthetic(rows: Rows) -> Iterator[str]:
    """Figures 1 and 2: error and the leakage of the client that leaks most."""
    lines = []
    for row in rows:
        values, figures = row["values"], row["figures"]
        leakage = "unbounded" if row["unbounded"] else words(figures["leakage_max"], digits=1)
        lines.append(
            [
                str(values[PATIENCE]),
                synthetic_method(values),
                words(figures["validation_loss"], digits=2),
                leakage,
                words(figures["rounds"], digits=0),
            ]
        )
    yield table(["patience", "method", "RMSE", "largest leakage of a client", "rounds"], lines)


def hospital(rows: Rows) -> Iterator[str]:
    """Table 1, how far it is from ours, Figure 3, and the numbers of rounds that explain both."""
    ks = list(dict.fromkeys(row["values"][HYPOTHESES] for row in rows))
    at = {(noise_of(row), row["values"][HYPOTHESES]): row for row in rows}
    noises = sorted({noise for noise, _ in at})
    head = ["nu", *(f"k = {k}" for k in ks)]
    lines = []
    for noise in filter(None, noises):
        for name, kind in (("leakage_median", "median"), ("leakage_max", "maximum")):
            own = [words(at[noise, k]["figures"][name], digits=1) for k in ks]
            paper = [f"{published_leakage(at[noise, k])[name]:.1f}" for k in ks]
            lines += [[f"{noise:g}, {kind}", *own], ["published", *paper]]
    yield table(head, lines)
    yield table(
        ["leakage", "published within our interval", "published over our mean", "outside"],
        [_beside(rows, "leakage_median", "median"), _beside(rows, "leakage_max", "maximum")],
    )
    for title, name, scale in (
        ("RMSE, dollars", "validation_loss", DOLLARS),
        ("rounds",) * 2 + (1,),
    ):
        shown = [[at[noise, k]["figures"][name] for k in ks] for noise in noises]
        found = [
            [f"{noise:g}", *(words(figure, digits=0, scale=scale) for figure in figures)]
            for noise, figures in zip(noises, shown, strict=True)
        ]
        yield table([f"nu; {title}", *head[1:]], found)


def _beside(rows: Rows, name: str, kind: str) -> list[str]:
    """How the published leakages lie to our intervals, and which lie outside."""
    shares, outside = [], []
    for row in rows:
        paper, own = published_leakage(row).get(name), row["figures"][name]
        if paper is None or own["mean"] is None or own["low"] is None or own["high"] is None:
            continue
        shares.append(paper / own["mean"])
        if not own["low"] <= paper <= own["high"]:
            where = f"k = {row['values'][HYPOTHESES]}, nu = {noise_of(row):g}"
            outside.append(f"{where} ({'lower' if paper < own['low'] else 'higher'})")
    within = f"{len(shares) - len(outside)} of {len(shares)}"
    spread = f"{min(shares):.2f} to {max(shares):.2f}" if shares else ""
    return [kind, within, spread, "; ".join(outside)]


def gaps(rows: Rows, *, attribute: str, varies: str | None) -> Iterator[str]:
    """Figures 7 and 8: the gaps of one hypothesis and of two."""
    shown = dict.fromkeys(row["values"].get(varies) if varies else None for row in rows)
    for value in shown:
        own = [row for row in rows if varies is None or row["values"][varies] == value]
        lines = [
            [
                str(row["values"][HYPOTHESES]),
                f"{noise_of(row):g}",
                *(words(row["figures"][f"{gap}[{attribute}]"], digits=3) for gap in GAPS),
                words(row["figures"]["validation_loss"], digits=2),
            ]
            for row in own
        ]
        if varies is not None:
            yield f"`{varies}`: {json.dumps(value)}"
        yield table(["k", "nu", *GAPS, "validation loss"], lines)


def handwriting(rows: Rows) -> Iterator[str]:
    """Table 2; the published accuracies are of other data."""
    losses = list(dict.fromkeys(row["values"]["training.loss"] for row in rows))
    at = {(noise_of(row), row["values"]["training.loss"]): row for row in rows}
    lines = []
    for noise in sorted({noise for noise, _ in at}):
        cells = []
        for loss in losses:
            row = at[noise, loss]
            published = FEMNIST_ACCURACY[noise][("cross-entropy", "rmse").index(loss)]
            cells += [words(row["figures"]["accuracy"], digits=3), f"{published:.3f}"]
            cells.append(words(row["figures"]["rounds"], digits=0))
        lines.append([f"{noise:g}", *cells])
    head = [f"{loss}, {what}" for loss in losses for what in ("here", "FEMNIST", "rounds")]
    yield table(["nu", *head], lines)


def records(rows: Rows) -> Iterator[str]:
    """Accuracies of rPDP-FL and what it is compared with."""
    lines = []
    for row in rows:
        partition, paper = partition_of(row), published_record_accuracy(row)
        lines.append(
            [
                *([] if partition is None else [partition]),
                record_budgets(row),
                record_method(row),
                words(row["figures"]["accuracy"], digits=3),
                "" if paper is None else f"{paper:.3f}",
            ]
        )
    head = ["budgets", "method", "accuracy", "published"]
    yield table(["partition", *head] if len(lines[0]) > len(head) else head, lines)


def clip_map(rows: Rows) -> Iterator[str]:
    """Accuracy by clip and epsilon, ours before the slides'."""
    at: Mapping[tuple[float, float], KeptRow] = {
        (row["values"]["privacy.clip"], row["values"]["privacy.uniform_epsilon"]): row
        for row in rows
    }
    epsilons = list(dict.fromkeys(epsilon for _, epsilon in at))
    lines = [
        [
            f"{clip:g}",
            *(
                f"{words(at[clip, epsilon]['figures']['accuracy'], digits=2)} / {paper:.2f}"
                for epsilon, paper in zip(epsilons, CLIP_ACCURACY[clip], strict=True)
            ),
        ]
        for clip in dict.fromkeys(clip for clip, _ in at)
    ]
    yield table(["clip; here / slides", *(f"{epsilon:g}" for epsilon in epsilons)], lines)


TABLES: Mapping[str, Callable[[Rows], Iterator[str]]] = {
    "synthetic-figures-1-2": synthetic,
    "hospital-table-1": hospital,
    "hospital-table-1-relocate": hospital,
    "groups-figure-7": lambda rows: gaps(
        rows, attribute="group", varies="federation.independent_attribute"
    ),
    "groups-figure-7-one-rule": lambda rows: gaps(rows, attribute="group", varies=None),
    "groups-figure-7-small-cohorts": lambda rows: gaps(rows, attribute="group", varies=None),
    "unipen-table-2": handwriting,
    "unipen-table-2-short": handwriting,
    "unipen-table-2-rmse-short": handwriting,
    "unipen-figure-8": lambda rows: gaps(rows, attribute="rotated", varies=None),
    "unipen-figure-8-short": lambda rows: gaps(rows, attribute="rotated", varies=None),
    "rpdp-heart": records,
    "rpdp-mnist": records,
    "clip-by-epsilon": clip_map,
}
"""By the name of the sweep's file."""


def tables(folder: Path) -> dict[str, str]:
    """Of every sweep that is kept in the folder the tables, by the name of its file; `played` has
    a line for each of them."""
    kept = {name: read_kept(folder, name) for name in TABLES}
    found = {name: one for name, one in kept.items() if one is not None}
    texts = {name: "\n\n".join(TABLES[name](one["rows"])) for name, one in found.items()}
    return {_PLAYED: played(found), **texts}


def played(sweeps: Mapping[str, KeptSweep]) -> str:
    """How much work each sweep was, and by which commit it was done."""
    head = ["sweep", "cells", "rounds", "minutes of a processor", "milliseconds a round", "commit"]
    return table(head, [_played(name, one) for name, one in sweeps.items()])


def _played(name: str, sweep: KeptSweep) -> list[str]:
    spent = sweep["processor_seconds"]
    taken = ["in several goes", ""]
    if spent is not None:
        taken = [f"{spent / 60:.1f}", f"{1000 * spent / sweep['rounds']:.3g}"]
    ended = ", ".join(f"{count} {status}" for status, count in sweep["statuses"].items())
    return [f"`{name}`", ended, f"{sweep['rounds']:,}", *taken, str(sweep["machine"]["commit"])]


def synthetic_errors(folder: Path) -> str:
    """Figures 1 and 2 in short: the error of each method, by patience."""
    kept = read_kept(folder, "synthetic-figures-1-2")
    assert kept is not None
    errors = {
        (row["values"][PATIENCE], synthetic_method(row["values"])): row["figures"]
        for row in kept["rows"]
    }
    methods = list(dict.fromkeys(method for _, method in errors))
    lines = [
        [str(one), *(words(errors[one, m]["validation_loss"], digits=2) for m in methods)]
        for one in dict.fromkeys(patience for patience, _ in errors)
    ]
    return tight(table(["patience; RMSE", *methods], lines))


_SHOWN_GAPS = (
    ("as the distribution", "groups-figure-7", False, 1, 5),
    ("as the distribution", "groups-figure-7", False, 2, 5),
    ("at random (control)", "groups-figure-7", True, 2, 0),
    ("as the distribution, 7 clients a round", "groups-figure-7-small-cohorts", None, 2, 3),
    ("as the distribution, 7 clients a round", "groups-figure-7-small-cohorts", None, 2, 5),
)
"""Groups in words, the sweep, whether they are independent (None: it does not vary), k and nu."""


def group_gaps(folder: Path) -> str:
    """Figure 7 in short: the gaps of some rows, and their losses."""
    lines = []
    for title, stem, independent, hypotheses, noise in _SHOWN_GAPS:
        kept = read_kept(folder, stem)
        assert kept is not None
        wanted = (independent, hypotheses, noise)
        [found] = [
            row["figures"]
            for row in kept["rows"]
            if (row["values"].get(_INDEPENDENT), row["values"][HYPOTHESES], noise_of(row)) == wanted
        ]
        gaps_shown = [words(found[f"{name}[group]"], digits=3) for name in GAPS[:2]]
        loss = words(found["validation_loss"], digits=2)
        lines.append([title, str(hypotheses), str(noise), *gaps_shown, loss])
    head = [name.replace("_", " ") for name in GAPS[:2]]
    return tight(table(["groups", "k", "nu", *head, "validation loss"], lines))


PAGE = "evidence/reproduction.md"
SUMMARIES: Mapping[str, Callable[[Path], str]] = {
    "benchmarks.reproductions.side_by_side:synthetic": synthetic_errors,
    "benchmarks.reproductions.side_by_side:group": group_gaps,
}
"""What `--write` puts into `PAGE`, by the names of its marks."""


def main() -> None:
    """Prints the tables of every sweep that is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=KEPT)
    add_write_option(parser)
    chosen = parser.parse_args()
    for name, text in tables(chosen.folder).items():
        print(f"## {name}\n\n{text}\n")
    if chosen.write:
        for name, summary in SUMMARIES.items():
            write(name, summary(chosen.folder), page=PAGE)


if __name__ == "__main__":
    main()
