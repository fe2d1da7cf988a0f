"""A worker that spreads a model over helper processes, one of which is killed."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedaudit.training.trainer_choice
import workers.run_loop
from fedaudit.training.ranks.helpers import Helpers
from models.database import Database
from models.repositories import LedgerRepository, ReportRepository, UnitRepository
from tests.training.ranks.test_helpers import is_running
from tests.workers.admission import Submitted, experiment_of, submit
from workers.context import WorkerContext
from workers.run_unit import run_unit

CLIENTS, ROWS, ROUNDS = 12, 6, 6
SPEC: dict[str, Any] = {
    "name": "marks",
    "seed": 5,
    "federation": {"source": "images", "path": "marks.npz", "classes": 2},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {
        "loss": "cross-entropy",
        "hypotheses": 2,
        "rounds": ROUNDS,
        "cohort": {"clients": 5},
        "stopping": {"patience": None},
    },
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3.0},
    "fairness": {"sensitive": ["hand"], "favourable": {"op": "in", "value": [1]}},
}


@pytest.fixture
def on_sqlite(sqlite_url: str) -> Iterator[Database]:
    found = Database(sqlite_url)
    yield found
    found.dispose()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (CLIENTS * ROWS, 6, 6), dtype=np.uint8)
    writers = np.arange(len(images)) // ROWS
    np.savez(
        tmp_path / "marks.npz",
        x=images,
        y=(images[:, :, 3:].sum((1, 2)) > images[:, :, :3].sum((1, 2))).astype(np.int64),
        writer=writers,
        hand=np.where(writers % 3, "R", "L"),
    )
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Helpers]:
    """The helpers of each attempt; every model that can be spread is."""
    monkeypatch.setattr(fedaudit.training.trainer_choice, "gains_from_helpers", lambda _: True)
    found: list[Helpers] = []

    def making(*arguments: Any, **options: Any) -> Helpers:
        found.append(Helpers(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(workers.run_loop, "Helpers", making)
    return found


def _ledger(database: Database, submitted: Submitted) -> tuple[str, list[int]]:
    """Its hash, and the round of each row."""
    with database.read() as session:
        report = ReportRepository(session).get(submitted.id)
        rows = LedgerRepository(session).rows_after(submitted.id, limit=1_000)
    assert report is not None
    return report.document["integrity"]["ledger_hash"], [row.round for row in rows]


def test_a_killed_helper_fails_the_attempt_and_the_next_gives_the_ledger_of_one_process(
    on_sqlite: Database,
    make_context: Callable[[Database], WorkerContext],
    sources: Path,
    started: list[Helpers],
    flushing: Callable[[int, Callable[[], None]], None],
) -> None:
    database, made = on_sqlite, make_context(on_sqlite)
    worker = {
        ranks: WorkerContext(
            made.settings.model_copy(
                update={"sources_dir": sources, "ranks": ranks, "lease_seconds": 30.0}
            ),
            database,
            made.queue,
            "cpu",
        )
        for ranks in (1, 2)
    }
    alone, spread = (submit(database, SPEC, sources_dir=sources) for _ in range(2))
    run_unit(worker[1], alone.unit_id)
    expected = _ledger(database, alone)
    assert expected[1] == list(range(1, ROUNDS + 1))
    killed: list[int] = []

    def kill() -> None:
        killed.extend(started[-1].pids)
        os.kill(killed[0], signal.SIGKILL)

    flushing(2, kill)
    run_unit(worker[2], spread.unit_id)
    with database.read() as session:
        unit = UnitRepository(session).get(spread.unit_id)
    assert unit is not None
    assert (unit.state, unit.attempts) == ("waiting", 1)
    assert experiment_of(database, spread).rounds_done == 2
    run_unit(worker[2], spread.unit_id)
    experiment = experiment_of(database, spread)
    assert experiment.status == "succeeded", experiment.status_detail
    assert _ledger(database, spread) == expected
    _, first, second = started
    assert (first.devices, second.devices) == (("cpu",), ("cpu",))
    assert not first.pids + second.pids
    assert len(killed) == 1
    assert not is_running(killed[0])
