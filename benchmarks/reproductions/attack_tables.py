"""Membership of rows and of hypotheses: the tables of docs/attacks-membership.md.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.attack_tables --data ../shared/data

`--table` names one of them: memorised, adult, synthetic-hypotheses, hospital-hypotheses.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproductions.runs import table
from benchmarks.workloads import hospital_charges, synthetic_linear
from fedaudit.attacks.attack import AttackedRun
from fedaudit.attacks.cluster_membership import attack_cluster_membership
from fedaudit.attacks.membership.membership_attack import attack_membership
from fedaudit.federations.load import load_federation
from fedaudit.reports.sections.attacks import ClusterMembershipSection, MembershipSection, RateAtFpr
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import new_run
from fedaudit.spec.attacks import ClusterMembershipSpec, MembershipSpec
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import PlayedRounds
from fedaudit.training.stack import Stack

SHADOWS = {"memorised": 128, "adult": 64}
NU = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]


def trained(spec: ExperimentSpec, data: Path) -> AttackedRun:
    """The run of a spec, at its end."""
    cell = Cell(spec, load_federation(spec, sources_dir=data))
    run = new_run(cell, experiment_id="attacked", started_at=datetime.now(UTC))
    trainer, records = Stack([cell]), PlayedRounds()
    while trainer.active:
        records += trainer.advance(25)[0]
    record_block(run, records, last=True, reported=True)
    return AttackedRun(run, trainer.result(0), "cpu")


def memorised(data: Path) -> str:
    """Rows whose labels mean nothing, more features than training rows, with and without noise."""
    del data
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _write_labels_by_chance(Path(folder) / "rows.csv")
        for name, privacy in (
            ("none", {"mechanism": "none"}),
            ("gaussian-central, noise 3", _gaussian(3.0)),
            ("gaussian-central, noise 30", _gaussian(30.0)),
        ):
            attacked = trained(_memorising(privacy), Path(folder))
            rows += _lines(name, attacked, shadows=SHADOWS["memorised"])
    return table(["mechanism", *_HEAD], rows)


def adult(data: Path) -> str:
    """Incomes by a network of 16 hidden units: 200 clients of about 163 rows, dealt at random."""
    spec = parse_spec(
        {
            "name": "adult",
            "seed": 1,
            "federation": {
                "source": "table",
                "path": "adult/adult_raw.csv.gz",
                "target": "income-per-year",
                "positive": ">50K",
                "standardise": "global",
                "features": [
                    *_numbers("age", "education-num", "capital-gain", "capital-loss"),
                    *_numbers("hours-per-week"),
                    {"name": "sex", "kind": "categorical", "categories": ["Female", "Male"]},
                ],
                "partition": {"method": "iid", "clients": 200},
                "validation_fraction": 0.5,
            },
            "model": {"kind": "mlp", "hidden": [16]},
            "training": {
                "loss": "cross-entropy",
                "rounds": 30,
                "cohort": {"clients": 20},
                "local": {"epochs": 1, "step_size": 0.5},
                "stopping": {"validate_every": 30},
            },
            "privacy": {"mechanism": "none"},
        }
    )
    lines = _lines("none", trained(spec, data), shadows=SHADOWS["adult"])
    return table(["mechanism", *_HEAD], lines)


def synthetic_hypotheses(data: Path) -> str:
    """Two hypotheses of two parameters, 100 training clients, with either kind of radius."""
    spec = synthetic_linear(seed=1, noise_multiplier=1.0, rounds=100)
    return _over_nu(spec, data, radii=("adaptive", 1.0))


def hospital_hypotheses(data: Path) -> str:
    """Five hypotheses of eleven parameters."""
    spec = hospital_charges(seed=1, noise_multiplier=3.0, rounds=300, patience=30)
    return _over_nu(spec, data, radii=("adaptive", 1.0))


def _over_nu(spec: ExperimentSpec, data: Path, *, radii: tuple[str | float, ...]) -> str:
    rows = []
    for radius in radii:
        one = spec.model_copy(
            update={"privacy": spec.privacy.model_copy(update={"radius": radius})}
        )
        asked = ClusterMembershipSpec(noise_multipliers=NU)
        found = attack_cluster_membership(asked, trained(one, data), progress=lambda _: None)
        section = found.section
        assert isinstance(section, ClusterMembershipSection)
        rows += [
            [
                str(radius),
                f"{result.noise_multiplier:g}",
                _share(result.nearest.value),
                _interval(result.nearest.interval),
                _share(result.assigned.value),
                _share(section.chance),
                "" if result.separation is None else f"{result.separation:.2g}",
                "" if result.exponent_median is None else f"{result.exponent_median:.2g}",
            ]
            for result in section.results
        ]
    head = ["radius", "nu", "nearest", "interval", "cluster", "chance", "separation", "exponent"]
    return table(head, rows)


_HEAD = ["method", "AUC", "TPR at 1 % FPR", "interval", "TPR at 0.1 %", "interval"]


def _lines(name: str, attacked: AttackedRun, *, shadows: int) -> list[list[str]]:
    found = []
    for asked in (MembershipSpec(), MembershipSpec(method="likelihood-ratio", shadows=shadows)):
        section = attack_membership(asked, attacked, progress=lambda _: None).section
        assert isinstance(section, MembershipSection)
        found.append([name, asked.method, f"{section.auc:.3f}", *_rates(section.tpr_at_fpr)])
    return found


def _rates(rates: list[RateAtFpr]) -> list[str]:
    few, many = rates
    return [text for one in (many, few) for text in (_share(one.tpr), _interval(one.interval))]


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _interval(limits: Any) -> str:
    return "" if limits is None else f"{100 * limits.low:.1f} to {100 * limits.high:.1f}"


def _gaussian(noise_multiplier: float) -> dict[str, Any]:
    return {
        "mechanism": "gaussian-central",
        "noise_multiplier": noise_multiplier,
        "clip": 1.0,
        "delta": 1e-5,
    }


def _memorising(privacy: dict[str, Any]) -> ExperimentSpec:
    return parse_spec(
        {
            "name": "memorised",
            "seed": 0,
            "federation": {
                "source": "table",
                "path": "rows.csv",
                "client_key": "client",
                "target": "label",
                "positive": "yes",
                "features": "all",
                "validation_fraction": 2 / 3,
            },
            "model": {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "rounds": 2,
                "cohort": {"clients": 10},
                "local": {"epochs": 1, "step_size": 2.0},
                "stopping": {"validate_every": 2},
            },
            "privacy": privacy,
        }
    )


def _write_labels_by_chance(path: Path) -> None:
    """30 clients of 50 rows, 1,000 normal features that have nothing to do with the label."""
    random = np.random.default_rng(0)
    features = random.normal(size=(1500, 1000))
    labels = np.where(random.random(1500) < 0.5, "yes", "no")
    with path.open("w", encoding="utf-8") as target:
        target.write(",".join(["client", "label", *(f"x{number}" for number in range(1000))]))
        for place, (row, label) in enumerate(zip(features, labels, strict=True)):
            numbers = ",".join(f"{value:.5f}" for value in row)
            target.write(f"\nc{place // 50:02d},{label},{numbers}")


def _numbers(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "kind": "numeric"} for name in names]


TABLES: dict[str, Callable[[Path], str]] = {
    "memorised": memorised,
    "adult": adult,
    "synthetic-hypotheses": synthetic_hypotheses,
    "hospital-hypotheses": hospital_hypotheses,
}


def main() -> None:
    """Prints the tables."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--table", choices=list(TABLES))
    given = arguments.parse_args()
    for name, make in TABLES.items():
        if given.table in (None, name):
            began = time.process_time()
            print(f"{name}\n\n{make(given.data)}\n")
            print(f"({time.process_time() - began:.0f} s of the processor)\n")


if __name__ == "__main__":
    main()
