"""Every mechanism is found, protects what leaves, and nothing else is taken for one."""

import math
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
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
    Unprotected,
    drawn,
    finite_uploads,
)
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.mechanisms.registry import build_protection, build_record_protection
from fedaudit.training.personalised import PersonalisedRun, PersonalisedState
from fedaudit.training.stack import Stack, open_stack
from fedaudit.training.stacked import stack_round
from fedaudit.training.stacked.server import Server
from fedaudit.training.stacked.stack_round import build_loss
from tests.training.federations import one_by_one
from tests.training.gaussian import ALONE, CENTRAL, LOCAL, REPORTED, cell_with, state, states
from tests.training.personalised import play, records_spec
from tests.training.specs import cell, groups_spec, linear_spec

CPU = torch.device("cpu")
SPECS: dict[str, dict[str, Any]] = {
    "none": groups_spec(privacy={"mechanism": "none"}),
    "laplace-l2": groups_spec(),
    "gaussian-local": groups_spec(privacy=LOCAL, training__hypotheses=1),
    "gaussian-central": groups_spec(privacy=CENTRAL, **REPORTED),
    "record-personalised": records_spec(),
}
CELLS: dict[str, Cell] = {name: cell(spec) for name, spec in SPECS.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", ClientProtection),
        ("laplace-l2", ClientProtection),
        ("gaussian-local", ClientProtection),
        ("gaussian-central", TrustedServer),
    ],
)
def test_cells_of_another_mechanism_are_not_protected_along(name: str, kind: type) -> None:
    one = CELLS[name]
    assert isinstance(build_protection([one, one], CPU), kind)
    for other in set(SPECS) - {name}:
        with pytest.raises(ValueError, match=f"cells of {other} are not protected"):
            build_protection([one, CELLS[other]], CPU)


class _FirstWords(Unprotected):
    """Draws without regard for axes, rounds or clients: as little as the interface lets it."""

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        words = source.wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=4)
        return np.broadcast_to(wide_uniforms(words.ravel()[:4]), (*clients.shape, 4))


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("name", ["careless", "laplace-l2", "gaussian-local", "gaussian-central"])
def test_no_two_cells_side_by_side_share_noise(name: str, secret: bool) -> None:
    seeds, one = np.array([7, 8, 9], dtype=np.uint64), np.ones((1, 3), dtype=np.int64)
    careless = name == "careless"
    protection = _FirstWords() if careless else build_protection([CELLS[name]] * 3, CPU)
    if isinstance(protection, TrustedServer):
        noise = protection.draw(Draws(seeds, secret), one).sums
        alone = protection.draw_cell(CounterSource(seeds[1]), one[:, 1]).sums
    else:
        clients = np.zeros((1, 3, 2), dtype=np.int64)
        noise = drawn(protection.draw(Draws(seeds, secret), one, clients))
        alone = drawn(protection.draw_cell(CounterSource(seeds[1]), one[:, 1], clients[:, 1]))
    assert len(np.unique(noise[0, :, 0], axis=0)) == 3
    assert np.array_equal(noise[:, 1], alone) == (not secret)


def test_records_are_not_protected_update_by_update() -> None:
    one = CELLS["record-personalised"]
    with pytest.raises(ValueError, match="updates are not protected"):
        build_protection([one], CPU)
    with pytest.raises(ValueError, match="record-personalised"):
        Stack([one])


@pytest.mark.parametrize("first", ["none", "record-personalised"])
def test_mechanisms_of_different_trainers_are_not_mixed(first: str) -> None:
    (second,) = {"none", "record-personalised"} - {first}
    with pytest.raises(ValueError, match=r"one shape|is trained alone"):
        open_stack([CELLS[first], CELLS[second]])


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
    monkeypatch.setattr(TrustedServer, "average", takes("trusted server"))
    monkeypatch.setattr(RecordSteps, "__call__", takes("record steps"))
    return seen


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_same_cells_are_trained_under_a_known_mechanism(path: Any, received: list[str]) -> None:
    """What `received` watches is on the way of every path."""
    with pytest.raises(RuntimeError, match="was reached"):
        open_stack([path()]).advance(1)
    assert len(received) == 1


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_mechanism_that_only_the_spec_names_is_not_trained(path, received):
    one = with_invented(path())
    for trainer in (open_stack, Stack, PersonalisedRun):
        with pytest.raises(AssertionError, match="Invented"):
            trainer([one])  # type: ignore[operator]
    assert received == []


def test_nothing_is_said_about_its_subjects_and_their_spending() -> None:
    one = with_invented(cell(linear_spec()))
    with pytest.raises(AssertionError, match="Invented"):
        spending_of(one.spec, one.federation)


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
def test_nothing_is_taken_for_a_protection_by_its_looks(path, received, monkeypatch):
    monkeypatch.setattr(stack_round, "build_protection", lambda cells, device: LooksRight())
    with pytest.raises(AssertionError, match="LooksRight"):
        Stack([path()]).advance(1)
    assert received == []


