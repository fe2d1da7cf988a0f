"""Every mechanism answers every question, and its answers agree with each other."""

from functools import cache

import pytest

from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from tests.privacy.mechanisms.specs import CLIENTS, SPECS, records_of

pytestmark = pytest.mark.parametrize("name", SPECS)


@cache
def bound(name: str) -> tuple[PrivacyMechanism, SpendingPlan | None]:
    """The mechanism of a spec, and its plan."""
    spec = SPECS[name]
    mechanism = mechanism_of(spec)
    plan = mechanism.spending_plan(
        training_clients=len(CLIENTS), names=CLIENTS, records=records_of(spec)
    )
    return mechanism, plan


def test_there_is_a_plan_where_the_cost_is_an_epsilon(name: str) -> None:
    mechanism, plan = bound(name)
    assert mechanism.cost_kind in mechanism.facts.cost_kinds
    assert (plan is not None) == (mechanism.cost_kind == "epsilon")
    if plan is not None:
        assert plan.subject_kind == mechanism.facts.subject_kind
        assert plan.observers == mechanism.facts.observers


def test_the_inputs_are_of_the_same_kind_of_cost(name: str) -> None:
    mechanism, plan = bound(name)
    inputs = mechanism.inputs(n=2, plan=plan)
    assert inputs.mechanism == mechanism.facts.name == mechanism.spec.privacy.mechanism
    assert (mechanism.facts.unbounded_release is None) == (mechanism.facts.unbounded is None)
    assert inputs.cost_kind == mechanism.cost_kind
    assert inputs.guarantee == mechanism.guarantee_kind
    if mechanism.cost_kind == "epsilon":
        with pytest.raises(ValueError, match="records its spending plan"):
            mechanism.inputs(n=2)


def test_the_guarantee_is_of_the_kind_that_is_claimed(name: str) -> None:
    mechanism, plan = bound(name)
    found = mechanism.guarantee(n=2)
    assert found.kind == mechanism.guarantee_kind
    assert found.mechanism == mechanism.facts.name
    assert found.unit == mechanism.facts.unit
    assert found.statement
    protected = mechanism.cost_kind != "unbounded"
    assert (found.kind != "none") == (protected or name == "distance")
    assert found.observers == (mechanism.facts.observers if protected else ())
    if plan is not None:
        assert (found.delta, found.adjacency) == (plan.delta, plan.adjacency)
    for figure in ("adjacency", "delta"):
        assert (getattr(found, figure) is None) == (figure in found.reasons)


def test_every_figure_of_a_projection_is_there_or_has_a_reason(name: str) -> None:
    mechanism, plan = bound(name)
    for known in (plan, None):
        found = mechanism.project_cost(n=2, training_clients=len(CLIENTS), plan=known)
        figures = {**vars(found), "epsilon": found.epsilon or None}
        reasons = figures.pop("reasons")
        # What held-out people are charged is no mechanism's to know: `runs.held_out_cost`.
        assert figures.pop("fairness_epsilon") is None
        missing = {figure for figure, value in figures.items() if value is None}
        assert missing == set(reasons)
        noise = mechanism.noise_multiplier()
        shown = found.noise_multiplier
        assert noise == (reasons["noise_multiplier"] if shown is None else shown)


def test_noise_is_published_where_public_numbers_tell_it(name: str) -> None:
    mechanism, plan = bound(name)
    noise = mechanism.noise_multiplier()
    if name in {"none", "records-free", "records-uniform"}:
        assert isinstance(noise, str)
        return
    assert isinstance(noise, float)
    if plan is not None and plan.records is not None:
        runs = plan.records.use.runs
        assert runs is not None
        assert {run.noise_multiplier for run in runs} == {noise}


def test_a_budget_allows_as_much_as_stays_within_it(name: str) -> None:
    mechanism, plan = bound(name)
    if plan is None:
        assert mechanism.epsilon_budget is None
        return
    for observer in plan.observers:
        allowed = mechanism.compositions_within_budget(plan, observer)
        if mechanism.epsilon_budget is None:
            assert allowed is None
        else:
            assert allowed is not None
            assert plan.largest(observer, allowed) <= mechanism.epsilon_budget
            assert plan.largest(observer, allowed + 1) > mechanism.epsilon_budget


def test_a_run_is_capped_where_a_budget_is_set_and_nowhere_else(name: str) -> None:
    mechanism, plan = bound(name)
    cap = mechanism.participation_cap(n=2, plan=plan)
    budget = mechanism.spec.privacy.model_dump().get("client_budget") or mechanism.epsilon_budget
    assert (cap is None) == (budget is None)
    if mechanism.epsilon_budget is not None:
        assert cap == min(
            mechanism.compositions_within_budget(plan, observer) for observer in plan.observers
        )
        with pytest.raises(ValueError, match="needs its spending plan"):
            mechanism.participation_cap(n=2)


def test_the_reason_for_no_costs_of_groups_is_the_runs_own(name: str) -> None:
    mechanism, _ = bound(name)
    reason = mechanism.no_client_costs
    if mechanism.facts.subject_kind == "client":
        assert reason is None
        return
    assert reason is not None
    assert ("is secret" in reason) == (mechanism.cost_kind == "epsilon")
