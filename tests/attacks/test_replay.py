"""A replay of code that does what it ought to finds nothing, and looks at what it says it does."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedaudit.attacks.replay.noise_laws import (
    as_normal,
    binomial_spread,
    dependence_law,
    gaussian_law,
    laplace_law,
    turns,
)
from fedaudit.attacks.replay.replay import replay_cell
from fedaudit.attacks.replay.replay_finding import FALSE_ALARM
from fedaudit.privacy.noise.gaussian import unit_gaussian
from fedaudit.privacy.noise.laplace import unit_layers
from fedaudit.randomness import CounterSource
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from tests.attacks.zoo.cells import (
    LAYERS,
    adaptive,
    blocks,
    central,
    coins,
    distance,
    fixed,
    in_turn,
    layered,
    local,
    moving,
    of_baseline,
    of_rows,
    records,
    updates,
)
from tests.training.gaussian import MOVES


def doubled(cell: Cell) -> Cell:
    """Every record has one that is alike."""
    twice = np.repeat(np.arange(cell.federation.rows), 2)
    return replace(cell, federation=cell.federation.of_rows(twice))


CLEAN: dict[str, tuple[Callable[[], Cell], tuple[str, ...]]] = {
    "none": (lambda: updates({"mechanism": "none"}), ("uploads of the others",)),
    "laplace-adaptive": (adaptive, ("radius", "noise added", "norms of layer 1")),
    "laplace-fixed": (fixed, ("norm of an update", "distance of the unit's updates")),
    "laplace-layers": (layered, ("norms of layers 1 and 2", "noise added")),
    "laplace-rows": (of_rows(fixed), ("training without those held out", "noise added")),
    "central-rows": (of_rows(moving), ("released hypotheses without those held out",)),
    "laplace-budget": (lambda: fixed(budget=3.0), ("uploads of clients that are not charged",)),
    "laplace-reported": (
        lambda: adaptive(training__clustering={"method": "reported"}),
        ("radius", "noise added"),
    ),
    "laplace-release": (lambda: fixed(noise="release"), ("secret noise", "secret coins")),
    "laplace-in-turn": (
        lambda: in_turn(mechanism="laplace-l2", noise_multiplier=2.0, radius=0.4, clip=0.2),
        ("distance of the unit's updates", "noise added"),
    ),
    "local": (local, ("noise added", "epsilon of the ledger")),
    "local-layers": (lambda: local(**LAYERS), ("norm of an update",)),
    "central": (central, ("distance of neighbouring sums", "noise added", "divisor of sums")),
    "distance": (distance, ("distance of neighbouring sums", "noise added")),
    "central-coins": (coins, ("sizes of cohorts", "epsilon of the ledger")),
    "central-blocks": (blocks, ("rounds of a client in a block", "epsilon of the ledger")),
    "central-blocks-release": (lambda: blocks(noise="release"), ("a client once in a block",)),
    "central-moving": (moving, ("distance of neighbouring counts", "noise on the count")),
    "central-release": (lambda: central(noise="release"), ("secret noise", "secret coins")),
    "central-in-turn": (
        lambda: in_turn(mechanism="gaussian-central", noise_multiplier=2.0, clip=0.2, delta=1e-4),
        ("distance of neighbouring sums", "noise added"),
    ),
    "laplace-adam": (lambda: fixed(**MOVES["adam"]), ("norm of an update", "noise added")),
    "central-momentum": (
        lambda: central(**MOVES["momentum"]),
        ("hypotheses of the next round", "divisor of sums"),
    ),
    "records": (records, ("sums of the other clients", "noise added", "chance of a record")),
    "records-alike": (lambda: doubled(records()), ("rates of the other records",)),
    "records-release": (lambda: records(noise="release"), ("secret noise",)),
    "records-curve-fit": (lambda: records(inversion="curve-fit"), ("epsilon of the ledger",)),
    "records-free": (of_baseline("privacy-free"), ("the neighbour's records",)),
    "records-dropout": (of_baseline("dropout"), ("epsilon of the ledger",)),
    "records-filter": (of_baseline("filter"), ("chance of a record",)),
    "records-uniform": (of_baseline("uniform"), ("noise added",)),
}


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found_where_nothing_is_wrong(name: str) -> None:
    """All tests of distributions of a replay together are failed by one seed in a million."""
    make, looked = CLEAN[name]
    found = replay_cell(make(), rounds=4)
    assert found.findings == ()
    assert found.false_alarm == FALSE_ALARM
    for check in looked:
        assert found.checks[check] > 0


HONEST = ["laplace-adaptive", "laplace-layers", "laplace-release", "local", "central"]
HONEST += ["central-coins", "central-blocks", "central-moving", "records"]


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_alarms_over_seeds_are_as_rare_as_is_said(name: str) -> None:
    """25 seeds of each of 9 specs: a finding is falsely rung by 225 in a million."""
    cell = CLEAN[name][0]()
    for seed in range(1, 26):
        other = replace(cell, spec=cell.spec.model_copy(update={"seed": seed}))
        assert replay_cell(other, rounds=6).findings == ()


def test_who_is_held_out_is_named_and_no_finding() -> None:
    assert "validation_loss, of those held out" in replay_cell(central()).unprotected
    chosen = replay_cell(adaptive(training__clustering={"method": "reported"}))
    assert chosen.unprotected[0].startswith("the hypothesis that a client chose")


def test_nobody_looks_on_but_in_a_replay() -> None:
    replay_cell(central(), rounds=1)
    found = build_protection([central()], torch.device("cpu"))
    assert type(found) is TrustedServer
    assert "average" not in vars(found)


# -- tests of distributions -----------------------------------------------------------------------


def test_pvalues_of_right_noise_are_not_small() -> None:
    """Of 20 seeds and some thirty tests each, none is below 1e-6 but for one run in 1,500."""
    for seed in range(20):
        source = CounterSource(seed)
        normal = unit_gaussian(source, n=5, round_=1, counters=np.arange(300))
        layers = unit_layers(source, sizes=(4, 2), round_=1, counters=np.arange(300))
        laws = [gaussian_law(normal), laplace_law(layers, (4, 2))]
        for noise in (normal, as_normal(layers, (4, 2))):
            laws.append(dependence_law(noise.reshape(100, 3, -1)))
            missing = noise[:48].reshape(12, 4, -1).copy()
            missing[::3, 1] = np.nan
            laws.append(dependence_law(missing))
        pvalues = [pvalue for law in laws for _, pvalue in law]
        assert min(pvalues) > 1e-6
        assert len(pvalues) > 30


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda x: np.stack([x[::2], -x[::2]], 1).reshape(x.shape), "sums over rounds"),
        (lambda x: np.r_[x[:1], np.diff(x, axis=0) / np.sqrt(2)], "noise at any lag"),
        # Of another unit, four rounds later.
        (lambda x: np.stack([np.r_[x[:4, 0], -x[:-4, 1]], x[:, 1]], 1), "noise at any lag"),
        (
            lambda x: np.c_[x[..., :-1], -x[..., :-1].sum(-1, keepdims=True) / np.sqrt(5)],
            "combinations of coordinates",
        ),
        (
            lambda x: np.c_[np.abs(x[..., 3:4]) * np.sign(x[..., :1]), x[..., 1:]],
            "sizes of noise, pairs of coordinates",
        ),
        (lambda x: np.r_[x[:60], x[60:] / 2], "size over rounds"),
    ],
)
def test_noise_that_depends_on_other_noise_is_seen(change, name):
    noise = change(np.random.default_rng(8).standard_normal((96, 2, 6)))
    assert dict(dependence_law(noise))[name] < FALSE_ALARM / 100


def test_coins_that_fall_alike_are_seen() -> None:
    right = np.random.default_rng(3).random((1000, 20)) < 0.3
    assert turns(right - 0.3) > FALSE_ALARM
    assert binomial_spread(right.sum(1), 20, 0.3) > FALSE_ALARM
    again = np.repeat(right[:500], 2, axis=0)
    assert turns(again - 0.3) < FALSE_ALARM
    assert binomial_spread(np.full(1000, 6), 20, 0.3) < FALSE_ALARM
