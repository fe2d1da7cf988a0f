"""Incomes by sex, race and both, by one hypothesis and by three: docs/evidence/income-task.md.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.income_task --data ../shared/data --seeds 10
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.stats import t

from benchmarks.pages import add_write_option, tight, write
from benchmarks.reproductions.runs import table
from fedaudit.cli.run import run_locally
from fedaudit.reports.charts.report_charts import Series
from fedaudit.spec.parse import parse_spec

EXAMPLE = Path(__file__).parents[2] / "examples" / "income-intersections.yaml"
VARIANTS = {
    "k = 1": (1, "relocate"),
    "k = 3": (3, "relocate"),
    "k = 3, empty clusters kept": (3, "keep"),
}
# Equal opportunity is left out: it equals equalized odds to 0.001.
METRICS = ("demographic_parity_difference", "equalized_odds_difference", "accuracy_difference")
ATTRIBUTES = {"SEX": "sex", "RAC1P": "race", "SEX_RAC1P": "sex and race"}
"""The example's attributes, in words."""


@dataclass(frozen=True)
class Audit:
    """A run's report, and the figures of its rounds."""

    report: dict[str, Any]
    series: Series

    def metric(self, attribute: str, name: str) -> dict[str, Any]:
        """One metric of one attribute, as the report has it."""
        (section,) = (one for one in self.report["fairness"] if one["attribute"] == attribute)
        found: dict[str, Any] = section["metrics"][name]
        return found

    @property
    def collapsed(self) -> float:
        """Share of rounds in which all uploads fell into one of several clusters, in per cent."""
        sizes = self.series.cluster_sizes
        alone = [len(of_round) > 1 and sum(map(bool, of_round)) == 1 for of_round in sizes]
        return 100 * float(np.mean(alone))


def audit(data: Path, seed: int, *, hypotheses: int, empty_cluster: str) -> Audit:
    """The example, with a seed (which draws the states held out as well) and so many hypotheses."""
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")) | {"seed": seed}
    document["training"]["hypotheses"] = hypotheses
    document["training"]["clustering"]["empty_cluster"] = empty_cluster
    done = run_locally(
        parse_spec(document), sources_dir=data, device="cpu", progress=lambda _: None
    )
    return Audit(done.report, done.series)


def runs_table(audits: dict[str, list[Audit]]) -> str:
    """What the runs came to; mean and standard deviation over seeds."""

    def of(own: Sequence[Audit], section: str, name: str, digits: int) -> str:
        return spread([one.report[section][name] for one in own], digits)

    rows = [
        [
            name,
            of(own, "utility", "accuracy", 3),
            of(own, "utility", "validation_loss", 4),
            of(own, "utility", "rounds", 0),
            of(own, "privacy", "leakage_max", 0),
            spread([one.collapsed for one in own], 0),
        ]
        for name, own in audits.items()
    ]
    head = ["", "accuracy", "validation loss", "rounds", "largest leakage", "collapsed rounds, %"]
    return table(head, rows)


def gaps_table(audits: dict[str, list[Audit]], attribute: str) -> str:
    """The gaps of one attribute: their level and interval; means over seeds."""
    rows = []
    for metric in METRICS:
        for place, (name, own) in enumerate(audits.items()):
            found = [one.metric(attribute, metric) for one in own]
            apart = sum(one["interval"]["low"] > 0 for one in found)
            rows.append(
                [
                    name if place else f"{_words(metric)}, {name}",
                    spread([one["value"] for one in found], 3),
                    ends([one["interval"] for one in found]),
                    f"{apart} of {len(found)}",
                ]
            )
    head = ["value", "interval", "interval above 0"]
    return table([f"by {ATTRIBUTES[attribute]}", *head], rows)


def page_table(audits: dict[str, list[Audit]], attributes: Sequence[str]) -> str:
    """Equalized odds and accuracy of one hypothesis and of three, as the page of docs has them."""
    shown = {name: audits[name] for name in ("k = 1", "k = 3")}
    metric = "equalized_odds_difference"
    rows = []
    for attribute in attributes:
        found = [[one.metric(attribute, metric) for one in own] for own in shown.values()]
        apart = [f"{sum(one['interval']['low'] > 0 for one in own)} of {len(own)}" for own in found]
        values = [spread([one["value"] for one in own], 3) for own in found]
        rows.append([f"{_words(metric)}, {ATTRIBUTES[attribute]}", *values, ", ".join(apart)])
    accuracies = [[one.report["utility"]["accuracy"] for one in own] for own in shown.values()]
    rows.append(["accuracy", *(spread(own, 3) for own in accuracies), ""])
    return tight(table(["", *shown, "interval above 0"], rows))


def paired_table(audits: dict[str, list[Audit]], attributes: Sequence[str]) -> str:
    """By how much three hypotheses differ from one, seed by seed."""
    first, *others = audits
    figures: dict[str, Callable[[Audit], float]] = {
        "accuracy": lambda one: float(one.report["utility"]["accuracy"])
    }
    for attribute in attributes:
        for metric in METRICS:
            figures[f"{_words(metric)}, {ATTRIBUTES[attribute]}"] = _value_of(attribute, metric)
    rows = []
    for name, figure in figures.items():
        base = np.array([figure(one) for one in audits[first]])
        rows.append(
            [name, *(paired(np.array([figure(a) for a in audits[o]]) - base) for o in others)]
        )
    return table([f"less {first}", *others], rows)


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _value_of(attribute: str, metric: str) -> Callable[[Audit], float]:
    return lambda one: float(one.metric(attribute, metric)["value"])


def paired(differences: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """The mean with its 95 % interval by Student's t over seeds, and how many seeds are above 0."""
    count = len(differences)
    half = t.ppf(0.975, count - 1) * differences.std(ddof=1) / np.sqrt(count)
    low, high = differences.mean() - half, differences.mean() + half
    above = np.count_nonzero(differences > 0)
    return f"{differences.mean():.3f} ({low:.3f} to {high:.3f}), {above} of {count}"


def spread(values: Sequence[float], digits: int) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def mean(parts: Sequence[dict[str, Any]], name: str) -> str:
    """The mean of one field."""
    return f"{np.mean([part[name] for part in parts]):.3f}"


def ends(intervals: Sequence[dict[str, Any]]) -> str:
    """The mean ends of some intervals."""
    return f"{mean(intervals, 'low')} to {mean(intervals, 'high')}"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with acs_income/")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to this number")
    add_write_option(parser)
    chosen = parser.parse_args()
    audits = {
        name: [
            audit(chosen.data, seed, hypotheses=k, empty_cluster=empty)
            for seed in range(1, chosen.seeds + 1)
        ]
        for name, (k, empty) in VARIANTS.items()
    }
    attributes = [one["attribute"] for one in audits["k = 1"][0].report["fairness"]]
    print(runs_table(audits), end="\n\n")
    for attribute in attributes:
        print(gaps_table(audits, attribute), end="\n\n")
    print(paired_table(audits, attributes))
    if chosen.write:
        page = "evidence/income-task.md"
        write("benchmarks.reproductions.income_task", page_table(audits, attributes), page=page)


if __name__ == "__main__":
    main()
