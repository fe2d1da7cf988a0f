"""Every mechanism is found, protects what leaves, and nothing else is taken for one."""

import math
from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.randomness import CounterSource, Purpose, Source, wide_uniforms
from fedaudit.spec.base import SpecPart
from fedaudit.spec.privacy import Noise
from fedaudit.training import personalised
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Draws
from fedaudit.training.base.record_steps import RecordSteps
from fedaudit.training.base.records import record_use_of, spending_of
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    UnitNoise,
    Unprotected,
    drawn,
    finite_uploads,
)
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stack import Stack
from fedaudit.training.stacked import stack_round
from fedaudit.training.stacked.server import Server
from tests.training.federations import one_by_one
from tests.training.gaussian import ALONE, CENTRAL, DISTANCE, LOCAL, REPORTED, cell_with, state
from tests.training.personalised import records_spec
from tests.training.specs import cell, groups_spec

CPU = torch.device("cpu")
SPECS: dict[str, dict[str, Any]] = {
    "none": groups_spec(privacy={"mechanism": "none"}),
    "laplace-l2": groups_spec(),
    "gaussian-local": groups_spec(privacy=LOCAL, training__hypotheses=1),
    "gaussian-central": groups_spec(privacy=CENTRAL, **REPORTED),
    "gaussian-distance": groups_spec(privacy=DISTANCE, training__hypotheses=1),
    "record-personalised": records_spec(),
}
CELLS: dict[str, Cell] = {name: cell(spec) for name, spec in SPECS.items()}


SERVERS = {"gaussian-central", "gaussian-distance"}


@pytest.mark.parametrize("name", sorted(set(SPECS) - {"record-personalised"}))
def test_cells_of_another_mechanism_are_not_protected_along(name: str) -> None:
    one = CELLS[name]
    kind = TrustedServer if name in SERVERS else ClientProtection
    assert isinstance(build_protection([one, one], CPU), kind)
    for other in set(SPECS) - {name}:
        with pytest.raises(ValueError, match=f"cells of {other} are not protected"):
            build_protection([one, CELLS[other]], CPU)


class _FirstWords(Unprotected):
    """Draws without regard for axes, rounds or clients: as little as the interface lets it."""

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> UnitNoise:
        words = source.wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=4)
        return UnitNoise(np.broadcast_to(wide_uniforms(words.ravel()[:4]), (*clients.shape, 4)))


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("name", ["careless", "laplace-l2", "gaussian-local", "gaussian-central"])
def test_no_two_cells_side_by_side_share_noise(name: str, secret: bool) -> None:
    seeds, one = np.array([7, 8, 9], dtype=np.uint64), np.ones((1, 3), dtype=np.int64)
    careless = name == "careless"
    protection = _FirstWords() if careless else build_protection([CELLS[name]] * 3, CPU)
    clients = np.zeros((1, 3, 2), dtype=np.int64)
    noise = drawn(protection.draw(Draws(seeds, secret), one, clients).vectors)
    own = protection.draw_cell(CounterSource(seeds[1]), one[:, 1], clients[:, 1])
    alone = drawn(own.vectors)
    assert len(np.unique(noise[0, :, 0], axis=0)) == 3
    assert np.array_equal(noise[:, 1], alone) == (not secret)


def test_records_are_not_protected_update_by_update_nor_beside_others() -> None:
    one = CELLS["record-personalised"]
    with pytest.raises(ValueError, match="updates are not protected"):
        build_protection([one], CPU)
    for pair in ([one, CELLS["none"]], [CELLS["none"], one]):
        with pytest.raises(ValueError, match="one shape"):
            Stack(pair)


@pytest.mark.parametrize("narrow", ["start", "noise"])
def test_no_kernel_is_given_fewer_numbers_than_it_reads(narrow: str) -> None:
    protection = build_protection([CELLS["laplace-l2"]], CPU)
    assert isinstance(protection, ClientProtection)
    wide, one = torch.zeros(1, 3, CELLS["laplace-l2"].shape.n), slice(0, 1)
    start, noise = wide, wide.double().numpy()
    with pytest.raises(ValueError, match="same shape"):
        protection.protect(
            start[:, one] if narrow == "start" else start,
            wide,
            noise[:, one] if narrow == "noise" else noise,
        )


class Invented(SpecPart):
    """A member of no union."""

    mechanism: Literal["invented"] = "invented"
    noise_multiplier: float = 1.0
    clip: float = 1.0
    noise: Noise = "simulation"


def with_invented(one: Cell) -> Cell:
    """The cell under a mechanism that nobody knows, past the check that a cell makes itself."""
    changed = copy(one)
    object.__setattr__(changed, "spec", one.spec.model_copy(update={"privacy": Invented()}))
    return changed


def padded() -> Cell:
    return cell_with(None, **ALONE)


def unpadded() -> Cell:
    one = padded()
    return Cell(one.spec, one_by_one(one.federation))


def of_records() -> Cell:
    return cell(records_spec())


