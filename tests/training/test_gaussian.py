"""`gaussian-central` and `gaussian-local` in training."""

from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.training.base.cell import first_hypotheses
from fedaudit.training.stack import Stack
from tests.training.bits import fingerprint
from tests.training.gaussian import (
    ALONE,
    BLOCKS,
    CENTRAL,
    COINS,
    LOCAL,
    SERVER,
    cell_with,
    state,
    states,
    training_clients,
)
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec, linear_spec, play, train


def test_an_update_that_is_not_finite_counts_as_zero_and_nobody_is_told() -> None:
    records = []
    for value in (0.0, np.inf, np.nan):
        one = cell_with(None, training__cohort={"clients": 18}, training__rounds=6)
        one.federation.side_by_side[one.federation.own(training_clients(one)[4])] = value
        records.append(fingerprint(records_of(Stack([one]).advance(6)[0])))
    assert records[0] == records[1] == records[2]


def test_with_little_noise_and_a_wide_clip_it_is_federated_averaging() -> None:
    """The denominator of a fixed cohort is its size, and the same clients are drawn."""
    wide = {**CENTRAL, "noise_multiplier": 1e-3, "clip": 20.0}
    changes = {"training__hypotheses": 1, "training__rounds": 60}
    records, plain = train(linear_spec(privacy={"mechanism": "none"}, **changes))
    found, result = train(linear_spec(privacy=wide, **changes))
    # Noise on a weight: 20 * 1e-3 / 20 a round, pulled back by every later round.
    np.testing.assert_allclose(result.hypotheses, plain.hypotheses, atol=0.02)
    for one, other in zip(found, records, strict=True):
        assert one.selection_loss == pytest.approx(other.selection_loss, abs=0.02)
    assert result.validation_loss < 0.9 * (records[0].validation_loss or 0.0)


def test_several_hypotheses_part_the_two_distributions() -> None:
    privacy = {**CENTRAL, "noise_multiplier": 0.02, "clip": 10.0}
    changes = {"training__clustering": {"method": "reported"}, "training__rounds": 150}
    _, result = train(linear_spec(privacy=privacy, **changes))
    _, plain = train(linear_spec(privacy={"mechanism": "none"}, **changes))
    # Both end at 0.58, and one hypothesis alone at 5.8.
    assert result.validation_loss == pytest.approx(plain.validation_loss, abs=0.1)


# -- what is recorded ----------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [{"clients": 6}, COINS], ids=["drawn", "coins"])
def test_everyone_pays_for_every_round(cohort: dict[str, Any]) -> None:
    one = cell_with(None, training__cohort=cohort, training__rounds=8)
    stack = Stack([one])
    assert stack.releases(0).tolist() == [0]
    records = records_of(stack.advance(8)[0])
    for number, record in enumerate(records, start=1):
        assert record.subjects.tolist() == [0]
        assert record.outcomes.tolist() == [Outcome.RELEASED]
        assert record.releases.tolist() == [number]
        assert np.isnan(record.radii).tolist() == [True]
    assert stack.releases(0).tolist() == [8]


def test_records_tell_nothing_of_who_was_drawn() -> None:
    def stated(record: RoundRecord) -> tuple[object, ...]:
        return (
            record.chosen.tolist(),
            record.clusters.tolist(),
            record.cluster_sizes,
            record.separation,
            record.collapsed,
        )

    changes = {"training__cohort": COINS, "training__rounds": 8}
    records = records_of(Stack([cell_with(None, **changes)]).advance(8)[0])
    assert {str(stated(record)) for record in records} == {"([-1], [-1], (), None, False)"}


def test_the_largest_hypothesis_stays_secret() -> None:
    """Clients with one row would be predicted for by it; they are by the first."""
    stack = Stack([cell_with(None, training__rounds=5)])
    stack.advance(5)
    assert state(stack).best_sizes.tolist() == [0, 0]
    assert state(stack).best_round > 0


# -- coins ---------------------------------------------------------------------------------------


def test_rounds_without_anybody_are_played_and_charged() -> None:
    cohort = {"sampling": "poisson", "rate": 1e-9}
    one = cell_with(None, training__cohort=cohort, training__rounds=5)
    assert records_of(Stack([one]).advance(5)[0])[-1].releases.tolist() == [5]


def test_with_a_rate_of_one_everyone_takes_part() -> None:
    everyone = {"sampling": "poisson", "rate": 1.0}
    found = [
        play(Stack([cell_with(None, training__cohort=cohort, training__rounds=6)]))
        for cohort in (everyone, {"clients": 18})
    ]
    assert fingerprint(found[0]) == fingerprint(found[1])


# -- a clip that moves ---------------------------------------------------------------------------


