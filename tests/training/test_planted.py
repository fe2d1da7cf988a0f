"""What an audit plants goes the way of every update, and moves nothing where nothing is planted."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.training.base.cell import Cell, is_by_length, is_client_by_client
from fedaudit.training.base.planted import (
    NoisedSteps,
    PlantedRecords,
    PlantedUpdates,
    SentUploads,
    SummedRound,
)
from fedaudit.training.stack import Stack
from tests.training.federations import one_by_one
from tests.training.gaussian import COINS, cell_with, training_clients
from tests.training.personalised import records_spec
from tests.training.specs import cell as cell_of


@dataclass(eq=False)
class KeptUpdates(PlantedUpdates):
    """Clients that send the rows of a matrix."""

    chosen: NDArray[np.int64]
    matrix: NDArray[np.float32]
    sums: list[SummedRound] = field(default_factory=list)
    uploads: list[SentUploads] = field(default_factory=list)

    @property
    def clients(self) -> NDArray[np.int64]:
        return self.chosen

    def updates(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.matrix[places]

    def see_sum(self, seen: SummedRound) -> None:
        self.sums.append(seen)

    def see_uploads(self, seen: SentUploads) -> None:
        self.uploads.append(seen)


@dataclass(eq=False)
class KeptRecords(PlantedRecords):
    """Records whose gradients are the rows of a matrix."""

    holders: NDArray[np.int64]
    places: NDArray[np.int64]
    matrix: NDArray[np.float32]
    steps: list[NoisedSteps] = field(default_factory=list)

    @property
    def silos(self) -> NDArray[np.int64]:
        return self.holders

    @property
    def rows(self) -> NDArray[np.int64]:
        return self.places

    def gradients(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.matrix[numbers]

    def see_step(self, seen: NoisedSteps) -> None:
        self.steps.append(seen)


CLIP = 0.5
QUIET = {"noise_multiplier": 1e-3, "clip": CLIP, "delta": 1e-3}


def _alone(cell: Cell) -> Cell:
    return replace(cell, federation=one_by_one(cell.federation))


def _uneven(cell: Cell) -> Cell:
    """One client that validates has far more rows than all others."""
    data = cell.federation
    longest = int(np.setdiff1d(np.arange(data.clients), training_clients(cell))[0])
    times = np.where(data.client_of == longest, 200, 1)
    return replace(cell, federation=data.of_rows(np.repeat(np.arange(data.rows), times)))


ENGINES: dict[str, Callable[[Cell], Cell]] = {
    "side by side": lambda cell: cell,
    "client by client": _alone,
    "by length": _uneven,
}


def _planted(cell: Cell, *, length: float) -> tuple[Cell, KeptUpdates]:
    """Every other client that trains sends an axis of this length."""
    clients = np.sort(training_clients(cell))[::2].astype(np.int64)
    matrix = np.zeros((len(clients), cell.shape.n), dtype=np.float32)
    matrix[np.arange(len(clients)), np.arange(len(clients)) % cell.shape.n] = length
    plant = KeptUpdates(clients, matrix)
    return replace(cell, planted=plant), plant


def _bare(mechanism: str, **changes: Any) -> Cell:
    privacy = {"mechanism": mechanism, **QUIET}
    return cell_with(None, privacy=privacy, **{"training__hypotheses": 1, **changes})


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("cohort", [COINS | {"rate": 0.6}, {"sampling": "fixed", "clients": 9}])
def test_a_server_clips_adds_and_releases_what_is_planted(engine, cohort):
    bare = engine(_bare("gaussian-central", training__cohort=cohort))
    cell, plant = _planted(bare, length=20 * CLIP)
    assert is_client_by_client(cell) == (engine is _alone)
    assert is_by_length(cell) == (engine is _uneven)
    Stack([cell]).advance(3)
    size = 9.0 if cohort["sampling"] == "fixed" else 0.6 * len(training_clients(cell))
    assert len(plant.sums) == 3
    for seen in plant.sums:
        own = np.isin(seen.clients, plant.clients)
        assert own.any()
        np.testing.assert_allclose(
            seen.updates[own],
            plant.matrix[np.searchsorted(plant.clients, seen.clients[own])],
            atol=1e-5,
        )
        norms = np.linalg.norm(seen.updates, axis=1, keepdims=True)
        total = (seen.updates * np.minimum(1, CLIP / norms)).sum(0)
        # Noise of a thousandth of a clip, of which six deviations are allowed.
        np.testing.assert_allclose((seen.after - seen.before) * size, total, atol=6e-3 * CLIP)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_clients_clip_and_send_what_is_planted(engine: Callable[[Cell], Cell]) -> None:
    means = {"training__clustering": {"method": "k-means"}, "training__cohort": {"clients": 9}}
    bare = engine(_bare("gaussian-local", **means))
    cell, plant = _planted(bare, length=20 * CLIP)
    Stack([cell]).advance(3)
    assert sum(len(seen.clients) for seen in plant.uploads) > 3
    for seen in plant.uploads:
        rows = plant.matrix[np.searchsorted(plant.clients, seen.clients)]
        np.testing.assert_allclose(seen.uploads - seen.start, rows / 20, atol=6e-3 * CLIP)


def test_planted_clients_take_part_by_the_same_sampling() -> None:
    cell, plant = _planted(_bare("gaussian-central", training__cohort=COINS), length=CLIP)
    none_kept = KeptUpdates(plant.clients[:0], plant.matrix[:0])
    Stack([cell]).advance(8)
    Stack([replace(cell, planted=none_kept)]).advance(8)
    for seen, other in zip(plant.sums, none_kept.sums, strict=True):
        own = np.intersect1d(seen.clients, plant.clients)
        assert own.tolist() == np.intersect1d(other.clients, plant.clients).tolist()


def test_a_planted_cell_is_trained_alone_and_by_its_own_kind() -> None:
    bare = _bare("gaussian-central")
    cell, _ = _planted(bare, length=CLIP)
    with pytest.raises(ValueError, match="one shape"):
        Stack([cell, bare])
    records = KeptRecords(
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros((1, 3), np.float32)
    )
    with pytest.raises(ValueError, match="record by record"):
        Stack([replace(bare, planted=records)])


def _records(sign: float) -> tuple[Cell, KeptRecords]:
    everybody = {"sampling": "poisson", "rate": 1.0}
    cell = cell_of(records_spec(training__cohort=everybody, privacy__epsilon_min=10.0))
    matrix = np.zeros((3, cell.shape.n), dtype=np.float32)
    matrix[[0, 1, 2], [0, 1, 0]] = sign * np.array([30.0, 0.25, 30.0])
    plant = KeptRecords(np.array([1, 1, 4]), np.array([0, 3, 2]), matrix)
    return replace(cell, planted=plant), plant


def test_planted_gradients_are_clipped_added_and_noised() -> None:
    """The same noise falls on both signs: what differs is twice the clipped gradient."""
    found = []
    for sign in (1.0, -1.0):
        cell, plant = _records(sign)
        Stack([cell]).advance(1)
        found.append(plant.steps[0])
    for one in found:
        assert one.silos.tolist() == [1, 4] or one.silos.tolist() == [1]
        assert set(one.taking_part.tolist()) <= {0, 1, 2}
    more, less = found
    np.testing.assert_array_equal(more.known, less.known)
    difference = more.released - less.released
    np.testing.assert_allclose(difference[0], [2.0, 0.5, 0.0], atol=1e-4)


def test_a_plant_of_nobody_leaves_the_training_as_it_is() -> None:
    no_clients, nothing = np.zeros(0, np.int64), np.zeros((0, 3), np.float32)
    for bare, plant in (
        (cell_of(records_spec()), KeptRecords(no_clients, no_clients, nothing)),
        (cell_with(None), KeptUpdates(no_clients, nothing)),
    ):
        runs = [Stack([bare]), Stack([replace(bare, planted=plant)])]
        for run in runs:
            run.advance(3)
        assert runs[0].checkpoint(0) == runs[1].checkpoint(0)
