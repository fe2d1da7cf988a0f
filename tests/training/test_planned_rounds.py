"""Noise that cannot be drawn again: its rounds are planned and charged first, and a crash costs."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations.federation import Federation
from fedaudit.ledger.rows import Outcome
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.stack import Stack
from tests.training.federations import one_by_one, random_federation, table_cell
from tests.training.gaussian import (
    ALONE,
    BLOCKS,
    CENTRAL,
    LAYERS,
    LOCAL,
    SERVER,
    state,
    training_clients,
    with_room_for,
)
from tests.training.personalised import records_spec
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec, train

SECRET_SERVER = {"privacy": {**CENTRAL, "noise": "release"}}
ALL_OF_50: dict[str, Any] = {"training__cohort": {"clients": 50}}
EVERYBODY = {"training__cohort": {"sampling": "poisson", "rate": 1}}
SPECS: dict[str, dict[str, Any]] = {
    "laplace": groups_spec(privacy__noise="release"),
    "laplace, budgets": groups_spec(privacy__noise="release", privacy__client_budget=6.0),
    "noise of clients, budgets": with_room_for(
        2, server=False, privacy={**LOCAL, "noise": "release"}, **ALL_OF_50
    ),
    "noise of a server, budget": with_room_for(5, **SECRET_SERVER),
    "records": records_spec(privacy__noise="release", **EVERYBODY),
    "records without noise": records_spec(
        privacy__noise="release", privacy__baseline="privacy-free"
    ),
}
LAST_ROUND = {"noise of a server, budget": 5, "records": 6, "records without noise": 6}


@pytest.mark.parametrize("name", SPECS)
def test_only_planned_rounds_are_played_and_plans_name_who_is_charged(name: str) -> None:
    stack, numbers, charged = Stack([cell(SPECS[name])]), list[int](), list[int]()
    while stack.active:
        with pytest.raises(RuntimeError, match="planned first"):
            stack.advance(1)
        stack.plan(4)
        planned = stack.plan(4)[0]  # again, which changes nothing
        records = records_of(stack.advance(100)[0])
        for plan, record in zip(planned, records, strict=True):
            assert (plan.round, plan.release) == (record.round, record.release)
            taking_part = record.subjects[record.outcomes != Outcome.REFUSED]
            assert np.array_equal(plan.subjects, taking_part)
            assert plan.subjects.dtype == np.int32
        numbers += [plan.round for plan in planned]
        charged += [len(plan.subjects) for plan in planned]
    assert numbers == list(range(1, LAST_ROUND.get(name, 30) + 1))
    if "budgets" in name:
        assert stack.releases(0).max() == 2
    if name == "noise of clients, budgets":
        assert charged == [50, 50, *[0] * 28]


@pytest.mark.parametrize("name", ["laplace", "records"])
def test_only_the_noise_of_a_run_does_not_follow_from_its_seed(name: str) -> None:
    """Who validates and who can be drawn does: it protects no client and is the experiment's."""
    thetas, drawn = [], []
    for _ in range(2):
        stack = Stack([cell(SPECS[name])])
        records = planned_and_played(stack, 30)
        thetas.append(state(stack).hypotheses)
        drawn.append({client for record in records for client in record.subjects.tolist()})
    assert not np.array_equal(*thetas)
    assert drawn[0] == drawn[1]


def planned_and_played(stack: Stack, rounds: int) -> list[RoundRecord]:
    stack.plan(rounds)
    return records_of(stack.advance(rounds)[0])


def test_secret_noise_is_not_drawn_beside_that_of_a_simulation() -> None:
    """Cells of one stack draw from one source, which would be that of the first."""
    kinds = ("release", "simulation")
    secret, plain = (cell(groups_spec(privacy__noise=kind, fairness={})) for kind in kinds)
    for pair in ([secret, plain], [plain, secret]):
        with pytest.raises(ValueError, match="one shape"):
            Stack(pair)


# -- after a crash --------------------------------------------------------------------------------


def test_lost_rounds_stay_charged_and_are_repeated_under_a_new_release() -> None:
    one = cell({**groups_spec(privacy__noise="release", privacy__client_budget=6.0, **ALL_OF_50)})
    lost = Stack([one])
    planned_and_played(lost, 1)
    checkpoint = lost.checkpoint(0)
    (plan,) = lost.plan(1)[0]  # its worker dies before the round is stored
    stack = Stack([one], checkpoints=[checkpoint])
    stack.charge(0, plan.subjects)
    stack.set_release(0, 1, until=plan.round)
    assert stack.releases(0).max() == 2
    (repeated,) = stack.plan(1)[0]
    assert (repeated.round, repeated.release) == (2, 1)
    # One release, one lost: a budget of two has no room for the repetition.
    assert len(repeated.subjects) == 0
    records = records_of(stack.advance(1)[0]) + planned_and_played(stack, 1)
    assert [(record.round, record.release) for record in records] == [(2, 1), (3, 0)]
    assert set(records[0].outcomes.tolist()) == {Outcome.REFUSED}


