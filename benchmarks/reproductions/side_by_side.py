"""The tables of docs/reproduction.md, from what `played_sweeps` kept: ours beside the papers'.

python -m benchmarks.reproductions.side_by_side reproduced
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reproductions.published_figures import (
    CLIP_ACCURACY,
    FEMNIST_ACCURACY,
    HOSPITAL_LEAKAGE,
    RECORD_ACCURACY,
)
from benchmarks.reproductions.runs import table
from fedaudit_client.sweep_types import FigureSpread, SweepRow

Rows = Sequence[SweepRow]
_HYPOTHESES = "training.hypotheses"
_DISTRIBUTION, _BASELINE = "privacy.budgets.distribution", "privacy.baseline"
_DOLLARS = 10_000
_THREE_LEVELS = "three-levels"
GAPS = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)


def noise_of(row: SweepRow) -> float:
    """The noise multiplier; 0 without a mechanism, as the papers write it."""
    privacy = row["values"]["privacy"]
    return float(privacy.get("noise_multiplier", 0))


def words(figure: FigureSpread, *, digits: int, scale: float = 1) -> str:
    """The mean over seeds and its 95 % interval; the mean alone of one seed."""
    mean, low, high = figure["mean"], figure["low"], figure["high"]
    if mean is None:
        return "none"
    if low is None or high is None:
        return f"{mean * scale:.{digits}f}"
    return f"{mean * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def synthetic(rows: Rows) -> Iterator[str]:
    """Figures 1 and 2: error and the leakage of the client that leaks most."""
    names = {(1, "k-means keep"): "federated averaging", (2, "reported"): "IFCA"}
    lines = []
    for row in rows:
        values = row["values"]
        clustering = " ".join(values["training.clustering"].values())
        name = names.get((values[_HYPOTHESES], clustering), f"Algorithm 1, {clustering}")
        figures = row["figures"]
        leakage = "unbounded" if row["unbounded"] else words(figures["leakage_max"], digits=1)
        lines.append(
            [
                str(values["training.stopping.patience"]),
                name,
                words(figures["validation_loss"], digits=2),
                leakage,
                words(figures["rounds"], digits=0),
            ]
        )
    yield table(["patience", "method", "RMSE", "largest leakage of a client", "rounds"], lines)


def hospital(rows: Rows) -> Iterator[str]:
    """Table 1, Figure 3 and the numbers of rounds that explain both."""
    ks = list(dict.fromkeys(row["values"][_HYPOTHESES] for row in rows))
    at = {(noise_of(row), row["values"][_HYPOTHESES]): row["figures"] for row in rows}
    noises = sorted({noise for noise, _ in at})
    head = ["nu", *(f"k = {k}" for k in ks)]
    printed = dict(zip((7, 5, 3, 1), range(4), strict=True))
    lines = []
    for noise in filter(None, noises):
        for name in ("leakage_median", "leakage_max"):
            place = ("leakage_median", "leakage_max").index(name)
            own = [words(at[noise, k][name], digits=1) for k in ks]
            paper = [f"{HOSPITAL_LEAKAGE[noise][printed[k]][place]:.1f}" for k in ks]
            kind = ("median", "maximum")[place]
            lines += [[f"{noise:g}, {kind}", *own], ["published", *paper]]
    yield table(head, lines)
    for title, name, scale in (
        ("RMSE, dollars", "validation_loss", _DOLLARS),
        ("rounds",) * 2 + (1,),
    ):
        found = [
            [f"{noise:g}", *(words(at[noise, k][name], digits=0, scale=scale) for k in ks)]
            for noise in noises
        ]
        yield table([f"nu; {title}", *head[1:]], found)


def gaps(rows: Rows, *, attribute: str, varies: str | None) -> Iterator[str]:
    """Figures 7 and 8: the gaps of one hypothesis and of two."""
    shown = dict.fromkeys(row["values"].get(varies) if varies else None for row in rows)
    for value in shown:
        own = [row for row in rows if varies is None or row["values"][varies] == value]
        lines = [
            [
                str(row["values"][_HYPOTHESES]),
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


def records(rows: Rows, *, published: Callable[[SweepRow], int]) -> Iterator[str]:
    """Accuracies of rPDP-FL and what it is compared with."""
    lines = []
    for row in rows:
        values = row["values"]
        paper = RECORD_ACCURACY.get((values[_BASELINE], values.get(_DISTRIBUTION, _THREE_LEVELS)))
        partition = values.get("federation.partition")
        lines.append(
            [
                *([] if partition is None else [partition["method"]]),
                values.get(_DISTRIBUTION, _THREE_LEVELS),
                values[_BASELINE] or "rPDP-FL",
                words(row["figures"]["accuracy"], digits=3),
                "" if paper is None else f"{paper[published(row)]:.3f}",
            ]
        )
    head = ["budgets", "method", "accuracy", "published"]
    yield table(["partition", *head] if len(lines[0]) > len(head) else head, lines)


def clip_map(rows: Rows) -> Iterator[str]:
    """Accuracy by clip and epsilon, ours before the slides'."""
    at: Mapping[tuple[float, float], SweepRow] = {
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


def _mnist_column(row: SweepRow) -> int:
    return 1 if row["values"]["federation.partition"]["method"] == "iid" else 2


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
    "rpdp-heart": lambda rows: records(rows, published=lambda _: 0),
    "rpdp-mnist": lambda rows: records(rows, published=_mnist_column),
    "clip-by-epsilon": clip_map,
}
"""By the name of the sweep's file."""


def main() -> None:
    """Prints the tables of every sweep in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for name, show in TABLES.items():
        kept = folder / f"{name}.json"
        if not kept.is_file():
            continue
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        print(f"## {found['file']}\n\n{_ends(found['statuses'])}\n")
        if not found["statuses"].get("succeeded"):
            continue
        for text in show(found["table"]["rows"]):
            print(text, end="\n\n")


def _ends(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in statuses.items() if count)


if __name__ == "__main__":
    main()
