"""What records of different budgets spend, each of them and by groups."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, added_epsilon
from fedaudit.privacy.accounting.epsilon_tables import RepeatedEvent, repeated_event_from_dict
from fedaudit.privacy.accounting.two_stage import round_curve
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_use import (
    drawn_budgets,
    record_groups,
    record_use,
    uncalibrated_run,
)
from fedaudit.spec.errors import InvalidInputError
from tests.privacy.accounting.spending import by_orders
from tests.privacy.specs_of_privacy import a_spec, records_spec

RECORDS = (200, 100, 20)
CLIENT_OF = np.repeat(np.arange(3), RECORDS)
KEYS = np.arange(sum(RECORDS), dtype=np.uint64)
ROUNDS, DELTA = 6, 1e-3


def plan_of(spec, budgets=None):
    if budgets is None:
        budgets = drawn_budgets(spec, keys=KEYS)
    use = record_use(spec, budgets=budgets, client_of=CLIENT_OF, clients=3)
    return mechanism_of(spec).spending_plan(training_clients=3, records=use)


BASELINES = [None, "uniform", "strong-for-all", "dropout", "filter"]


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("distribution", ["three-levels", "bounded-pareto"])
def test_a_groups_line_bounds_every_record_of_it_after_every_round(baseline, distribution):
    plan = plan_of(records_spec(baseline, distribution=distribution))
    assert plan.subject_kind == "record_group"
    assert (plan.adjacency, plan.accountant) == ("add-or-remove-one", "two-stage")
    assert len(plan.subjects) == len(set(plan.subjects)) == len(plan.records.groups)
    for observer in ("final_model", "server"):
        for count in (1, 3, ROUNDS):
            spent = plan.records.epsilons(observer, count)
            for group, line in enumerate(plan.lines[observer]):
                largest = spent[plan.records.group_of == group].max()
                assert line.epsilons[count] == pytest.approx(largest, rel=1e-12)
        for line in plan.lines[observer]:
            assert line.epsilons[0] == 0
            assert (np.diff(line.epsilons) >= 0).all()
    for seen, hidden in zip(plan.lines["server"], plan.lines["final_model"], strict=True):
        assert (seen.epsilons >= hidden.epsilons).all()


def test_no_personalised_record_passes_its_budget_before_the_final_model():
    plan = plan_of(records_spec(distribution="bounded-mix-gauss"))
    records = plan.records
    assert records.left_out == 0
    assert records.overspent(ROUNDS) == 0
    assert (records.epsilons("final_model", ROUNDS) <= records.use.budgets).all()
    assert (records.epsilons("server", ROUNDS) > records.use.budgets).any()


def test_the_accountant_of_a_groups_event_agrees():
    plan = plan_of(records_spec())
    for observer, lines in plan.lines.items():
        for line in lines:
            alone = by_orders(line.event, ROUNDS, observer=observer, delta=DELTA)
            assert line.epsilons[-1] == pytest.approx(alone, rel=1e-12)


def test_groups_are_told_with_the_share_of_their_budgets():
    plan = plan_of(records_spec())
    found = plan.records.of_groups(ROUNDS)
    assert [one.high for one in plan.records.groups] == [0.1, 1.0, 5.0]
    assert sum(one["records"] for one in found) == sum(RECORDS)
    assert all(0.99 < one["budget_used_share"] <= 1 for one in found)
    half = plan.records.of_groups(3)
    pairs = zip(half, found, strict=True)
    assert all(few["epsilon_max"] < all_["epsilon_max"] for few, all_ in pairs)


def test_the_server_sees_the_rounds_of_a_records_own_client():
    plan = plan_of(records_spec())
    participations = np.array([6, 0, 2])
    spent = plan.records.epsilons("server", participations[CLIENT_OF])
    assert (spent[CLIENT_OF == 1] == 0).all()
    assert spent.max() == pytest.approx(plan.largest("server", 6), rel=1e-12)


def test_records_below_the_floor_are_left_out_and_belong_to_no_group():
    spec = records_spec()
    budgets = drawn_budgets(spec, keys=KEYS)
    budgets[:7] = 1e-6
    plan = plan_of(spec, budgets)
    assert plan.records.left_out == 7
    assert (plan.records.group_of[:7] == -1).all()
    assert (plan.records.epsilons("server", ROUNDS)[:7] == 0).all()
    assert "budget 1e-06" not in plan.subjects
    with pytest.raises(InvalidInputError, match="no record can be sampled"):
        plan_of(spec, np.full(len(CLIENT_OF), 1e-6))


def test_a_fit_overspends_and_says_how_often():
    plan = plan_of(records_spec(inversion="curve-fit"))
    budgets = plan.records.use.budgets
    assert plan.records.overspent(ROUNDS) == np.count_nonzero(
        plan.records.epsilons("final_model", ROUNDS) > budgets
    )
    assert plan.records.overspent(ROUNDS) > 0


def test_a_plan_that_would_overspend_is_never_made():
    spec = records_spec()
    use = record_use(spec, budgets=drawn_budgets(spec, keys=KEYS), client_of=CLIENT_OF, clients=3)
    wrong = replace(use, budgets=use.budgets / 2)
    with pytest.raises(RuntimeError, match="would pass their budgets"):
        mechanism_of(spec).spending_plan(training_clients=3, records=wrong)


def test_a_filtered_record_spends_nothing_more_once_it_has_left():
    plan = plan_of(records_spec("filter"))
    line = plan.lines["final_model"][0]
    assert line.repeated_events[0].max_compositions < ROUNDS
    budget = plan.records.groups[0].high
    assert line.epsilons[-1] == line.epsilons[line.repeated_events[0].max_compositions] <= budget
    assert line.after(ROUNDS + 5) == line.epsilons[-1]


def test_rounds_that_are_repeated_let_no_record_pass_its_budget():
    """Training samples nobody once as many rounds are charged as the plan has, lost ones too."""
    plan = plan_of(records_spec())
    records = plan.records
    for observer in ("final_model", "server"):
        whole = records.epsilons(observer, ROUNDS)
        assert (records.epsilons(observer, ROUNDS + 3) == whole).all()
        # Ledger, report and budgets go by the plan.
        assert plan.largest(observer, ROUNDS + 3) == plan.largest(observer, ROUNDS) > 0
        assert (plan.curve(observer, ROUNDS + 3) == plan.curve(observer, ROUNDS)).all()
    assert records.overspent(ROUNDS + 3) == 0


def test_without_noise_there_is_no_plan():
    assert plan_of(records_spec("privacy-free")) is None
    with pytest.raises(ValueError, match="record_use"):
        mechanism_of(records_spec()).spending_plan(training_clients=3)
    with pytest.raises(ValueError, match="does not sample records"):
        uncalibrated_run(a_spec())
    with pytest.raises(ValueError, match="no distribution"):
        drawn_budgets(a_spec(), keys=KEYS)


@pytest.mark.parametrize("observer", ["final_model", "server"])
def test_curves_bound_divergences_at_orders_between_whole_ones_too(observer):
    plan = plan_of(records_spec())
    curve = plan.curve(observer, ROUNDS)
    assert curve.shape == (len(RDP_ORDERS),)
    assert (np.diff(curve) >= 0).all()
    whole = [place for place, order in enumerate(RDP_ORDERS) if order == int(order)]
    orders = [int(RDP_ORDERS[place]) for place in whole]
    largest = max(line.event.record_rate for line in plan.lines[observer])
    event = replace(plan.line(observer, 0).event, record_rate=largest)
    assert curve[whole] == pytest.approx(
        ROUNDS * round_curve(event, tuple(orders), observer=observer)
    )
    # These orders reach a little further than the accountant's own, and have more of the small.
    epsilon = float((curve + added_epsilon(RDP_ORDERS, DELTA)).min())
    assert epsilon == pytest.approx(plan.largest(observer, ROUNDS), rel=0.01)


def test_the_ledger_keeps_the_courses_of_every_group():
    spec = records_spec("filter")
    plan = plan_of(spec)
    kept = json.loads(mechanism_of(spec).inputs(n=3, plan=plan).event)
    assert sorted(kept) == sorted(plan.subjects)
    for name, line in zip(plan.subjects, plan.lines["server"], strict=True):
        assert tuple(repeated_event_from_dict(one) for one in kept[name]) == line.repeated_events


def test_a_course_reads_back_and_refuses_nonsense():
    [repeated] = plan_of(records_spec("filter")).lines["server"][0].repeated_events[:1]
    assert repeated_event_from_dict(json.loads(json.dumps(repeated.as_dict()))) == repeated
    with pytest.raises(ValueError, match="lasts"):
        repeated_event_from_dict({**repeated.as_dict(), "lasts": 0})
    assert RepeatedEvent(repeated.event, 3).compositions_within([0, 2, 9]).tolist() == [0, 2, 3]


def test_few_budgets_make_a_group_each_and_many_are_gathered_between_round_numbers():
    used = np.array([True, True, False, True])
    groups, group_of = record_groups(np.array([5.0, 0.1, 1.0, 0.1]), used)
    assert [group.name for group in groups] == ["budget 0.1", "budget 5.0"]
    assert group_of.tolist() == [1, 0, -1, 0]
    budgets = np.geomspace(0.02, 7.0, 500)
    groups, group_of = record_groups(budgets, np.full(500, True))
    assert len(groups) <= 10
    low = np.array([group.low for group in groups])[group_of]
    high = np.array([group.high for group in groups])[group_of]
    assert ((low < budgets) & (budgets <= high)).all()
    # The ends are the same whoever has which budget.
    fewer, _ = record_groups(budgets[100:], np.full(400, True))
    assert set(fewer) <= set(groups)