UPDATES = {"side by side": padded, "client by client": unpadded}
PATHS = {**UPDATES, "records": of_records}


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a server was handed, or a client computed; empty while nothing was released."""
    seen: list[str] = []

    def takes(name: str) -> Any:
        def take(*_: object, **__: object) -> None:
            seen.append(name)
            raise RuntimeError(f"{name} was reached")

        return take

    monkeypatch.setattr(Server, "__call__", takes("server"))
    monkeypatch.setattr(TrustedServer, "average", takes("trusted server"))
    monkeypatch.setattr(RecordSteps, "__call__", takes("record steps"))
    return seen


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_same_cells_are_trained_under_a_known_mechanism(path: Any, received: list[str]) -> None:
    """What `received` watches is on the way of every path."""
    with pytest.raises(RuntimeError, match="was reached"):
        Stack([path()]).advance(1)
    assert len(received) == 1


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_mechanism_that_only_the_spec_names_makes_no_cell_and_is_not_trained(path, received):
    one = path()
    with pytest.raises(AssertionError, match="Invented"):
        Cell(one.spec.model_copy(update={"privacy": Invented()}), one.federation)
    invented = with_invented(one)
    with pytest.raises(AssertionError, match="Invented"):
        Stack([invented])
    with pytest.raises(AssertionError, match="Invented"):
        spending_of(invented.spec, invented.federation)
    assert received == []


class LooksRight:
    """All that a protection of clients and a trusted server offer, and neither of them."""

    moves = ()

    def draw_noise(self, draws: object, block: object) -> None:
        """No noise."""

    def protect(self, start: Tensor, updated: Tensor, noise: object) -> ProtectedUploads:
        finite = torch.ones(updated.shape[:2], dtype=torch.bool)
        return ProtectedUploads(updated, None, finite)


@pytest.mark.parametrize("path", UPDATES.values(), ids=UPDATES)
def test_nothing_is_taken_for_a_protection_by_its_looks(path, received, monkeypatch):
    monkeypatch.setattr(stack_round, "build_protection", lambda cells, device: LooksRight())
    with pytest.raises(AssertionError, match="LooksRight"):
        Stack([path()]).advance(1)
    assert received == []


@pytest.mark.parametrize("path", UPDATES.values(), ids=UPDATES)
def test_a_protection_that_is_lost_on_the_way_stops_the_round(path, received):
    stack = Stack([path()])
    engine: Any = stack._engine
    engine._protection = None
    with pytest.raises(AssertionError, match="None"):
        stack.advance(1)
    assert received == []


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.nan, np.inf])
def test_a_private_plan_without_noise_is_refused(multiplier, monkeypatch):
    one = of_records()
    use = record_use_of(one.spec, one.federation)
    assert use is not None
    assert use.runs is not None
    silent = tuple(replace(part) for part in use.runs)
    object.__setattr__(silent[3], "noise_multiplier", multiplier)
    for runs in (silent, ()):
        changed = replace(use, runs=runs)
        monkeypatch.setattr(personalised, "record_use_of", lambda *_, use=changed: use)
        with pytest.raises(ValueError, match="noise of its own"):
            Stack([one])


LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize(
    ("upload", "counts"),
    [
        ([1.0, 2.0], True),
        ([LARGEST, LARGEST], True),
        ([math.nan, 1.0], False),
        ([1.0, math.inf], False),
        ([-math.inf, 1.0], False),
        ([math.inf, -math.inf], False),
    ],
)
def test_an_upload_with_one_number_that_is_not_finite_does_not_count(upload, counts):
    uploads = torch.tensor([[[1.0, 1.0], upload], [[1.0, 1.0]] * 2])
    assert finite_uploads(uploads).tolist() == [[True, counts], [True, True]]


def test_an_update_on_the_clip_is_within_it() -> None:
    """Norms of 3, 4 and 5: the noised count of a clip that moves is of those at most the clip."""
    one = cell_with(
        0.0, privacy={**CENTRAL, "clip": {"adaptive": {"initial": 4.0, "count_noise": 1.0}}}
    )
    server = build_protection([one], torch.device("cpu"))
    assert isinstance(server, TrustedServer)
    updates = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [3.0, 4.0]]])
    clips = torch.tensor([[4.0]], dtype=torch.float64)
    assert server.within(updates, clips).tolist() == [[True, True, False]]
    beyond = torch.nextafter(torch.tensor(4.0), torch.tensor(5.0))
    assert server.within(torch.stack([beyond, -beyond])[None, :, None], clips).tolist() == [
        [False, False]
    ]


@pytest.mark.parametrize("computed", [lambda data: data, one_by_one], ids=list(UPDATES))
def test_secret_noise_of_the_count_does_not_follow_from_the_seed(computed: Any) -> None:
    """No update is finite, so two runs move their clips by noise alone: alike by 1 in 2**40."""
    adaptive = {"initial": 1.0, "count_noise": 0.4, "step_size": 0.1, "quantile": 0.5}
    privacy = {**CENTRAL, "noise": "release", "clip": {"adaptive": adaptive}}
    one = cell_with(np.nan, privacy=privacy, training__cohort={"clients": 18})
    clips = []
    for _ in range(2):
        stack = Stack([Cell(one.spec, computed(one.federation))])
        stack.plan(1)
        stack.advance(1)
        clips.append(state(stack).clip)
    assert clips[0] != clips[1]
