"""When training ends, and which hypotheses it ends with."""

import numpy as np
import pytest

from fedaudit.training.base.rounds import RoundRecord
from fedaudit.training.stack import Stack
from tests.training.federations import random_federation, table_cell
from tests.training.specs import cell, groups_spec, train


def losses(records: list[RoundRecord]) -> dict[int, float]:
    """Selection losses of the rounds that were validated."""
    return {
        record.round: record.selection_loss
        for record in records
        if record.selection_loss is not None
    }


def stopping_round(found: dict[int, float], patience: int) -> int | None:
    """The round of the validation that is the `patience`-th in a row without a lower loss."""
    best, waited = np.inf, 0
    for number, loss in found.items():
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == patience:
            return number
    return None


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("patience", [1, 2, 5])
@pytest.mark.parametrize("validation_clients", [None, 9])
def test_patience_ends_training_after_that_many_validations(
    patience: int, every: int, validation_clients: int | None
) -> None:
    stopping = {"validate_every": every, "validation_clients": validation_clients}
    changes = {"training__rounds": 200, "privacy__noise_multiplier": 5.0}
    endless, _ = train(groups_spec(training__stopping=stopping, **changes))
    found = losses(endless)
    expected = stopping_round(found, patience)
    assert expected is not None
    records, result = train(
        groups_spec(training__stopping={**stopping, "patience": patience}, **changes)
    )
    assert (result.stopped_by, result.rounds) == ("patience", expected)
    assert [record.round for record in records] == list(range(1, expected + 1))
    best = min((loss, number) for number, loss in found.items() if number <= expected)
    assert result.best_round == best[1]


def test_the_best_hypotheses_are_scored_on_all_held_out_clients() -> None:
    records, result = train(groups_spec(training__stopping={"patience": None}))
    assert (result.stopped_by, result.rounds) == ("rounds", 30)
    found = losses(records)
    assert result.best_round == min(found, key=found.__getitem__)
    best = records[result.best_round - 1]
    assert result.selection_loss == best.selection_loss
    assert result.validation_loss == best.validation_loss
    assert result.hypotheses.shape == (2, 3)
    assert result.collapsed_rounds == sum(record.collapsed for record in records)


@pytest.mark.parametrize(("every", "rounds"), [(4, 10), (50, 10), (5, 10)])
def test_the_last_round_is_always_validated(every: int, rounds: int) -> None:
    records, result = train(
        groups_spec(training__stopping={"validate_every": every}, training__rounds=rounds)
    )
    validated = [record.round for record in records if record.validation_loss is not None]
    assert validated == sorted({*range(every, rounds + 1, every), rounds})
    assert result.best_round in validated
    for record in records:
        assert bool(record.fairness) == (record.round in validated)


def test_a_run_whose_loss_is_not_finite_has_diverged() -> None:
    changes = {
        "training__loss": "mse",
        "training__local": {"step_size": 1e6},
        "privacy": {"mechanism": "none"},
        "training__rounds": 50,
    }
    stack = Stack([table_cell(random_federation(), **changes)])
    records = stack.advance(50)[0]
    assert stack.active == []
    result = stack.result(0)
    assert result.stopped_by == "diverged"
    assert len(records) < 50
    assert not np.isfinite(records[-1].selection_loss or 0.0)
    # What it had before is kept.
    assert np.isfinite(result.hypotheses).all()
    assert np.isfinite(result.selection_loss)


def test_other_cells_go_on_where_one_diverges_or_is_stopped() -> None:
    data = random_federation()
    specs = [
        {"seed": seed, "training__rounds": rounds, "training__loss": "mse"}
        for seed, rounds in ((1, 40), (2, 3), (3, 40))
    ]
    cells = [table_cell(data, **changes) for changes in specs]
    stack = Stack(cells)
    first = stack.advance(10)
    assert [len(first[position]) for position in range(3)] == [10, 3, 10]
    stack.stop(0)
    assert stack.active == [2]
    rest = stack.advance(100)
    assert list(rest) == [2]
    assert stack.active == []
    alone = Stack([cells[2]])
    expected = alone.advance(100)[0]
    found = first[2] + rest[2]
    assert [record.selection_loss for record in found] == [
        record.selection_loss for record in expected
    ]
    assert stack.result(0).stopped_by == "cancelled"
    assert stack.result(2).hypotheses.tobytes() == alone.result(0).hypotheses.tobytes()


def test_a_collapse_is_flagged() -> None:
    """Far hypotheses that attract nobody are kept, so one cluster takes everything."""
    spec = groups_spec(
        training__clustering={"method": "k-means", "empty_cluster": "keep"},
        privacy__noise_multiplier=0.01,
        training__rounds=30,
        training__hypotheses=8,
    )
    records, result = train(spec)
    for record in records:
        assert record.collapsed == (sum(size > 0 for size in record.cluster_sizes) == 1)
    single, _ = train(groups_spec(training__hypotheses=1, training__rounds=3))
    assert not any(record.collapsed for record in single)
    assert all(record.separation is None for record in single)
    assert result.collapsed_rounds == sum(record.collapsed for record in records)


def test_nothing_is_left_to_play_after_the_end() -> None:
    stack = Stack([cell(groups_spec(training__rounds=2))])
    assert len(stack.advance(10)[0]) == 2
    assert stack.advance(10) == {}
    resumed = Stack([cell(groups_spec(training__rounds=2))], checkpoints=[stack.checkpoint(0)])
    assert resumed.active == []
    assert resumed.result(0).hypotheses.tobytes() == stack.result(0).hypotheses.tobytes()