def test_the_clip_finds_the_wanted_quantile_of_the_norms() -> None:
    """Steps are so small that all norms stay as they are in the first round."""
    clip = {"adaptive": {"initial": 0.01, "count_noise": 0.6, "step_size": 0.3}}
    privacy = {**CENTRAL, "noise_multiplier": 1e-3, "clip": clip}
    changes: dict[str, Any] = {
        "training__hypotheses": 1,
        "training__local": {"step_size": 1e-4},
        "training__cohort": {"clients": 18},
        "training__rounds": 60,
    }
    laplace = {"mechanism": "laplace-l2", "noise_multiplier": 1.0}
    (plain,) = records_of(Stack([cell_with(None, **{**changes, "privacy": laplace})]).advance(1)[0])
    low, high = np.quantile(plain.radii, [0.3, 0.7])
    found = states(cell_with(None, **{**changes, "privacy": privacy}), 60)
    assert found[0].clip == 0.01
    assert low < (found[-1].clip or 0.0) < high


def test_noise_on_the_count_cannot_throw_the_clip_out_of_bounds() -> None:
    clip = {"adaptive": {"initial": 1e-11, "count_noise": 1e9, "step_size": 10.0}}
    one = cell_with(None, privacy={**CENTRAL, "clip": clip}, training__rounds=12)
    clips = [found.clip or 0.0 for found in states(one, 12)]
    assert all(1e-12 <= clip <= 1e12 for clip in clips)
    assert len(set(clips)) > 2


def test_a_zero_update_lies_within_the_clip() -> None:
    clip = {"adaptive": {"initial": 1.0, "count_noise": 0.3}}
    changes: dict[str, Any] = {
        "privacy": {**CENTRAL, "clip": clip},
        "training__cohort": {"clients": 18},
    }
    shrinking = states(cell_with(0.0, training__rounds=20, **changes), 20)
    # All within: exp(-0.2 * 0.5) a round, and the noise of 20 counts over 18 clients.
    assert np.log(shrinking[-1].clip or 0.0) == pytest.approx(-2.0, abs=0.4)
    changes["privacy"] = {**CENTRAL, "clip": {"adaptive": {"initial": 1e-9, "count_noise": 0.3}}}
    growing = states(cell_with(None, training__rounds=20, **changes), 20)
    assert np.log((growing[-1].clip or 0.0) / 1e-9) == pytest.approx(2.0, abs=0.4)
    changes["privacy"] = {**CENTRAL, "clip": clip}
    nobody = states(cell_with(np.nan, training__rounds=20, **changes), 20)
    # Nobody counts: the noise alone moves it.
    assert np.log(nobody[-1].clip or 0.0) == pytest.approx(0.0, abs=0.4)


# -- the budget of everyone ----------------------------------------------------------------------


def budgeted(rounds: int, **changes: Any) -> tuple[dict[str, Any], float]:
    """A spec whose budget has room for so many rounds, and the budget."""
    spec = groups_spec(**{**SERVER, **changes})
    plan = mechanism_of(cell(spec).spec).spending_plan(training_clients=50)
    line = plan.line("final_model")
    budget = float(line.epsilons[rounds] + line.epsilons[rounds + 1]) / 2
    spec["privacy"] = {**spec["privacy"], "epsilon_budget": budget}
    return spec, budget


@pytest.mark.parametrize("cut", [1, 4, 30])
def test_the_run_ends_before_the_round_that_would_pass_the_budget(cut: int) -> None:
    spec, _ = budgeted(7, training__stopping={"validate_every": 4})
    stack = Stack([cell(spec)])
    records = play(stack, (cut,))
    assert len(records) == 7
    assert stack.result(0).stopped_by == "budget"
    # Its last round is validated like the last of any other run.
    validated = [record.round for record in records if record.selection_loss is not None]
    assert validated == [4, 7]
    assert Stack([cell(spec)], checkpoints=[stack.checkpoint(0)]).result(0).stopped_by == "budget"


def test_a_budget_that_lasts_to_the_end_stops_nothing() -> None:
    spec, _ = budgeted(29)
    spec["training"]["rounds"] = 29
    stack = Stack([cell(spec)])
    assert len(stack.advance(100)[0]) == 29
    assert stack.result(0).stopped_by == "rounds"


def test_a_budget_below_one_round_allows_none() -> None:
    spec, _ = budgeted(0)
    stack = Stack([cell(spec)])
    assert stack.active == []
    result = stack.result(0)
    assert (result.stopped_by, result.rounds, result.best_round) == ("budget", 0, 0)
    start = first_hypotheses(cell(spec))
    assert result.hypotheses.tobytes() == start.tobytes()