@pytest.mark.parametrize("path", [padded, unpadded], ids=["side by side", "client by client"])
def test_a_protection_that_is_lost_on_the_way_stops_the_round(path, received):
    stack = Stack([path()])
    engine: Any = stack._engine
    engine._protection = None
    with pytest.raises(AssertionError, match="None"):
        stack.advance(1)
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


LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_upload_with_one_number_that_is_not_finite_does_not_count(bad: float) -> None:
    uploads = torch.ones(2, 3, 4)
    uploads[0, 2, 3] = bad
    assert finite_uploads(uploads).tolist() == [[True, True, False], [True, True, True]]


def test_infinities_that_cancel_and_sums_past_every_number() -> None:
    cancelling = torch.tensor([[[math.inf, -math.inf]], [[1.0, 2.0]]])
    assert finite_uploads(cancelling).tolist() == [[False], [True]]
    assert finite_uploads(torch.full((1, 2, 3), LARGEST)).tolist() == [[True, True]]


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


FALSE_ALARM = 1e-6
ENGINES = pytest.mark.parametrize("padded", [True, False], ids=["side by side", "client by client"])


def laid_out(one: Cell, padded: bool) -> Cell:
    """The cell as the one or the other engine computes it."""
    return one if padded else Cell(one.spec, one_by_one(one.federation))


def updates(padded: bool, privacy: dict[str, Any], **changes: Any) -> NDArray[np.float64]:
    """What one client alone made of the only hypothesis, in each of six rounds: norms."""
    alone: dict[str, Any] = {
        "privacy": privacy,
        "training__hypotheses": 1,
        "training__cohort": {"clients": 1},
        "training__local": {"step_size": 1.0},
        "training__rounds": 6,
        **changes,
    }
    found = states(laid_out(cell_with(None, **alone), padded), 6)
    moves = [
        after.hypotheses.astype(np.float64) - before.hypotheses for before, after in pairwise(found)
    ]
    return np.linalg.norm(np.array(moves), axis=(1, 2))


LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 1e-9}
LAYERED: dict[str, Any] = {"model": {"kind": "mlp", "hidden": [3]}, "privacy__per_layer": True}
CLIPPING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adaptive": (LAPLACE, {}),
    "fixed": ({**LAPLACE, "radius": 0.5}, {}),
    "layers": (LAPLACE, LAYERED),
    "fixed layers": ({**LAPLACE, "radius": 0.5}, LAYERED),
}


@ENGINES
@pytest.mark.parametrize(("privacy", "changes"), CLIPPING.values(), ids=CLIPPING)
def test_updates_under_laplace_are_clipped(padded, privacy, changes):
    """The server keeps the only upload; its noise has a norm of about 1e-9 radii.

    At nu = 1e-9 the norm is 1e-9 * radius times a Gamma(n) number over n: it passes 1e-7, far
    below the rounding of the model, with a chance below 1e-30.
    """
    free = updates(padded, privacy, **changes)
    clip = float(free.min()) / 4
    assert clip > 0.01
    clipped = updates(padded, {**privacy, "clip": clip}, **changes)
    assert clipped.max() <= clip * (1 + 1e-4)
    assert clipped[0] == pytest.approx(clip, rel=1e-4)


@ENGINES
def test_noise_under_a_fixed_radius_has_its_size_whatever_the_update(padded: bool) -> None:
    """Updates of zero, six uploads of n = 3: norms over nu r / n add up to a Gamma(18) number.

    Rejected at 1e-6. By the norm of the update in place of the radius they would be nearly nothing.
    """
    alone: dict[str, Any] = {
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 2.0, "radius": 0.5},
        "training__hypotheses": 1,
        "training__cohort": {"clients": 1},
        "training__rounds": 6,
    }
    found = states(laid_out(cell_with(0.0, **alone), padded), 6)
    moves = [
        after.hypotheses.astype(np.float64) - before.hypotheses for before, after in pairwise(found)
    ]
    total = float(np.linalg.norm(np.array(moves), axis=(1, 2)).sum()) / (2.0 * 0.5 / 3)
    assert stats.gamma.sf(total, 18) > FALSE_ALARM / 2
    assert stats.gamma.cdf(total, 18) > FALSE_ALARM / 2


ADAPTIVE: dict[str, Any] = {"initial": 1.0, "count_noise": 0.4, "step_size": 0.1, "quantile": 0.5}


