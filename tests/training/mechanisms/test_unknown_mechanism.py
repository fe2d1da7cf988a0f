"""A mechanism that training does not know stops a run before anything leaves a client.

First one that a spec names and nothing else does; then objects that offer everything a protection
offers, and were never declared to be one.
"""

from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from fedaudit.spec.base import SpecPart
from fedaudit.spec.privacy import Noise
from fedaudit.training import personalised
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import RecordSteps
from fedaudit.training.base.records import spending_of
from fedaudit.training.base.rounds import plot_unavailable_reason
from fedaudit.training.mechanisms.base import ProtectedUploads
from fedaudit.training.mechanisms.gaussian import GaussianServer
from fedaudit.training.personalised import PersonalisedRun
from fedaudit.training.stack import Stack, open_stack
from fedaudit.training.stacked import stack_round
from fedaudit.training.stacked.server import Server
from tests.training.federations import one_by_one
from tests.training.gaussian import ALONE, cell_with
from tests.training.personalised import records_spec
from tests.training.specs import cell, linear_spec


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


def test_no_cell_is_made_of_it() -> None:
    one = padded()
    with pytest.raises(AssertionError, match="Invented"):
        Cell(one.spec.model_copy(update={"privacy": Invented()}), one.federation)


def padded() -> Cell:
    return cell_with(None, **ALONE)


def unpadded() -> Cell:
    one = padded()
    return Cell(one.spec, one_by_one(one.federation))


def of_records() -> Cell:
    return cell(records_spec())


PATHS = {"side by side": padded, "client by client": unpadded, "records": of_records}


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
    monkeypatch.setattr(GaussianServer, "average", takes("trusted server"))
    monkeypatch.setattr(RecordSteps, "__call__", takes("record steps"))
    return seen


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_same_cells_are_trained_under_a_known_mechanism(path: Any, received: list[str]) -> None:
    """What `received` watches is on the way of every path."""
    with pytest.raises(RuntimeError, match="was reached"):
        open_stack([path()]).advance(1)
    assert len(received) == 1


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_mechanism_that_only_the_spec_names_is_not_trained(
    path: Any, received: list[str]
) -> None:
    one = with_invented(path())
    for trainer in (open_stack, Stack, PersonalisedRun):
        with pytest.raises(AssertionError, match="Invented"):
            trainer([one])  # type: ignore[operator]
    assert received == []


def test_nothing_is_said_about_its_subjects_and_their_spending() -> None:
    one = with_invented(cell(linear_spec()))
    with pytest.raises(AssertionError, match="Invented"):
        spending_of(one.spec, one.federation)
    with pytest.raises(AssertionError, match="Invented"):
        plot_unavailable_reason(one)


class LooksRight:
    """All that a protection of clients and a trusted server offer, and neither of them."""

    clip_moves = False

    def draw_noise(self, draws: object, block: object) -> None:
        """No noise."""

    def protect(self, start: Tensor, updated: Tensor, noise: object) -> ProtectedUploads:
        finite = torch.ones(updated.shape[:2], dtype=torch.bool)
        return ProtectedUploads(updated, None, finite)

    def protect_in_place(self, upload: Tensor, start: Tensor, **_: object) -> float:
        return float("nan")

    def radii_shape(self, clients: int) -> tuple[int, ...]:
        return (clients,)


@pytest.mark.parametrize("path", [padded, unpadded], ids=["side by side", "client by client"])
def test_nothing_is_taken_for_a_protection_by_its_looks(
    path: Any, received: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_round, "build_protection", lambda cells, device: LooksRight())
    with pytest.raises(AssertionError, match="LooksRight"):
        Stack([path()]).advance(1)
    assert received == []


@pytest.mark.parametrize("path", [padded, unpadded], ids=["side by side", "client by client"])
def test_a_protection_that_is_lost_on_the_way_stops_the_round(
    path: Any, received: list[str]
) -> None:
    stack = Stack([path()])
    engine: Any = stack._engine
    engine._protection = None
    with pytest.raises(AssertionError, match="None"):
        stack.advance(1)
    assert received == []


def test_records_are_not_trained_by_what_only_looks_right(
    received: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personalised, "training_mechanism", lambda privacy: LooksRight())
    with pytest.raises(AssertionError, match="LooksRight"):
        PersonalisedRun([of_records()])
    assert received == []


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.nan, np.inf])
def test_a_private_plan_without_noise_is_refused(multiplier: float) -> None:
    one = of_records()
    stack = PersonalisedRun([one])
    run: Any = stack
    plan = run._use.plan
    silent = tuple(replace(part) for part in plan.runs)
    object.__setattr__(silent[3], "noise_multiplier", multiplier)
    with pytest.raises(ValueError, match="noise of its own"):
        personalised.PersonalisedRound(
            one, run._records, replace(plan, runs=silent), torch.device("cpu")
        )
    with pytest.raises(ValueError, match="noise of its own"):
        personalised.PersonalisedRound(
            one, run._records, replace(plan, runs=()), torch.device("cpu")
        )