def test_release_numbers_survive_an_interruption() -> None:
    one = cell(SPECS["laplace"])
    stack = Stack([one])
    stack.set_release(0, 2, until=3)
    first = planned_and_played(stack, 2)
    rest = planned_and_played(Stack([one], checkpoints=[stack.checkpoint(0)]), 2)
    assert [record.release for record in first + rest] == [2, 2, 2, 0]
    assert [record.round for record in first + rest] == [1, 2, 3, 4]


def test_lost_rounds_of_a_server_are_charged_to_everyone() -> None:
    one = cell(SPECS["noise of a server, budget"])
    lost = Stack([one])
    assert [plan.subjects.tolist() for plan in lost.plan(30)[0]] == [[0]] * 5
    lost.advance(1)
    # Its worker dies before round 2 is stored.
    stack = Stack([one], checkpoints=[lost.checkpoint(0)])
    stack.charge(0, np.zeros(1, dtype=np.int32))
    stack.set_release(0, 1, until=2)
    assert stack.releases(0).tolist() == [2]
    planned = stack.plan(30)[0]
    assert [(plan.round, plan.release) for plan in planned] == [(2, 1), (3, 0), (4, 0)]
    records = records_of(stack.advance(30)[0])
    assert [record.releases.tolist() for record in records] == [[3], [4], [5]]
    assert (stack.active, stack.result(0).stopped_by, stack.result(0).rounds) == ([], "budget", 4)


def test_charges_may_use_the_budget_up() -> None:
    stack = Stack([cell(with_room_for(2, **SECRET_SERVER))])
    planned_and_played(stack, 1)
    before = state(stack)
    stack.charge(0, np.zeros(1, dtype=np.int32))
    assert (stack.active, stack.plan(1)) == ([], {})
    assert state(stack).hypotheses.tobytes() == before.hypotheses.tobytes()
    assert stack.result(0).stopped_by == "budget"


def test_a_lost_block_of_rounds_is_charged_whole_and_drawn_anew() -> None:
    """Nothing keeps a secret allocation: what is left of a block that a crash ends would else be
    entered a second time by some, at the price of one."""
    one = cell(groups_spec(**{**SERVER, **SECRET_SERVER, "training__cohort": BLOCKS}))
    lost = Stack([one])
    assert [plan.round for plan in lost.plan(7)[0]] == list(range(1, 11))
    lost.advance(10)
    checkpoint, charged = lost.checkpoint(0), lost.plan(1)[0]
    assert [plan.round for plan in charged] == list(range(11, 16))
    lost.advance(2)  # and then its worker dies
    stack = Stack([one], checkpoints=[checkpoint])
    for plan in charged:
        stack.charge(0, plan.subjects)
    assert [plan.round for plan in stack.plan(3)[0]] == list(range(11, 16))
    assert records_of(stack.advance(5)[0])[-1].releases.tolist() == [20]
    torn = Stack([one], checkpoints=[lost.checkpoint(0)])
    with pytest.raises(ValueError, match="whole blocks of 5 rounds"):
        torn.plan(3)


# -- what clients release, what their budget refuses, and what is withheld ------------------------


LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 3.0}


def recount(records: list[RoundRecord]) -> Counter[int]:
    """Releases of every client, one by one, checking the running numbers on the way."""
    released: Counter[int] = Counter()
    for record in records:
        for place, client in enumerate(record.subjects.tolist()):
            released[client] += record.outcomes[place] == Outcome.RELEASED
            assert record.releases[place] == released[client]
    return released


@settings(max_examples=12, deadline=None)
@given(
    st.floats(0.5, 40).map(lambda value: round(value, 2)),
    st.sampled_from([0.5, 1.0, 3.0, 7.3]),
    st.integers(0, 99),
)
def test_no_client_passes_its_budget(budget: float, nu: float, seed: int) -> None:
    spec = groups_spec(
        seed=seed,
        privacy__noise_multiplier=nu,
        privacy__client_budget=budget,
        model={"kind": "linear"},
    )
    stack = Stack([cell(spec)])
    records = records_of(stack.advance(30)[0])
    released = recount(records)
    cost = Fraction(3) / Fraction(str(nu))
    assert max(released.values()) * cost <= Fraction(str(budget))
    assert np.array_equal(stack.releases(0), [released[client] for client in range(100)])
    for record in records:
        refused = record.outcomes == Outcome.REFUSED
        # Refused exactly those who had no room for one more.
        assert np.array_equal(refused, (record.releases + refused) * float(cost) > budget + 1e-9)
        assert np.all(record.chosen[refused] == -1)
        assert np.all(record.clusters[refused] == -1)
        assert np.isnan(record.radii[refused]).all()
        assert np.all(record.radii[~refused] > 0)
        assert sum(record.cluster_sizes) == np.count_nonzero(~refused)


