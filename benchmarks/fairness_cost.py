"""What counting by group adds to a round.

    OMP_NUM_THREADS=1 python -m benchmarks.fairness_cost --data ../shared/data --out result.json

The same experiment with and without sensitive attributes, in turn and in one process, so that
whatever else the machine does slows both. What is measured is all that a stored round takes:
training, validation, counts per group, and the gaps that are written with it. The cost is the share
by which counting lengthens a round, in processor time, turn by turn; the median is what counts.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.machine import machine
from benchmarks.reproductions.runs import table
from benchmarks.rounds import Pace, pace
from benchmarks.workloads import (
    HOSPITAL_FILE,
    cells,
    hospital_charges,
    synthetic_groups,
)
from fedaudit.runs.held_out_groups import decide_disclosures
from fedaudit.runs.round_fairness import fairness_of_rounds
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

INCOME_FILE = "acs_income/acs_income_2018_35_states_1000_each.csv.gz"
_SECONDS = 0.2
_BLOCK = 64
_SEX_AND_RACE: dict[str, Any] = {
    "sensitive": ["SEX", "RAC1P"],
    "intersections": [["SEX", "RAC1P"]],
}
_HEADER = ("workload", "groups", "with, rounds a second", "without", "cost, % of a round")


@dataclass(frozen=True)
class Measured:
    """One workload; a pace for each turn."""

    name: str
    groups: int
    """Groups of all attributes together."""
    with_attributes: list[Pace]
    without: list[Pace]

    @property
    def costs(self) -> list[float]:
        """Turn by turn, by how much longer a round takes, as a share of one without attributes."""
        pairs = zip(self.with_attributes, self.without, strict=True)
        return [without.processor / measured.processor - 1 for measured, without in pairs]

    def row(self) -> list[str]:
        """A line of the table."""
        low, high = min(self.costs), max(self.costs)
        return [
            self.name,
            str(self.groups),
            f"{median(one.processor for one in self.with_attributes):,.0f}",
            f"{median(one.processor for one in self.without):,.0f}",
            f"{100 * median(self.costs):.1f} ({100 * low:.1f} to {100 * high:.1f})",
        ]


def income(fairness: Mapping[str, Any]) -> ExperimentSpec:
    """ACS incomes of 35 states dealt to 100 clients, by a logistic model of numeric features."""
    return parse_spec(
        {
            "name": "income",
            "seed": 1,
            "federation": {
                "source": "table",
                "path": INCOME_FILE,
                "partition": {"method": "iid", "clients": 100},
                "target": "PINCP",
                "positive": "1",
                "features": ["AGEP", "SCHL", "WKHP"],
                "scale": {"AGEP": 100, "SCHL": 24, "WKHP": 100},
            },
            "model": {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": 2,
                "rounds": 1_000_000,
                "cohort": {"clients": 20},
                "local": {"epochs": 1, "batch_size": 100, "step_size": 0.5},
            },
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
            "fairness": fairness,
        }
    )


def workloads(data: Path) -> dict[str, tuple[ExperimentSpec, ExperimentSpec]]:
    """By name: a spec with sensitive attributes, and the same without; where the data are there."""
    groups = synthetic_groups(seed=1, hypotheses=2, noise_multiplier=1.0)
    found = {"synthetic groups, 2 groups": (groups, _without(groups))}
    if (data / HOSPITAL_FILE).is_file():
        by_state = hospital_charges(seed=1)
        found["hospital charges, by state"] = by_state, _without(by_state)
    if (data / INCOME_FILE).is_file():
        by_both = income(_SEX_AND_RACE)
        found["incomes, sex, race and both"] = by_both, _without(by_both)
    return found


def _without(spec: ExperimentSpec) -> ExperimentSpec:
    return parse_spec({**spec.model_dump(mode="json"), "fairness": {}})


def player(cell: Cell) -> Callable[[], int]:
    """Plays some rounds and works out what is stored of each; answers how many."""
    # Decided once, before the first round, as in a run.
    stack, disclosures = Stack([cell]), decide_disclosures(cell)

    def play() -> int:
        [played] = stack.advance(_BLOCK)[0].spans
        shown = {name: one.repeated(len(played)) for name, one in disclosures.items()}
        fairness_of_rounds(cell.spec, shown, played)
        return len(played)

    return play


def measure(name: str, pair: Sequence[Cell], *, turns: int, seconds: float) -> Measured:
    """With and without in turn, either first every other time: A B B A A B."""
    counting, plain = (player(cell) for cell in pair)
    counting()
    plain()
    found: dict[Callable[[], int], list[Pace]] = {counting: [], plain: []}
    for turn in range(turns):
        for play in (counting, plain) if turn % 2 else (plain, counting):
            found[play].append(pace(play, seconds))
    return Measured(
        name=name,
        groups=sum(len(one.values) for one in pair[0].federation.attributes),
        with_attributes=found[counting],
        without=found[plain],
    )


def document(found: Sequence[Measured]) -> dict[str, Any]:
    """The measurement as JSON."""
    return {
        "benchmark": "fairness_cost",
        "unit": "rounds of one experiment a second",
        "machine": machine(),
        "measured": [
            {
                **asdict(one),
                "costs": [round(cost, 4) for cost in one.costs],
                "median_cost": round(median(one.costs), 4),
            }
            for one in found
        ],
    }


def main() -> None:
    """Prints the table, and writes the JSON where `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of one turn")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = [
        measure(name, cells(pair, data=chosen.data), turns=chosen.turns, seconds=chosen.seconds)
        for name, pair in workloads(chosen.data).items()
    ]
    print(table(_HEADER, [one.row() for one in found]))
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(document(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
