"""What leaves clients and servers, of runs as they are trained: clips, noise and coins are wired.

Seeds are fixed, so a test gives the same answer always; over seeds, each bound is passed by chance
as rarely as its test says.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of
from fedaudit.training.mechanisms.base import RecordMechanism
from fedaudit.training.mechanisms.registry import training_mechanism
from fedaudit.training.personalised import PersonalisedRun, PersonalisedState
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_round import build_loss
from tests.training.federations import one_by_one
from tests.training.gaussian import CENTRAL, cell_with, state, states
from tests.training.personalised import play, records_spec
from tests.training.specs import cell

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
def test_updates_under_laplace_are_clipped(
    padded: bool, privacy: dict[str, Any], changes: dict[str, Any]
) -> None:
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
    assert use is not None
    assert use.plan.runs is not None
    mechanism = training_mechanism(one.spec.privacy)
    assert isinstance(mechanism, RecordMechanism)
    found = mechanism.protection(one, build_loss(one), use.plan, clients=12)
    noise = use.plan.runs[0].noise_multiplier
    assert noise > 1
    assert found.steps.normaliser == (noise if batch_size is None else batch_size)
    assert found.steps.clip == one.spec.privacy.clip  # type: ignore[union-attr]
    assert found.noise_multipliers.tolist() == [noise] * 12
    for clients in (11, 13):
        with pytest.raises(ValueError, match="every client of a private plan"):
            mechanism.protection(one, build_loss(one), use.plan, clients=clients)
