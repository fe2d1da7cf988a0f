"""Cohorts in rotation and correlated noise, in training and in what is charged for it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountant import PldAccountant, RdpAccountant
from fedaudit.privacy.accounting.privacy_events import Gaussian, Rotated
from fedaudit.privacy.mechanisms.gaussian import cheaper_cohort_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.noise.banded_noise import banded_root, noise_of_sums
from fedaudit.privacy.planning.cost_projection import noise_ratio
from fedaudit.training.base.cell import Cell, is_by_length, is_client_by_client
from fedaudit.training.stack import Stack
from tests.training.federations import one_by_one, random_federation, table_cell
from tests.training.gaussian import CENTRAL, CORRELATED, cell_with, state, training_clients
from tests.training.specs import cell, groups_spec
from tests.training.test_one_by_one import bits
from tests.training.test_stack import fingerprint, run_stacked
from tests.training.test_uneven_clients import COUNTS, uneven

SECRET = {**CORRELATED, "privacy": {**CORRELATED["privacy"], "noise": "release"}}


def places(one: Cell, rounds: int) -> list[list[int]]:
    """The clients of each round."""
    stack = Stack([one])
    stack.plan(rounds)
    block = stack._block
    assert block is not None
    assert block.drawn is not None
    return [
        own[drawn].tolist()
        for own, drawn in zip(block.cohort[:rounds, 0], block.drawn[:rounds, 0], strict=True)
    ]


def test_every_client_has_one_public_place_in_all_blocks() -> None:
    """33 clients in places of 7 or 6, by the seed, whether noise is secret or not."""
    changes = {"training__rounds": 15, "clients": 55}
    one, secret = (cell_with(None, **changes, **kind) for kind in (CORRELATED, SECRET))
    found = places(one, 15)
    assert found == places(secret, 15)
    assert found[:5] == found[5:10] == found[10:]
    assert sorted(client for place in found[:5] for client in place) == sorted(
        training_clients(one).tolist()
    )
    assert {len(place) for place in found} == {6, 7}
    other = cell_with(None, **changes, **CORRELATED, seed=8)
    assert {frozenset(place) for place in places(other, 5)} != {
        frozenset(place) for place in found[:5]
    }


ENGINES: dict[str, Callable[[], Cell]] = {
    "side by side": lambda: cell(groups_spec(**CORRELATED)),
    "client by client": lambda: table_cell(
        one_by_one(random_federation(clients=20)), training__rounds=10, **CORRELATED
    ),
    "by length": lambda: table_cell(uneven(COUNTS), training__rounds=10, **CORRELATED),
}


@pytest.mark.parametrize("name", ENGINES)
def test_cuts_and_resumption_change_no_bit(name: str) -> None:
    one = ENGINES[name]()
    assert is_client_by_client(one) == (name == "client by client")
    assert is_by_length(one) == (name == "by length")
    whole = bits(Stack([one]), [10])
    assert bits(Stack([one]), [1, 2, 7]) == whole
    records, checkpoint = [], None
    for cut in (3, 1, 6):
        stack = Stack([one], checkpoints=[checkpoint])
        records += stack.advance(cut)[0]
        checkpoint = stack.checkpoint(0)
    assert (fingerprint(records), checkpoint) == whole[:2]


def test_runs_of_one_stack_may_differ_in_bands_and_in_their_end() -> None:
    specs = [
        groups_spec(**CORRELATED, training__rounds=rounds, seed=bands)
        | {"privacy": {**CORRELATED["privacy"], "correlation": {"bands": bands}}}
        for bands, rounds in ((2, 5), (5, 15), (3, 15))
    ]
    together = run_stacked([cell(spec) for spec in specs], 4)
    for position, spec in enumerate(specs):
        assert fingerprint(run_stacked([cell(spec)], 30)[0]) == fingerprint(together[position])


def moves(changes: dict[str, Any], *, rounds: int) -> NDArray[np.float64]:
    """What is released without any updates, in deviations of the noise: [rounds, n]."""
    one = cell_with(0.0, width=150, training__rounds=rounds, **changes)
    stack = Stack([one])
    found = [state(stack).hypotheses[0].astype(np.float64)]
    for round_ in range(rounds):
        if round_ % 5 == 0:
            stack.plan(5)
        stack.advance(1)
        found.append(state(stack).hypotheses[0].astype(np.float64))
    cohort = len(training_clients(one)) / 5
    return np.array([after - before for before, after in pairwise(found)]) * cohort / 0.5


@pytest.mark.parametrize("changes", [CORRELATED, SECRET], ids=["simulation", "release"])
def test_weighted_sums_of_rounds_have_the_noise_that_is_charged(changes: dict[str, Any]) -> None:
    """Independent, of one deviation. 1,500 numbers and bounds of five deviations, of which all
    together ring falsely with a chance below 1e-5."""
    found, root = moves(changes, rounds=10), banded_root(4)
    white = np.array(
        [sum(root[back] * found[at - back] for back in range(min(at + 1, 4))) for at in range(10)]
    )
    assert abs(white.std() - 1) < 5 / np.sqrt(2 * white.size)
    for lag in (1, 2, 3, 4):
        product = float((white[lag:] * white[:-lag]).mean())
        assert abs(product) < 5 / np.sqrt(white[lag:].size)
    # Of independent noise 0, within 0.14.
    assert (found[1:] * found[:-1]).mean() < -0.4


@pytest.mark.parametrize(("rounds", "times"), [(1, 1), (5, 1), (6, 2), (20, 4)])
@pytest.mark.parametrize(("name", "accountant"), [("rdp", RdpAccountant), ("pld", PldAccountant)])
def test_each_participation_costs_what_an_unsampled_release_costs(
    name: str, accountant: Any, rounds: int, times: int
) -> None:
    changes = {**CORRELATED, "privacy": {**CORRELATED["privacy"], "accountant": name}}
    mechanism = mechanism_of(cell_with(None, **changes, training__rounds=20).spec)
    plan = mechanism.spending_plan(training_clients=18)
    assert plan is not None
    assert plan.adjacency == "add-or-remove-one"
    assert plan.events_within("final_model", rounds) == times
    alone = accountant(adjacency="add-or-remove-one").compose(Gaussian(0.5), times).epsilon(1e-3)
    found = plan.largest("final_model", rounds)
    assert found >= alone * (1 - 1e-9)
    if rounds == 20:
        assert found == pytest.approx(alone)
        assert mechanism.project_cost(n=3, training_clients=18).epsilon[0]["value"] == found


def test_no_event_has_more_bands_than_rounds() -> None:
    with pytest.raises(ValueError, match="enter twice within the bands"):
        Rotated(4, 5, Gaussian(1.0))


def test_what_is_said_names_what_is_public_and_how_noise_is_correlated() -> None:
    correlated = cell_with(None, **CORRELATED, training__rounds=10).spec
    independent = cell_with(None, **{**CORRELATED, "privacy": CENTRAL}, training__rounds=10).spec
    with_bands, without = (
        mechanism_of(spec).guarantee(n=3).statement for spec in (correlated, independent)
    )
    for said in (with_bands, without):
        assert "in a place of the block that is public (rotation): no sampling amplifies" in said
        assert "whether or not they know who took part" in said
    assert "correlated over 4 rounds (banded square root)" in with_bands
    assert "correlated" not in without
    assert cheaper_cohort_words(independent, training_clients=18) is None
    less, more = (
        noise_ratio(spec, sizes=(3,), training_clients=18, rows=4.0)
        for spec in (correlated, independent)
    )
    assert less is not None
    assert more is not None
    assert less / more == pytest.approx(noise_of_sums(4, 10))
