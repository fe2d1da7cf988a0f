"""What clients release, what their budget refuses, and what is withheld."""

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
from tests.training.gaussian import ALONE, LAYERS, state, training_clients
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec, train

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