def test_a_budget_below_one_release_admits_nobody() -> None:
    spec = groups_spec(privacy__client_budget=2.9, training__rounds=5)
    records, result = train(spec)
    assert {int(outcome) for record in records for outcome in record.outcomes} == {Outcome.REFUSED}
    assert not any(recount(records).values())
    assert result.hypotheses.tobytes() == first_hypotheses(cell(spec)).tobytes()
    assert all(record.separation is None and not record.collapsed for record in records)


def test_what_a_refused_client_holds_does_not_matter() -> None:
    changes = {"privacy": {**LAPLACE, "client_budget": 2.7}, "training__rounds": 12}
    data = random_federation()
    honest = table_cell(data, **changes)
    records, _ = train(honest)
    spent, since = next(
        (int(client), record.round)
        for record in records
        for client, outcome in zip(record.subjects, record.outcomes, strict=True)
        if outcome == Outcome.REFUSED
    )
    # The same run with another client's data, resumed from where the first refused it.
    before = Stack([honest])
    before.advance(since - 1)
    data.side_by_side[data.own(spent)] *= -100
    changed = Stack([table_cell(data, **changes)], checkpoints=[before.checkpoint(0)])
    for expected, found in zip(
        records[since - 1 :], records_of(changed.advance(12)[0]), strict=True
    ):
        assert found.radii.tobytes() == expected.radii.tobytes()
        assert found.selection_loss == expected.selection_loss


WITHHOLDING: dict[str, dict[str, Any]] = {
    "adaptive radius": {"privacy": LAPLACE},
    "adaptive radius and clip": {"privacy": {**LAPLACE, "clip": 0.5}},
    "radius": {"privacy": {**LAPLACE, "radius": 0.5}},
    "layers": {**LAYERS, "privacy": {**LAPLACE, "per_layer": True}},
    "no noise": {"privacy": {"mechanism": "none"}},
}
COVERED: dict[str, dict[str, Any]] = {
    "clip and radius": {"privacy": {**LAPLACE, "radius": 0.5, "clip": 0.5}},
    "layers": {**LAYERS, "privacy": {**LAPLACE, "per_layer": True, "radius": 0.5, "clip": 0.5}},
    "noise of clients": ALONE,
}
"""Guarantees between any two updates of a client."""


def broken_run(
    changes: dict[str, Any], value: float, computed: Callable[[Federation], Federation]
) -> tuple[Stack, list[RoundRecord], int]:
    """Four rounds of twelve clients, one of whose updates is not finite."""
    data = random_federation(clients=20)
    common = {"training__loss": "mse", "training__local": {"step_size": 0.01}}
    one = table_cell(data, **{**common, **changes, "training__cohort": {"clients": 12}})
    broken = int(training_clients(one)[4])
    data.side_by_side[data.own(broken)] = value
    stack = Stack([Cell(one.spec, computed(data))])
    records = records_of(stack.advance(4)[0])
    assert len(records) == 4
    for record in records:
        assert record.selection_loss is not None
        assert np.isfinite(record.selection_loss)
    assert np.isfinite(stack.result(0).hypotheses).all()
    recount(records)
    return stack, records, broken


PADDED = pytest.mark.parametrize(
    "computed", [lambda data: data, one_by_one], ids=["padded", "one by one"]
)


@PADDED
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("name", COVERED)
def test_whether_an_update_is_finite_does_not_show_where_all_updates_are_covered(
    name, value, computed
):
    """It counts as none, and its noise leaves: the server saw one bit of data exactly."""
    stack, records, broken = broken_run(COVERED[name], value, computed)
    for record in records:
        assert (record.outcomes == Outcome.RELEASED).all()
        assert sum(record.cluster_sizes) == 12
    assert stack.releases(0)[broken] == 4


@PADDED
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("name", WITHHOLDING)
def test_an_update_that_is_not_finite_is_withheld(name, value, computed):
    stack, records, broken = broken_run(WITHHOLDING[name], value, computed)
    for record in records:
        withheld = record.outcomes == Outcome.WITHHELD
        assert record.subjects[withheld].tolist() == [broken]
        assert np.isnan(record.radii[withheld]).all()
        assert (record.clusters[withheld] == -1).all()
        assert sum(record.cluster_sizes) == 11
    assert stack.releases(0)[broken] == 0
    assert state(stack).budget_uses[broken] == 4


def test_a_withheld_update_counts_against_the_budget() -> None:
    """Its noise was drawn; being withheld says something about it."""
    spec = groups_spec(
        training__loss="mse",
        training__local={"epochs": 40, "step_size": 1e6},
        training__cohort={"clients": 50},
        training__rounds=4,
        privacy__client_budget=6.0,
    )
    outcomes = [set(record.outcomes.tolist()) for record in train(spec)[0]]
    assert outcomes == [{Outcome.WITHHELD}] * 2 + [{Outcome.REFUSED}] * 2
