"""Federated averaging in pfl-research and Flower, beside the engine and the plain loop.

    OMP_NUM_THREADS=1 python -m benchmarks.other_frameworks --python /tmp/frameworks/bin/python \
        --data ../shared/data

The frameworks get an environment of their own, and are started from it as processes:

    python3.11 -m venv /tmp/frameworks
    /tmp/frameworks/bin/pip install 'pfl[pytorch]==0.6.0' torch==2.13.0 psutil ray==2.55.1 certifi \
        'protobuf>=5.28,<7' grpcio 'grpcio-health-checking<2' 'iterators<0.0.3' pathspec \
        prompt-toolkit 'pycryptodome<4' requests tomli tomli-w click cryptography 'typer<0.21' \
        'rich<15' pyyaml httpx 'sqlalchemy[asyncio]>=2.0.45' alembic 'fastapi<0.139' \
        'starlette<1.4' 'uvicorn<0.50'
    /tmp/frameworks/bin/pip install --no-deps flwr==1.42.0

All four start from the same parameters and do the same: k = 1, no noise, every client of a cohort
drawn without repeats takes one step on all its rows, and the plain mean of theirs is the next
model. The frameworks and the plain loop train and do nothing else; the engine also validates in
every round, counts by group where the task has groups, and keeps the ledger's records. Each turn
plays all four, one after the other. Seconds are of the processor, and for the frameworks those of
all processes that they start, after some rounds to warm up.

Each draws its own cohorts, in its own way. Afterwards the plain loop plays the very cohorts again,
and the models must agree: the largest difference of a parameter is told, in units of the largest
parameter. A difference beyond 1e-4 ends the benchmark.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.machine import machine
from benchmarks.naive_loop import NaiveRun, cohort_size, dense_layers
from benchmarks.other_frameworks.averaging_task import AveragingTask
from benchmarks.reproductions.runs import table
from benchmarks.rounds import AVERAGING, Pace, pace, workloads
from benchmarks.workloads import cells
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.run_state import CellState, first_state

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "benchmarks" / "results" / "other_frameworks.json"
_BLOCK = 64
_TOLERANCE = 1e-4
_WARM_UP = 2
_PATIENCE_SECONDS = 1800
"""For a turn of a framework: where Ray loses its own server, Flower waits for ever."""
_FRAMEWORKS = ("pfl", "flower")
ENGINE, LOOP = "engine", "plain loop"


@dataclass
class Side:
    """One that trains, on one task; a pace for each turn."""

    paces: list[Pace] = field(default_factory=list)
    checked_rounds: int = 0
    difference: float = 0.0
    """The largest of a parameter, against the plain loop on the same cohorts."""
    versions: dict[str, str] = field(default_factory=dict)


def averaging_task(run: NaiveRun, initial: NDArray[np.float32]) -> AveragingTask:
    """What the frameworks are given. Raises ValueError where a client takes several steps."""
    spec, federation = run.spec, run.federation
    own = [federation.own(int(client)) for client in run.training]
    lengths = np.array([part.stop - part.start for part in own])
    local = spec.training.local
    if local.epochs != 1 or (local.batch_size is not None and lengths.max() > local.batch_size):
        raise ValueError("the comparison is of one step a client on all its rows")
    hidden, intercept = dense_layers(spec)
    return AveragingTask(
        features=np.concatenate([federation.side_by_side[part] for part in own]),
        target=np.concatenate([federation.target[part] for part in own]),
        first=np.concatenate(([0], lengths.cumsum())),
        hidden=np.array(hidden, dtype=np.int64),
        intercept=intercept,
        initial=initial,
        cohort=cohort_size(spec),
        step_size=local.step_size,
    )


def difference(
    run: NaiveRun,
    initial: NDArray[np.float32],
    cohorts: Sequence[Sequence[int]],
    reached: NDArray[np.float32],
) -> float:
    """Between `reached` and where the plain loop gets to with the same cohorts, from `initial`."""
    (module,) = run.hypotheses
    nn.utils.vector_to_parameters(torch.from_numpy(initial.copy()), module.parameters())
    for cohort in cohorts:
        run.train(np.asarray(cohort))
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    return float(np.abs(reached - expected).max() / np.abs(expected).max())


@dataclass(frozen=True)
class Comparison:
    """One task, and what each side made of it."""

    name: str
    cell: Cell
    rounds: dict[str, int]
    """That each framework plays in a turn."""
    sides: dict[str, Side]

    @property
    def initial(self) -> NDArray[np.float32]:
        """[parameters]: where all of them begin."""
        found: NDArray[np.float32] = first_state(self.cell).hypotheses[0]
        return found

    def play(self, python: Path, folder: Path, *, turns: int, seconds: float) -> Iterator[None]:
        """All sides in turn; goes on after each turn."""
        run, stack = NaiveRun(self.cell.spec, self.cell.federation), Stack([self.cell])
        task = folder / f"{self.name}.npz"
        averaging_task(run, self.initial).save(task)

        def engine() -> int:
            return sum(len(records) for records in stack.advance(_BLOCK).values())

        def loop() -> int:
            run.train(run.draw())
            return 1

        plays: dict[str, Callable[[], int]] = {ENGINE: engine, LOOP: loop}
        for turn in range(turns):
            for name, once in plays.items():
                once()
                self.sides[name].paces.append(pace(once, seconds))
            for name in _FRAMEWORKS:
                self._started(name, python, task, run, seed=turn)
            yield

    def check_engine(self, rounds: int) -> None:
        """The engine's model after some rounds."""
        stack = Stack([self.cell])
        cohorts = [record.subjects.tolist() for record in stack.advance(rounds)[0]]
        reached = CellState.decode(stack.checkpoint(0)).hypotheses[0]
        run = NaiveRun(self.cell.spec, self.cell.federation)
        self._agrees(ENGINE, run, cohorts, reached)

    def _started(self, name: str, python: Path, task: Path, run: NaiveRun, *, seed: int) -> None:
        out = task.with_suffix(f".{name}.json")
        rounds = self.rounds[name]
        asked = ["--task", task, "--out", out, "--warm-up", _WARM_UP, "--rounds", rounds]
        command = [python, "-m", f"benchmarks.other_frameworks.{name}_averaging", *asked]
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        # On a busy machine Ray takes longer to start than it waits for itself.
        quiet["RAY_raylet_start_wait_time_s"] = "600"
        with out.with_suffix(".log").open("w+") as log:
            ended = subprocess.run(
                [*map(str, command), "--seed", str(seed)],
                cwd=_ROOT,
                env={**os.environ, **quiet, "OMP_NUM_THREADS": "1"},
                check=False,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE_SECONDS,
            )
            if ended.returncode:
                log.seek(0)
                raise RuntimeError(f"{self.name}: {name} failed:\n{log.read()[-4000:]}")
        played = json.loads(out.read_text())
        side = self.sides[name]
        side.versions = played["versions"]
        side.paces.append(
            Pace(
                processor=round(rounds / played["processor"], 3),
                elapsed=round(rounds / played["elapsed"], 3),
            )
        )
        # Their clients are numbered among those that train.
        cohorts = [run.training[np.asarray(cohort)].tolist() for cohort in played["cohorts"]]
        again = NaiveRun(self.cell.spec, self.cell.federation)
        self._agrees(name, again, cohorts, np.array(played["parameters"], dtype=np.float32))

    def _agrees(
        self, name: str, run: NaiveRun, cohorts: list[list[int]], reached: NDArray[np.float32]
    ) -> None:
        found = difference(run, self.initial, cohorts, reached)
        if not found <= _TOLERANCE:
            raise RuntimeError(f"{self.name}: {name} trains something else, by {found:.1e}")
        side = self.sides[name]
        side.difference = max(side.difference, found)
        side.checked_rounds += len(cohorts)

    def ratios(self, over: str, name: str) -> list[float]:
        """Rounds a second of processor time, `over` divided by `name`, turn by turn."""
        pairs = zip(self.sides[over].paces, self.sides[name].paces, strict=True)
        return [one.processor / other.processor for one, other in pairs]

    def lines(self) -> list[list[str]]:
        """Of the table."""
        return [
            [
                self.name,
                name,
                f"{median(one.processor for one in side.paces):,.2f}",
                f"{median(one.elapsed for one in side.paces):,.2f}",
                _spread(self.ratios(ENGINE, name)),
                _spread(self.ratios(LOOP, name)),
                f"{side.difference:.1e} in {side.checked_rounds}" if side.checked_rounds else "",
            ]
            for name, side in self.sides.items()
        ]

    def document(self) -> dict[str, Any]:
        """For the JSON."""
        return {"name": self.name, "rounds_of_a_turn": self.rounds} | {
            name: {
                **{key: value for key, value in vars(side).items() if key != "paces"},
                "paces": [vars(one) for one in side.paces],
                "engine_over_this": [round(one, 2) for one in self.ratios(ENGINE, name)],
            }
            for name, side in self.sides.items()
        }


