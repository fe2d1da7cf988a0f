"""Personalised, private, fair: methods on incomes, for docs/evidence/income-task.md.

OMP_NUM_THREADS=1 python -m benchmarks.personalised_front --data ../shared/data --seeds 10 --jobs 2
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.reproductions.runs import table
from fedaudit.cli.local_run import run_locally
from fedaudit.reports.comparison.pareto import dominated_by
from fedaudit.spec.parse import parse_spec

EXAMPLE = Path(__file__).parents[1] / "examples" / "income-intersections.yaml"
PERSONAL = {"steps": 50}
METHODS: Mapping[str, tuple[int, Any]] = {
    "FedAvg": (1, "hypotheses"),
    "3 hypotheses": (3, "hypotheses"),
    "q-ffl, q = 1": (1, {"kind": "q-ffl", "q": 1.0}),
    "q-ffl, q = 5": (1, {"kind": "q-ffl", "q": 5.0}),
    "fine-tuning": (1, {"kind": "fine-tuning", **PERSONAL}),
    "ditto": (1, {"kind": "ditto", "proximal": 0.1, **PERSONAL}),
    "local-only": (1, {"kind": "local-only", "steps": 1000}),
}
"""Hypotheses and method. A client that trains in all rounds of FedAvg takes 1,000 steps as well."""
WITH_NOISE = ("FedAvg", "3 hypotheses", "fine-tuning", "ditto")
ATTRIBUTES = {"SEX": "sex", "RAC1P": "race", "SEX_RAC1P": "both"}
GAPS = {"equalized_odds_difference": "equalized odds", "accuracy_difference": "accuracy"}
_COST = "largest leakage"
_NOTHING, _UNBOUNDED = 0.0, float("inf")
Row = tuple[str, bool]
"""A method, and whether there is noise."""


def asked(method: str, *, noise: bool, seeds: int) -> dict[str, Any]:
    """The example with this method, a split of held-out rows, and `seeds` seeds from 1 on."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    hypotheses, chosen = METHODS[method]
    del document["gates"]
    document |= {"seed": 1, "repeats": seeds}
    document["federation"]["scoring"] = {"method": "split", "fraction": 0.5}
    document["training"] |= {
        "method": chosen,
        "hypotheses": hypotheses,
        "rounds": 100,
        "stopping": {"validate_every": 10},
    }
    document["training"]["local"]["step_size"] = 2.0
    document["fairness"]["intervals"] = None
    if not noise:
        document["privacy"] = {"mechanism": "none"}
    return document


def spreads(document: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Each figure of the report over the seeds, as the report gives it, and the first seed's
    largest leakage."""
    done = run_locally(
        parse_spec(document), sources_dir=data, device="cpu", progress=lambda _: None
    )
    found: dict[str, Any] = done.report["repeats"]["metrics"]
    return found | {_COST: done.report["privacy"]["leakage_max"]}


def row(key: Row, *, data: Path, seeds: int) -> dict[str, Any]:
    """The figures of one row of the tables."""
    method, noise = key
    return spreads(asked(method, noise=noise, seeds=seeds), data)


def cost(method: str, metrics: Mapping[str, Any], *, noise: bool) -> float:
    """The largest leakage; infinite without noise, 0 where nothing is sent."""
    if method == "local-only":
        return _NOTHING
    return float(metrics[_COST]) if noise else _UNBOUNDED


def interval(spread: Mapping[str, Any], digits: int = 3) -> str:
    """The mean with its 95 % interval by Student's t over seeds."""
    mean, low, high = (spread[name] for name in ("mean", "low", "high"))
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def fronts(points: Sequence[Sequence[float]]) -> list[str]:
    """Whether each point is on the front, by means; lower is better on each axis."""
    return ["no" if others else "yes" for others in dominated_by(points)]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with acs_income/")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to this number")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    keys = [
        (method, noise) for noise in (False, True) for method in (WITH_NOISE if noise else METHODS)
    ]
    one = partial(row, data=chosen.data, seeds=chosen.seeds)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        rows = dict(zip(keys, pool.map(one, keys), strict=True))
    costs = {key: cost(key[0], metrics, noise=key[1]) for key, metrics in rows.items()}
    names = [f"{method}{', with noise' if noise else ''}" for method, noise in rows]
    front = fronts(
        [
            (
                -metrics["accuracy"]["mean"],
                metrics["equalized_odds_difference[SEX_RAC1P]"]["mean"],
                costs[key],
            )
            for key, metrics in rows.items()
        ]
    )
    shown = {_NOTHING: "nothing is sent", _UNBOUNDED: "unbounded"}
    print(
        table(
            ["", "accuracy", "validation loss", "largest leakage", "on the front"],
            [
                [
                    name,
                    interval(metrics["accuracy"]),
                    interval(metrics["validation_loss"]),
                    shown.get(costs[key]) or f"{costs[key]:.0f}",
                    on,
                ]
                for name, (key, metrics), on in zip(names, rows.items(), front, strict=True)
            ],
        )
    )
    for gap, words in GAPS.items():
        body = [
            [name, *(interval(metrics[f"{gap}[{code}]"]) for code in ATTRIBUTES)]
            for name, metrics in zip(names, rows.values(), strict=True)
        ]
        heads = [f"{words} difference, {by}" for by in ATTRIBUTES.values()]
        print(f"\n{table(['', *heads], body)}")


if __name__ == "__main__":
    main()