def test_lost_rounds_are_charged_to_everyone() -> None:
    spec, _ = budgeted(5, privacy={**CENTRAL, "noise": "release"})
    lost = Stack([cell(spec)])
    assert [plan.subjects.tolist() for plan in lost.plan(30)[0]] == [[0]] * 5
    lost.advance(1)
    checkpoint = lost.checkpoint(0)  # and then its worker dies, before round 2 is stored
    stack = Stack([cell(spec)], checkpoints=[checkpoint])
    stack.charge(0, np.zeros(1, dtype=np.int32))
    stack.set_release(0, 1, until=2)
    assert stack.releases(0).tolist() == [2]
    planned = stack.plan(30)[0]
    assert [(plan.round, plan.release) for plan in planned] == [(2, 1), (3, 0), (4, 0)]
    records = records_of(stack.advance(30)[0])
    assert [record.releases.tolist() for record in records] == [[3], [4], [5]]
    assert stack.active == []
    assert (stack.result(0).stopped_by, stack.result(0).rounds) == ("budget", 4)


def test_charges_may_use_the_budget_up() -> None:
    spec, _ = budgeted(2, privacy={**CENTRAL, "noise": "release"})
    stack = Stack([cell(spec)])
    stack.plan(1)
    stack.advance(1)
    before = state(stack)
    stack.charge(0, np.zeros(1, dtype=np.int32))
    assert stack.active == []
    assert stack.plan(1) == {}
    assert state(stack).hypotheses.tobytes() == before.hypotheses.tobytes()
    assert stack.result(0).stopped_by == "budget"


# -- the ends ------------------------------------------------------------------------------------


def test_nothing_is_released_without_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack([cell_with(None)])
    monkeypatch.setattr(stack._engine, "draw_noise", lambda block: None)
    with pytest.raises(RuntimeError, match="not drawn"):
        stack.advance(1)


def test_a_lost_block_of_rounds_is_charged_whole_and_drawn_anew() -> None:
    """Nothing keeps a secret allocation: what is left of a block that a crash ends would else be
    entered a second time by some, at the price of one."""
    spec = groups_spec(
        **{**SERVER, "privacy": {**CENTRAL, "noise": "release"}, "training__cohort": BLOCKS}
    )
    lost = Stack([cell(spec)])
    assert [plan.round for plan in lost.plan(7)[0]] == list(range(1, 11))
    lost.advance(10)
    checkpoint, charged = lost.checkpoint(0), lost.plan(1)[0]
    assert [plan.round for plan in charged] == list(range(11, 16))
    lost.advance(2)  # and then its worker dies
    stack = Stack([cell(spec)], checkpoints=[checkpoint])
    for plan in charged:
        stack.charge(0, plan.subjects)
    again = stack.plan(3)[0]
    assert [plan.round for plan in again] == list(range(11, 16))
    assert records_of(stack.advance(5)[0])[-1].releases.tolist() == [20]
    torn = Stack([cell(spec)], checkpoints=[lost.checkpoint(0)])
    with pytest.raises(ValueError, match="whole blocks of 5 rounds"):
        torn.plan(3)


def budget_for(releases: int, spec: dict[str, Any]) -> float:
    """An epsilon that has room for so many releases, and not for one more."""
    plan = mechanism_of(cell(spec).spec).spending_plan(training_clients=50)
    epsilons = plan.line("server").epsilons
    return float(epsilons[releases] + epsilons[releases + 1]) / 2


def test_records_count_uploads_of_clients_and_have_no_radius() -> None:
    records = records_of(Stack([cell(groups_spec(**ALONE))]).advance(30)[0])
    counted = np.zeros(100, dtype=np.int64)
    for record in records:
        counted[record.subjects] += 1
        assert len(record.subjects) == 20
        assert np.array_equal(record.releases, counted[record.subjects])
        assert np.all(record.outcomes == Outcome.RELEASED)
        assert np.isnan(record.radii).all()
        assert not record.chosen.any()
        assert record.cluster_sizes == (20,)
        assert record.separation is None


def test_clients_whose_budget_is_used_up_take_no_further_part() -> None:
    spec = groups_spec(**ALONE)
    spec["privacy"] = {**LOCAL, "epsilon_budget": budget_for(4, spec)}
    stack = Stack([cell(spec)])
    records = records_of(stack.advance(30)[0])
    counted = np.zeros(100, dtype=np.int64)
    for record in records:
        refused = record.outcomes == Outcome.REFUSED
        assert np.array_equal(refused, counted[record.subjects] == 4)
        assert np.all(record.chosen[refused] == -1)
        counted[record.subjects[~refused]] += 1
        assert np.array_equal(record.releases, counted[record.subjects])
    assert stack.releases(0).max() == 4
    assert stack.result(0).stopped_by == "rounds"


def test_secret_noise_is_planned_for_those_who_have_room() -> None:
    spec = groups_spec(**{**ALONE, "training__cohort": {"clients": 50}})
    secret = {**LOCAL, "noise": "release", "epsilon_budget": budget_for(2, spec)}
    stack = Stack([cell({**spec, "privacy": secret})])
    planned = stack.plan(4)[0]
    assert [len(plan.subjects) for plan in planned] == [50, 50, 0, 0]
    for plan, record in zip(planned, records_of(stack.advance(4)[0]), strict=True):
        charged = record.subjects[record.outcomes != Outcome.REFUSED]
        assert np.array_equal(plan.subjects, charged)
