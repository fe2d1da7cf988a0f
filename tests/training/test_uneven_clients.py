"""Clients with very different numbers of rows: computed by length, they learn what each learns."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations import federation as federation_module
from fedaudit.training import engine
from fedaudit.training.base import cell as cell_module
from fedaudit.training.base.cell import are_even, is_by_length, length_classes, stack_digest
from fedaudit.training.stack import Stack
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import COUNTS, RECORD_SPLIT, RULE, table_cell, uneven
from tests.training.gaussian import ADAM, MECHANISMS
from tests.training.personalised import records_cell
from tests.training.specs import train
from tests.training.test_algorithm import compare
from tests.training.test_one_by_one import VARIANTS, assert_engines_agree, classifying

# -- classes --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=60))
def test_no_more_than_twice_the_rows_are_computed(counts: list[int]) -> None:
    lengths = np.array(counts)
    found = length_classes(lengths)
    together = np.concatenate([one.clients for one in found])
    assert np.sort(together).tolist() == list(range(len(counts)))
    for one in found:
        own = lengths[one.clients]
        assert one.rows == own.max()
        assert one.rows * len(own) <= 2 * own.sum() or one.rows <= 64
    assert (len(found) == 1) == are_even(lengths)


# -- a plain loop ---------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(
    long=st.lists(st.integers(150, 600), min_size=1, max_size=4),
    others=st.lists(st.integers(1, 40), min_size=14, max_size=20),
    loss=st.sampled_from(["rmse", "mse"]),
    model=st.sampled_from([{"kind": "linear"}, {"kind": "mlp", "hidden": [4]}]),
    epochs=st.integers(1, 3),
    k=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_rounds_are_those_of_a_plain_loop(long, others, loss, model, epochs, k, seed):
    data = uneven([*long, *others], seed=seed)
    cell = table_cell(
        data,
        model=model,
        seed=seed,
        training__loss=loss,
        training__hypotheses=k,
        training__rounds=3,
        training__local={"epochs": epochs, "step_size": 0.02},
        training__clustering={"method": "reported"},
        training__cohort={"clients": 8},
    )
    assert is_by_length(cell)
    compare(cell)


BY_LENGTH = (
    *("logistic", "deep", "rmse", "batches", "steps", "whole data", "clipped layers", "reported"),
    *("scored rows", "sampled validation", "coins"),
)
"""Those in which rows or who is in the cohort count; the others are the same code."""


@pytest.mark.parametrize("changes", [VARIANTS[name] for name in BY_LENGTH], ids=BY_LENGTH)
def test_one_client_after_the_other_gives_the_same(changes: dict[str, Any]) -> None:
    data = uneven(COUNTS, classes=3)
    few = {"training__cohort": {"clients": 10}, "training__rounds": 2}
    changed = classifying(**{**few, **changes})
    assert is_by_length(table_cell(data, **changed))
    assert_engines_agree(data, **changed)


# -- the same bits --------------------------------------------------------------------------------

LAYOUTS: dict[str, dict[str, Any]] = {
    "batches": {"training__local": {"epochs": 2, "batch_size": 16, "step_size": 0.02}},
    "coins": MECHANISMS["coins"],
    "adam": {**MECHANISMS["adam"], "training__local": {**ADAM, "batch_size": 100}},
    "server-momentum": MECHANISMS["server-momentum"],
    "laplace": {
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0},
        "model": {"kind": "mlp", "hidden": [24]},
        "training__stopping": {"validation_clients": 4, "patience": 3},
    },
}


@pytest.mark.parametrize("changes", LAYOUTS.values(), ids=LAYOUTS)
def test_threads_cuts_and_interruptions_do_not_matter(changes: dict[str, Any]) -> None:
    longest = 4_000 if "training__local" in changes else 40_000
    cell = table_cell(uneven([*COUNTS, longest]), fairness=RULE, training__rounds=5, **changes)
    assert is_by_length(cell)
    assert_repeats(cell, stops=(3,))


@pytest.mark.parametrize("changes", LAYOUTS.values(), ids=LAYOUTS)
def test_rows_that_are_left_on_disk_give_the_same_bits(changes, monkeypatch):
    cell = table_cell(uneven(COUNTS), fairness=RULE, **changes)
    records, result = train(cell)
    monkeypatch.setattr(federation_module, "_SIDE_BY_SIDE_CELLS", 10)
    assert cell.federation.is_large
    large, found = train(cell)
    assert fingerprint(large) == fingerprint(records)
    assert found.hypotheses.tobytes() == result.hypotheses.tobytes()
    assert found.scores["group"].loss.tobytes() == result.scores["group"].loss.tobytes()


def test_how_many_clients_are_computed_at_once_does_not_matter(monkeypatch):
    cell = table_cell(uneven(COUNTS), model={"kind": "mlp", "hidden": [24]}, training__rounds=2)
    whole = train(cell)[1].hypotheses
    monkeypatch.setattr(engine, "_NUMBERS_TOGETHER", 1)
    assert train(cell)[1].hypotheses.tobytes() == whole.tobytes()


def test_such_a_cell_is_trained_alone() -> None:
    data = uneven(COUNTS)
    cells = [table_cell(data, seed=seed) for seed in (0, 1)]
    assert stack_digest(cells[0]) is None
    with pytest.raises(ValueError, match="one shape"):
        Stack(cells)


# -- records with budgets of their own ------------------------------------------------------------


@pytest.mark.parametrize("unit", ["record", "client"])
def test_steps_record_by_record_are_the_same_however_clients_are_padded(unit, monkeypatch):
    source = {**RECORD_SPLIT, "validation_unit": unit}
    cell = records_cell(uneven([1_000, *COUNTS]), federation=source, fairness=RULE)
    by_length = train(cell)[0]
    monkeypatch.setattr(cell_module, "are_even", lambda counts: True)
    together = train(cell)[0]
    for one, other in zip(by_length, together, strict=True):
        assert one.subjects.tobytes() == other.subjects.tobytes()
        assert one.selection_loss == other.selection_loss
        assert one.fairness["group"].tobytes() == other.fairness["group"].tobytes()
    assert len(length_classes(cell.federation.counts)) == 1


# -- what used to be refused ----------------------------------------------------------------------


def test_one_long_client_beside_many_short_ones_takes_no_more_memory_than_its_rows() -> None:
    counts = [30_000, *[10] * 750]
    cell = table_cell(uneven(counts), fairness=RULE, training__rounds=2)
    tracemalloc.start()
    try:
        records, result = train(cell)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(records) == 2
    assert result.fairness["group"].sum() > 0
    # Padded, a single byte for each row would be 22 MB.
    assert peak < 20e6
