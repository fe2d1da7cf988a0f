"""`gaussian-central` and `gaussian-local` in training."""

from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.rows import Outcome
from fedaudit.training.base.cell import first_hypotheses
from fedaudit.training.stack import Stack
from tests.training.bits import fingerprint
from tests.training.gaussian import (
    CENTRAL,
    COINS,
    LOCAL,
    cell_with,
    state,
    states,
    training_clients,
    with_room_for,
)
from tests.training.round_records import RoundRecord
from tests.training.specs import cell, linear_spec, play, train

EVERYONE = {"training__cohort": {"clients": 18}}


def test_an_update_that_is_not_finite_counts_as_zero_and_nobody_is_told() -> None:
    records = []
    for value in (0.0, np.inf, np.nan):
        one = cell_with(None, **EVERYONE, training__rounds=6)
        one.federation.side_by_side[one.federation.own(training_clients(one)[4])] = value
        records.append(fingerprint(train(one)[0]))
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

NOBODY = {"sampling": "poisson", "rate": 1e-9}


@pytest.mark.parametrize("cohort", [{"clients": 6}, COINS, NOBODY], ids=["drawn", "coins", "none"])
def test_everyone_pays_for_every_round_and_nothing_tells_who_was_drawn(
    cohort: dict[str, Any],
) -> None:
    stack = Stack([cell_with(None, training__cohort=cohort, training__rounds=8)])
    assert stack.releases(0).tolist() == [0]
    for number, record in enumerate(play(stack), start=1):
        assert record.subjects.tolist() == [0]
        assert record.outcomes.tolist() == [Outcome.RELEASED]
        assert record.releases.tolist() == [number]
        assert np.isnan(record.radii).tolist() == [True]
        assert (record.chosen.tolist(), record.clusters.tolist()) == ([-1], [-1])
        assert (record.cluster_sizes, record.separation, record.collapsed) == ((), None, False)
    assert stack.releases(0).tolist() == [8]
    # Clients with one row would be predicted for by the largest hypothesis; they are by the first.
    assert state(stack).best_sizes.tolist() == [0, 0]
    assert state(stack).best_round > 0


def test_with_a_rate_of_one_everyone_takes_part() -> None:
    everyone = {"training__cohort": {"sampling": "poisson", "rate": 1.0}}
    found = [train(cell_with(None, **one, training__rounds=6))[0] for one in (everyone, EVERYONE)]
    assert fingerprint(found[0]) == fingerprint(found[1])


def test_nothing_is_released_without_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack([cell_with(None)])
    monkeypatch.setattr(stack._engine, "draw_noise", lambda block: None)
    with pytest.raises(RuntimeError, match="not drawn"):
        stack.advance(1)


# -- a clip that moves ---------------------------------------------------------------------------


def clips(value: float | None, rounds: int, **changes: Any) -> list[float]:
    """The clip before the first round and after each."""
    adaptive = {"count_noise": 0.3, **changes.pop("adaptive")}
    privacy = {**CENTRAL, "clip": {"adaptive": adaptive}, **changes.pop("privacy", {})}
    given = {**EVERYONE, "training__rounds": rounds, "privacy": privacy, **changes}
    return [found.clip or 0.0 for found in states(cell_with(value, **given), rounds)]


def test_the_clip_finds_the_wanted_quantile_of_the_norms() -> None:
    """Steps are so small that all norms stay as they are in the first round."""
    changes: dict[str, Any] = {"training__hypotheses": 1, "training__local": {"step_size": 1e-4}}
    laplace = {"mechanism": "laplace-l2", "noise_multiplier": 1.0}
    plain = train(cell_with(None, **EVERYONE, **changes, privacy=laplace, training__rounds=1))[0]
    low, high = np.quantile(plain[0].radii, [0.3, 0.7])
    adaptive = {"initial": 0.01, "count_noise": 0.6, "step_size": 0.3}
    found = clips(None, 60, adaptive=adaptive, privacy={"noise_multiplier": 1e-3}, **changes)
    assert found[0] == 0.01
    assert low < found[-1] < high


def test_noise_on_the_count_cannot_throw_the_clip_out_of_bounds() -> None:
    found = clips(None, 12, adaptive={"initial": 1e-11, "count_noise": 1e9, "step_size": 10.0})
    assert all(1e-12 <= clip <= 1e12 for clip in found)
    assert len(set(found)) > 2


@pytest.mark.parametrize(
    ("value", "initial", "moved"),
    [(0.0, 1.0, -2.0), (None, 1e-9, 2.0), (np.nan, 1.0, 0.0)],
    ids=["all within, zeros too", "all beyond", "nobody counts"],
)
def test_the_clip_moves_by_half_a_step_where_all_agree(value, initial, moved):
    """exp(0.2 * 0.5) in each of 20 rounds, and the noise of 20 counts over 18 clients."""
    found = clips(value, 20, adaptive={"initial": initial})
    assert np.log(found[-1] / initial) == pytest.approx(moved, abs=0.4)


# -- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 4, 30])
def test_the_run_ends_before_the_round_that_would_pass_the_budget(cut: int) -> None:
    one = cell(with_room_for(7, training__stopping={"validate_every": 4}))
    stack = Stack([one])
    records = play(stack, (cut,))
    assert len(records) == 7
    assert stack.result(0).stopped_by == "budget"
    # Its last round is validated like the last of any other run.
    validated = [record.round for record in records if record.selection_loss is not None]
    assert validated == [4, 7]
    assert Stack([one], checkpoints=[stack.checkpoint(0)]).result(0).stopped_by == "budget"


def test_a_budget_that_lasts_to_the_end_stops_nothing() -> None:
    spec = with_room_for(29)
    spec["training"]["rounds"] = 29
    records, result = train(spec)
    assert (len(records), result.stopped_by) == (29, "rounds")


def test_a_budget_below_one_round_allows_none() -> None:
    one = cell(with_room_for(0))
    stack = Stack([one])
    assert stack.active == []
    result = stack.result(0)
    assert (result.stopped_by, result.rounds, result.best_round) == ("budget", 0, 0)
    assert result.hypotheses.tobytes() == first_hypotheses(one).tobytes()


def counted(records: list[RoundRecord]) -> np.ndarray[Any, Any]:
    """Uploads of every client, whose running numbers the records state."""
    found = np.zeros(100, dtype=np.int64)
    for record in records:
        found[record.subjects[record.outcomes == Outcome.RELEASED]] += 1
        assert np.array_equal(record.releases, found[record.subjects])
    return found


def test_clients_whose_budget_is_used_up_take_no_further_part() -> None:
    stack = Stack([cell(with_room_for(4, server=False, privacy=LOCAL))])
    records = play(stack)
    for record in records:
        refused = record.outcomes == Outcome.REFUSED
        assert np.array_equal(refused, (record.releases == 4) & (record.chosen == -1))
        assert np.isnan(record.radii).all()
        assert (record.cluster_sizes, record.separation) == ((20 - refused.sum(),), None)
    assert counted(records).max() == stack.releases(0).max() == 4
    assert any((record.outcomes == Outcome.REFUSED).any() for record in records)
    assert stack.result(0).stopped_by == "rounds"
