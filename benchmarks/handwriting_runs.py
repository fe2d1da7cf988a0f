"""Training on UNIPEN handwriting: accuracy by round, seconds a round, peak memory."""

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.workloads import privacy
from fedaudit.arrays import Floats
from fedaudit.federations.load import load_federation
from fedaudit.networks.stacked_network import ClientNetwork, Loss
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import RoundColumns
from fedaudit.training.stack import Stack

UNIPEN_FILE = "unipen_handwriting/unipen_alnum62_28x28.npz"
CLASSES = 62
MULTIPLIERS = (None, 1.0)
_MIB = 2**20


def handwriting(
    *,
    hypotheses: int,
    noise_multiplier: float | None,
    rounds: int,
    local: dict[str, Any],
    validate_every: int,
    federation: dict[str, Any] | None = None,
    clients: int = 10,
) -> ExperimentSpec:
    """The task's network and loss; `clients` a round."""
    return parse_spec(
        {
            "name": "handwriting",
            "seed": 1,
            "federation": {"source": "images", "path": UNIPEN_FILE, **(federation or {})},
            "model": {"kind": "cnn-femnist"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": hypotheses,
                "rounds": rounds,
                "cohort": {"clients": clients},
                "local": local,
                "clustering": {"method": "k-means", "empty_cluster": "keep"},
                "stopping": {"validate_every": validate_every},
            },
            "privacy": privacy(noise_multiplier),
        }
    )


STEPS = {"steps": 10, "batch_size": 20, "step_size": 0.1}
VALIDATE_EVERY = 5


@dataclass(frozen=True)
class RepeatedEvent:
    """How one run went."""

    noise_multiplier: float | None
    writers: int
    images: int
    accuracy: dict[int, float]
    """Round -> share of the held-out writers' images classified rightly."""
    validation_loss: dict[int, float]
    best_round: int
    collapsed_rounds: int
    agreement: float
    """Share of the last ten rounds' uploads in the cluster of the hypothesis they started from."""
    round_seconds: float
    """Processor time of a round without validation, median."""
    validation_seconds: float
    """Processor time that validation adds to a round, median."""
    resident_mib: float
    """With data and libraries loaded, before anything is trained."""
    peak_mib: float
    """At most, while training and validating."""
    models_mib: float
    """What k hypotheses take."""
    uploads_mib: float
    """What one buffer of the cohort's uploads takes."""
    images_mib: float
    """What the images take, among what is resident."""


def run_course(data: Path, noise_multiplier: float | None, rounds: int) -> RepeatedEvent:
    """Trains on UNIPEN in this process."""
    torch.set_num_threads(1)
    spec = handwriting(
        hypotheses=2,
        noise_multiplier=noise_multiplier,
        rounds=rounds,
        local=STEPS,
        validate_every=VALIDATE_EVERY,
        federation={"rotate": {"probability": 0.5}, "validation_fraction": 0.1},
    )
    cell = Cell(spec, load_federation(spec, sources_dir=data))
    federation = cell.federation
    load_libraries(cell)
    resident = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    stack = Stack([cell])
    columns: list[RoundColumns] = []
    seconds: list[float] = []
    while stack.active:
        start = time.process_time()
        columns += stack.advance(1)[0].spans
        seconds.append(time.process_time() - start)
    result = stack.result(0)
    validated = {int(one.round[0]): one for one in columns if len(one.validated)}
    costs = list(zip(seconds, columns, strict=True))
    plain = median(cost for cost, one in costs if not len(one.validated))
    full = median(cost for cost, one in costs if len(one.validated))
    together = np.concatenate([one.chosen[0] == one.clusters[0] for one in columns[-10:]])
    return RepeatedEvent(
        noise_multiplier=noise_multiplier,
        writers=federation.clients,
        images=federation.rows,
        accuracy={round_: _rounded(one.accuracies) for round_, one in validated.items()},
        validation_loss={
            round_: _rounded(one.validation_losses) for round_, one in validated.items()
        },
        best_round=result.best_round,
        collapsed_rounds=result.collapsed_rounds,
        agreement=float(together.mean()),
        round_seconds=round(plain, 3),
        validation_seconds=round(full - plain, 3),
        resident_mib=resident,
        peak_mib=memory("VmHWM"),
        models_mib=round(2 * 4 * stack.n / _MIB, 1),
        uploads_mib=round(10 * 4 * stack.n / _MIB, 1),
        images_mib=round(federation.nbytes / _MIB, 1),
    )


def _rounded(figures: Floats | None) -> float:
    """The figure of the only round, which was validated."""
    return 0.0 if figures is None else round(float(figures[0]), 4)


def load_libraries(cell: Cell) -> None:
    """One step on one row, which brings the code of the convolutions into memory."""
    network = ClientNetwork(cell.shape, torch.device("cpu"))
    loss = Loss("cross-entropy", CLASSES)
    row = torch.zeros(1, cell.federation.width)
    network.add_gradient(row, torch.zeros(1), loss, torch.zeros(cell.shape.n))


def memory(field: str) -> float:
    """A figure of this process in MiB, as Linux counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return round(int(line.split()[1]) / 1024, 1)
    raise LookupError(field)


def run_courses(data: Path, rounds: int) -> list[RepeatedEvent]:
    """One run for each noise multiplier, each in a fresh process, one after the other."""
    found = []
    for noise_multiplier in MULTIPLIERS:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            found.append(pool.submit(run_course, data, noise_multiplier, rounds).result())
    return found
