"""Plans for records: rPDP-FL and its baselines on the settings of MNIST, a tenth of the records."""

import numpy as np
import pytest

from fedaudit.privacy.accounting.two_stage import RecordSettings, TwoStageRun, calibrated_run
from fedaudit.privacy.records.record_plans import (
    TREATED_AS_PUBLIC,
    baseline_plan,
    personalised_plan,
)
from fedaudit.privacy.records.record_use import draw_budgets
from tests.refusals import refused_by

SETTINGS = RecordSettings(client_rate=0.8, steps=50, rounds=15, delta=1e-4, epsilon_max=10.0)
RECORDS = (396, 200, 40)
CLIENT_OF = np.repeat(np.arange(3), RECORDS)
BUDGETS = draw_budgets(
    "three-levels",
    seed=1,
    keys=np.arange(sum(RECORDS), dtype=np.uint64),
    epsilon_min=0.1,
    epsilon_max=10.0,
)


def plan(baseline, **changes):
    arguments = {
        "client_of": CLIENT_OF,
        "clients": 3,
        "batch_size": 32,
        "uniform_epsilon": 5.0,
    } | changes
    return baseline_plan(BUDGETS, SETTINGS, baseline=baseline, **arguments)


def test_personalised_records_exhaust_their_budgets_together():
    found = personalised_plan(BUDGETS, SETTINGS, clients=3)
    assert len(set(found.runs)) == 1
    assert found.runs[0].noise_multiplier == pytest.approx(12.373, abs=0.012)
    assert (found.spends <= found.budgets).all()
    assert (found.spends >= 0.999 * BUDGETS).all()
    fitted = personalised_plan(BUDGETS, SETTINGS, clients=3, inversion="curve-fit")
    assert fitted.runs == found.runs
    assert ((fitted.spends > fitted.budgets) >= (BUDGETS == 0.1)).all()


def test_the_noise_does_not_depend_on_budgets():
    other = personalised_plan(np.array([0.2, 7.0]), SETTINGS, clients=3)
    assert other.runs == personalised_plan(BUDGETS, SETTINGS, clients=3).runs


def test_every_client_samples_its_batch_on_average():
    assert np.bincount(CLIENT_OF, plan("uniform").rates) == pytest.approx([32, 32, 32], rel=1e-6)
    assert np.bincount(CLIENT_OF, plan("uniform", batch_size=64).rates)[2] == 40


def test_privacy_free_bounds_nothing():
    found = plan("privacy-free")
    assert found.runs is None
    assert (found.spends == np.inf).all()
    assert (found.spends > found.budgets).all()


def test_uniform_spends_one_epsilon_whatever_the_budgets():
    found = plan("uniform")
    assert found.spends == pytest.approx(np.full(len(BUDGETS), 5.0), rel=1e-6)
    assert ((found.spends > found.budgets) == (BUDGETS < 5)).all()
    noises = [run.noise_multiplier for run in found.runs]
    assert noises == sorted(noises)  # the fewer the records, the higher the rate


def test_strong_for_all_spends_the_smallest_budget():
    found = plan("strong-for-all")
    assert found.spends == pytest.approx(np.full(len(BUDGETS), 0.1), rel=1e-6)
    assert (found.spends <= found.budgets).all()
    assert any("smallest budget" in note for note in TREATED_AS_PUBLIC["strong-for-all"])


def test_dropout_keeps_records_above_the_mean():
    found = plan("dropout")
    mean = BUDGETS.mean()
    assert (found.left_out == (mean > BUDGETS)).all()
    assert found.spends[~found.left_out] == pytest.approx(mean, rel=1e-6)
    assert (found.spends[found.left_out] == 0).all()
    assert (found.spends <= found.budgets).all()


def test_a_filtered_record_leaves_when_its_budget_is_spent():
    found = plan("filter")
    assert (found.spends <= found.budgets).all()
    assert len(set(found.runs)) == 1
    small, large = (set(found.rounds[level == BUDGETS].tolist()) for level in (0.1, 5.0))
    assert max(small) < 15
    assert 15 in large
    assert found.left_out[(BUDGETS == 0.1) & (CLIENT_OF == 2)].all()  # one round costs too much


def test_a_budget_too_small_for_any_noise_is_told():
    budgets = np.where(np.arange(len(BUDGETS)) == 7, 1e-4, BUDGETS)
    found = personalised_plan(budgets, SETTINGS, clients=3)
    assert np.flatnonzero(found.left_out).tolist() == [7]
    first, *_ = refused_by(
        baseline_plan,
        budgets,
        SETTINGS,
        baseline="strong-for-all",
        client_of=CLIENT_OF,
        clients=3,
        batch_size=32,
    )
    assert first.pointer == "/privacy/epsilon_min"


@pytest.mark.parametrize(
    "changes", [{"batch_size": 0}, {"uniform_epsilon": None}, {"client_of": CLIENT_OF[1:]}]
)
def test_a_plan_needs_its_numbers(changes):
    with pytest.raises(ValueError, match=r"batch_size|uniform_epsilon|client"):
        plan("uniform", **changes)


def counted_accounts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The rates of each call of the accountant from now on."""
    found: list[object] = []
    epsilons = TwoStageRun.epsilons

    def counted(run: TwoStageRun, rates: object, **rounds: object) -> object:
        found.append(rates)
        return epsilons(run, rates, **rounds)

    monkeypatch.setattr(TwoStageRun, "epsilons", counted)
    return found


@pytest.mark.parametrize("baseline", ["uniform", "filter"])
def test_what_was_calibrated_before_is_not_computed_anew_and_is_the_same(baseline, monkeypatch):
    calibrated_run.cache_clear()
    first = plan(baseline)
    accounted = counted_accounts(monkeypatch)
    again = plan(baseline)
    # No bisection for noise, and each kind of client once: three sizes.
    assert len(accounted) == 3
    assert again.runs == first.runs
    np.testing.assert_array_equal(again.spends, first.spends)
    # As each client's records cost by themselves, to the last bit.
    for client, run in enumerate(again.runs):
        mine = np.flatnonzero(np.equal(CLIENT_OF, client))
        alone = run.epsilons(again.rates[mine], rounds=again.rounds[mine])
        np.testing.assert_array_equal(again.spends[mine], alone)


def test_clients_of_one_size_are_accounted_for_once(monkeypatch: pytest.MonkeyPatch):
    plan("strong-for-all", client_of=np.arange(len(BUDGETS)) // 6, clients=106)
    accounted = counted_accounts(monkeypatch)
    plan("strong-for-all", client_of=np.arange(len(BUDGETS)) // 6, clients=106)
    assert len(accounted) == 1