@ENGINES
def test_the_clip_follows_a_count_with_noise(padded: bool) -> None:
    """Without a finite update the count is its noise alone: 300 normal steps of the clip's log.

    Each has deviation step_size * count_noise / expected; the sums of squares, and the mean, are
    rejected at 1e-6 in all.
    """
    privacy = {**CENTRAL, "clip": {"adaptive": ADAPTIVE}}
    changes: dict[str, Any] = {
        "privacy": privacy,
        "training__cohort": {"clients": 2},
        "training__rounds": 300,
        "training__stopping": {"validate_every": 300},
    }
    found = states(laid_out(cell_with(np.nan, clients=8, **changes), padded), 300)
    steps = np.diff([np.log(one.clip or 0.0) for one in found])
    unit = steps / (0.1 * 0.4 / 2)
    assert len(unit) == 300
    spread = float((unit**2).sum())
    assert stats.chi2.sf(spread, 300) > FALSE_ALARM / 4
    assert stats.chi2.cdf(spread, 300) > FALSE_ALARM / 4
    assert abs(unit.mean()) * np.sqrt(300) < stats.norm.isf(FALSE_ALARM / 4)


@ENGINES
def test_updates_leave_room_for_the_noised_count(padded: bool) -> None:
    """Under z = 2 and sigma_b = 1.25 the updates have noise of z_delta, 10 / 3, and not of 2.

    1,920 normal numbers, whose sum of squares is rejected at 1e-6.
    """
    clip = {"adaptive": {"initial": 1.0, "count_noise": 1.25}}
    one = cell_with(
        0.0,
        width=120,
        privacy={**CENTRAL, "noise_multiplier": 2.0, "clip": clip},
        training__cohort={"clients": 6},
        training__rounds=8,
    )
    found = states(laid_out(one, padded), 8)
    multiplier = (2.0**-2 - (2 * 1.25) ** -2) ** -0.5
    assert multiplier == pytest.approx(10 / 3)
    unit = np.array(
        [
            (after.hypotheses.astype(np.float64) - before.hypotheses)
            / (multiplier * (before.clip or 0.0) / (6 / 2))
            for before, after in pairwise(found)
        ]
    )
    assert unit.size == 1920
    spread = float((unit**2).sum())
    assert stats.chi2.sf(spread, unit.size) > FALSE_ALARM / 2
    assert stats.chi2.cdf(spread, unit.size) > FALSE_ALARM / 2


@ENGINES
def test_secret_noise_of_several_hypotheses_does_not_follow_from_the_seed(padded: bool) -> None:
    """Everyone takes part with an update of zero, so that two runs differ by their noise alone."""
    found = []
    for _ in range(2):
        one = cell_with(
            0.0,
            privacy={**CENTRAL, "noise": "release"},
            training__cohort={"clients": 18},
            training__rounds=1,
        )
        stack = Stack([laid_out(one, padded)])
        stack.plan(1)
        stack.advance(1)
        found.append(state(stack).hypotheses)
    assert found[0].shape == (2, 3)
    assert (found[0] != found[1]).all()


@ENGINES
def test_secret_noise_of_the_count_does_not_follow_from_the_seed(padded: bool) -> None:
    """No update is finite, so two runs move their clips by noise alone: alike by 1 in 2**40."""
    clips = []
    for _ in range(2):
        one = cell_with(
            np.nan,
            privacy={**CENTRAL, "noise": "release", "clip": {"adaptive": ADAPTIVE}},
            training__cohort={"clients": 18},
            training__rounds=1,
        )
        stack = Stack([laid_out(one, padded)])
        stack.plan(1)
        stack.advance(1)
        clips.append(state(stack).clip)
    assert clips[0] != clips[1]


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_clients_of_records_take_part_at_the_rate_of_the_cohort(rate: float) -> None:
    """300 rounds of 12 clients: a binomial number of 3,600 coins, rejected at 1e-6."""
    spec = records_spec(
        training__cohort={"sampling": "poisson", "rate": rate},
        training__rounds=300,
        training__local={"steps": 1, "batch_size": 4, "step_size": 0.01},
        training__stopping={"validate_every": 300},
    )
    stack = PersonalisedRun([cell(spec)])
    assert len(play(stack)) == 300
    taken = PersonalisedState.decode(stack.checkpoint(0)).participations
    assert taken.shape == (12,)
    assert stats.binomtest(int(taken.sum()), 3600, rate).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("batch_size", "steps"), [(4, 5), (None, 5)])
def test_steps_on_records_divide_by_a_public_number(batch_size: int | None, steps: int) -> None:
    """The batch size that a spec names, or else the noise, which is public and the same for all."""
    local = {"steps": steps, "batch_size": batch_size, "step_size": 0.05, "optimiser": "adam"}
    one = cell(records_spec(training__local=local))
    use = record_use_of(one.spec, one.federation)
    found = build_record_protection(one, build_loss(one), use.plan, clients=12)
    noise = use.plan.runs[0].noise_multiplier
    assert noise > 1
    assert found.steps.normaliser == (noise if batch_size is None else batch_size)
    assert found.steps.clip == one.spec.privacy.clip  # type: ignore[union-attr]
    assert found.noise_multipliers.tolist() == [noise] * 12
    for clients in (11, 13):
        with pytest.raises(ValueError, match="every client of a private plan"):
            build_record_protection(one, build_loss(one), use.plan, clients=clients)