HEADER = (
    "task",
    "side",
    "rounds a second, processor",
    "elapsed",
    "engine over this",
    "plain loop over this",
    "difference, in rounds",
)


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):,.2f} ({min(ratios):,.2f} to {max(ratios):,.2f})"


def comparisons(
    data: Path, pfl_rounds: Sequence[int], flower_rounds: Sequence[int]
) -> Iterator[Comparison]:
    """Both tasks, as far as their data are there."""
    for place, (name, spec) in enumerate(workloads(data).items()):
        (cell,) = cells([spec(seed=1, **AVERAGING)], data=data)
        rounds = {"pfl": pfl_rounds[place], "flower": flower_rounds[place]}
        sides = {side: Side() for side in (ENGINE, LOOP, *_FRAMEWORKS)}
        yield Comparison(name, cell, rounds, sides)


def main() -> None:
    """Prints the table after each turn, and writes the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, required=True, help="that has pfl and flwr")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn of the first two")
    parser.add_argument("--pfl-rounds", type=int, nargs=2, default=(600, 60), help="W1 and W2")
    parser.add_argument("--flower-rounds", type=int, nargs=2, default=(30, 5), help="W1 and W2")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = list(comparisons(asked.data, asked.pfl_rounds, asked.flower_rounds))
    loads: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for one in found:
            one.check_engine(_BLOCK)
            chosen = {"turns": asked.turns, "seconds": asked.seconds}
            for _ in one.play(asked.python, Path(folder), **chosen):
                loads.append(os.getloadavg()[0])
                print(table(HEADER, one.lines()), flush=True)
                document = {
                    "benchmark": "other frameworks",
                    "unit": "rounds a second",
                    "loads": loads,
                    "machine": machine(),
                    "measured": [each.document() for each in found if each.sides[LOOP].paces],
                }
                asked.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
