"""Rounds of clients with very different numbers of rows: `python -m benchmarks.skewed_clients`.

    OMP_NUM_THREADS=1 python -m benchmarks.skewed_clients

One client has `--longest` rows beside 2,000 with 10 each: it trains, or it is held out. The same
rows are also spread evenly over the clients of its side, so that a round computes as many. Both run
in turn in one process, and the ratio is that of processor time, turn by turn: skewed over even.
Everybody trains in every round, or 100 clients are drawn. A process of its own for each federation
then measures the memory that ten rounds take beyond the imported libraries. Results go to `--out`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import machine
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.packing import first_rows
from fedaudit.federations.split import split_clients
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

Side = Literal["training", "validation"]
_CLIENTS, _SHORT, _WIDTH, _SHARE, _SEED = 2_001, 10, 10, 0.2, 1
_MODELS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic"},
    "mlp of 32": {"kind": "mlp", "hidden": [32]},
}
_RESULTS = Path(__file__).parent / "results" / "skewed_clients.json"


def lengths(side: Side, longest: int, *, spread: bool) -> NDArray[np.int64]:
    """Rows of each client: one of a side has the longest, or its rows are spread over the side."""
    split = split_clients(_CLIENTS, validation_fraction=_SHARE, seed=_SEED)
    own = split.training if side == "training" else split.validation
    counts = np.full(_CLIENTS, _SHORT)
    counts[own[0]] = longest
    if spread:
        total = int(counts[own].sum())
        counts[own] = total // len(own)
        counts[own[: total % len(own)]] += 1
    return counts


def federation(counts: NDArray[np.int64]) -> Federation:
    """Random rows of two classes and two groups."""
    random = np.random.default_rng(_SEED)
    rows = int(counts.sum())
    features = random.normal(size=(rows, _WIDTH)).astype(np.float32)
    target = features @ random.normal(size=_WIDTH) + random.normal(size=rows) > 0
    return Federation(
        features=features,
        target=target.astype(np.float32),
        raw_target=target.astype(np.float64),
        first=first_rows(counts),
        client_names=tuple(f"c{client:05d}" for client in range(len(counts))),
        feature_names=tuple(f"x{place}" for place in range(_WIDTH)),
        target_name="y",
        target_scale=1.0,
        classes=("no", "yes"),
        attributes=(Attribute("group", ("a", "b"), (np.arange(rows) % 2).astype(np.int16)),),
        fingerprint="0" * 64,
        truth=None,
        notes=(),
    )


def cell(data: Federation, *, model: str, cohort: int, local: dict[str, Any]) -> Cell:
    """Two hypotheses, noise, counts by group, every held-out client validated in every round."""
    spec = {
        "name": "skewed clients",
        "seed": _SEED,
        "federation": {
            "source": "table",
            "path": "a.csv",
            "client_key": "who",
            "target": "y",
            "validation_fraction": _SHARE,
        },
        "model": _MODELS[model],
        "training": {
            "loss": "cross-entropy",
            "hypotheses": 2,
            "rounds": 1_000_000,
            "cohort": {"clients": cohort},
            "local": local,
            "clustering": {"method": "k-means"},
            "stopping": {"patience": None},
        },
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0},
        "fairness": {"sensitive": ["group"]},
    }
    return Cell(parse_spec(spec), data)


def seconds(stack: Stack, rounds: int) -> float:
    """Processor time of a round."""
    began = time.process_time()
    stack.advance(rounds)
    return (time.process_time() - began) / rounds


def compared(
    side: Side, longest: int, *, turns: int, rounds: int, **settings: Any
) -> dict[str, Any]:
    """Times of a round, skewed and even in turn, and their ratios."""
    pair = [
        Stack([cell(federation(lengths(side, longest, spread=spread)), **settings)])
        for spread in (False, True)
    ]
    for stack in pair:
        stack.advance(1)
    times = [[seconds(stack, rounds) for stack in pair] for _ in range(turns)]
    ratios = [skewed / even for skewed, even in times]
    return {
        "side": side,
        **settings,
        "skewed_ms": 1e3 * median(skewed for skewed, _ in times),
        "even_ms": 1e3 * median(even for _, even in times),
        "ratios": ratios,
        "median_ratio": median(ratios),
    }


def peak_mib(side: Side, longest: int, *, spread: bool) -> float:
    """Memory that ten rounds take in a process of its own, data included, libraries not."""
    command = [sys.executable, "-m", "benchmarks.skewed_clients", "--longest", str(longest)]
    command += ["--memory", side, *["--spread"] * spread]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(answer.stdout)


def own_peak(side: Side, longest: int, *, spread: bool) -> float:
    """The same of this process."""
    before = _high_water()
    data = federation(lengths(side, longest, spread=spread))
    Stack([cell(data, model="logistic", cohort=100, local={"step_size": 0.1})]).advance(10)
    return (_high_water() - before) / 1024


def _high_water() -> int:
    """The most memory that this process ever had, in KiB. (`getrusage` gives that of the process
    that started it, where that is more.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def measured(longest: int, *, turns: int) -> Iterator[dict[str, Any]]:
    """Each case with its ratio."""
    training = round(_CLIENTS * (1 - _SHARE))
    sides: tuple[Side, ...] = ("training", "validation")
    for side in sides:
        for model in _MODELS:
            for cohort in (training, 100):
                # With 100 of 1,601 the long client is drawn every sixteenth round.
                rounds = 64 if cohort == 100 and side == "training" else 4
                settings = {"model": model, "cohort": cohort, "local": {"step_size": 0.1}}
                yield compared(side, longest, turns=turns, rounds=rounds, **settings)
    batches = {"epochs": 1, "batch_size": 32, "step_size": 0.1}
    settings = {"model": "logistic", "cohort": training, "local": batches}
    yield compared("training", longest, turns=2, rounds=1, **settings)


def main() -> None:
    """Prints a line for each case, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    parser.add_argument("--memory", choices=["training", "validation"], help=argparse.SUPPRESS)
    parser.add_argument("--spread", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        print(own_peak(asked.memory, asked.longest, spread=asked.spread))
        return
    found = []
    for one in measured(asked.longest, turns=asked.turns):
        found.append(one)
        span = f"{min(one['ratios']):.2f} to {max(one['ratios']):.2f}"
        print(
            f"{one['side']}, {one['model']}, {one['cohort']} clients, {one['local']}: "
            f"{one['skewed_ms']:.1f} and {one['even_ms']:.1f} ms, "
            f"{one['median_ratio']:.2f} ({span})",
            flush=True,
        )
    memory = {
        f"{side}, {'even' if spread else 'skewed'}": peak_mib(side, asked.longest, spread=spread)
        for side in ("training", "validation")
        for spread in (False, True)
    }
    for name, mib in memory.items():
        print(f"{name}: {mib:.0f} MiB")
    document = {
        "benchmark": "skewed_clients",
        "machine": machine(),
        "longest": asked.longest,
        "measured": found,
        "peak_mib": memory,
    }
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
