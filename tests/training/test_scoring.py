"""A split of each held-out client's rows: some choose the hypothesis, the others are scored."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedaudit.federations.federation import Federation
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.training.federations import TABLE, one_by_one, random_federation, table_cell
from tests.training.test_layout import fingerprint, run_stacked

FAIRNESS = {"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-0", "class-2"]}}


def split(fraction: float) -> dict[str, Any]:
    return {
        **TABLE,
        "validation_fraction": 0.4,
        "scoring": {"method": "split", "fraction": fraction},
    }


def classes(data: Federation, **changes: Any) -> dict[str, Any]:
    return {
        "model": {"kind": "logistic"},
        "training__loss": "cross-entropy",
        "fairness": FAIRNESS,
        "training__rounds": 4,
        **changes,
    }


def result_of(data: Federation, **changes: Any) -> tuple[FinalResult, Stack]:
    stack = Stack([table_cell(data, **classes(data, **changes))])
    stack.advance(4)
    return stack.result(0), stack


def values_of(
    data: Federation, hypotheses: np.ndarray[Any, Any], client: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Cross-entropy and predicted class of a client's rows: [k, rows]."""
    rows = data.own(client)
    features, target = data.side_by_side[rows], data.raw_target[rows].astype(int)
    width, number = features.shape[1], len(data.classes)
    weights = hypotheses[:, : width * number].reshape(-1, number, width)
    outputs = np.einsum("kcf,rf->krc", weights, features) + hypotheses[:, None, width * number :]
    shares = outputs - np.log(np.exp(outputs).sum(-1, keepdims=True))
    return -shares[:, np.arange(len(target)), target], outputs.argmax(-1)


@pytest.mark.parametrize("form", [lambda data: data, one_by_one], ids=["side by side", "by client"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.9])
def test_figures_are_those_of_a_plain_loop(
    fraction: float, k: int, form: Callable[[Federation], Federation]
) -> None:
    data = random_federation(clients=40, max_rows=9, classes=3)
    result, stack = result_of(form(data), federation=split(fraction), training__hypotheses=k)
    held_out = stack._splits.validation[0]
    scored = stack._splits.scored(held_out[None], [0], rows=data.longest)
    assert scored is not None
    losses, selection, right = [], [], []
    counts = np.zeros((2, 4), dtype=int)
    for place, client in enumerate(held_out.tolist()):
        values, guesses = values_of(data, result.hypotheses, client)
        own = scored[0, place, : values.shape[1]]
        if values.shape[1] == 1 and k > 1:
            continue  # by the largest hypothesis, which the result does not name
        chosen = values[:, ~own].sum(1).argmin()
        losses.append(values[chosen, own].mean())
        selection.append(values.mean(1).min())
        target = data.raw_target[data.own(client)]
        right += (guesses[chosen] == target)[own].tolist()
        for row in np.flatnonzero(own):
            said, true = guesses[chosen, row] in (0, 2), target[row] in (0, 2)
            kind = {(1, 1): 0, (1, 0): 1, (0, 0): 2, (0, 1): 3}[int(said), int(true)]
            counts[data.attributes[0].codes[data.first[client] + row], kind] += 1
    single = int((data.counts[held_out] == 1).sum())
    assert result.fairness["group"].sum() == scored.sum()
    if k == 1:
        assert result.validation_loss == pytest.approx(np.mean(losses), rel=1e-5)
        assert result.selection_loss == pytest.approx(np.mean(selection), rel=1e-5)
        assert result.accuracy == pytest.approx(np.mean(right))
        assert np.array_equal(result.fairness["group"].sum(0), counts)
    else:
        several = data.counts[held_out] > 1
        assert np.array_equal(result.fairness["group"][several].sum(0), counts)
        assert abs((result.accuracy or 0) * scored.sum() - sum(right)) <= single + 1e-6


def test_stopping_looks_at_all_rows() -> None:
    data = random_federation(clients=40, classes=3)
    runs = [
        Stack([table_cell(data, **classes(data, training__hypotheses=2, **changes))]).advance(4)[0]
        for changes in ({}, {"federation": split(0.3)})
    ]
    for plain, halved in zip(*runs, strict=True):
        assert plain.selection_loss == halved.selection_loss
        assert plain.validation_loss != halved.validation_loss


def test_constants_are_found_out() -> None:
    """Trap: choosing and scoring on one row makes constants look like a model."""
    data = random_federation(clients=200, max_rows=4, classes=3)
    noise = np.random.default_rng(1).integers(0, 3, data.target.shape)
    data.raw_target[:] = noise
    data.target[:] = data.raw_target
    result, _ = result_of(data, federation=split(0.5), training__hypotheses=3)
    assert result.selection_loss < np.log(3)
    assert result.validation_loss > np.log(3)


@pytest.mark.parametrize("size", [2, 5])
def test_alone_and_stacked_agree_bit_for_bit(size: int) -> None:
    data = random_federation(clients=30, classes=3)
    cells = [
        table_cell(data, **classes(data, seed=seed, federation=split(0.5), training__hypotheses=2))
        for seed in range(size)
    ]
    together = run_stacked(cells, 4)
    for position, one in enumerate(cells):
        assert fingerprint(run_stacked([one], 3)[0]) == fingerprint(together[position])


def test_cells_that_are_scored_differently_are_not_stacked() -> None:
    data = random_federation(classes=3)
    with pytest.raises(ValueError, match="one shape"):
        Stack([table_cell(data, federation=split(fraction)) for fraction in (0.3, 0.5)])
