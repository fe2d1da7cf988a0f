"""Scores of held-out clients against a plain loop."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss, SmallDenseNetwork
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.clients import Lanes
from fedaudit.training.stacked.validation import Evaluation, evaluate
from tests.training.federations import TABLE, one_by_one, random_federation, table_cell
from tests.training.specs import kinds_of, train


def constants(
    predictions: list[float], target: list[list[float]], *, largest: int = 0
) -> Evaluation:
    """Hypotheses that predict one number each, on clients with these targets."""
    rows = max(map(len, target))
    packed = torch.zeros(rows, 1, len(target))
    mask = torch.zeros(rows, 1, len(target))
    for client, values in enumerate(target):
        packed[: len(values), 0, client] = torch.tensor(values)
        mask[: len(values), 0, client] = 1
    theta = torch.tensor([[[0.0, value] for value in predictions]])
    lanes = Lanes(torch.ones(1, *packed.shape), packed, mask, mask.sum(0))
    network = SmallDenseNetwork(DenseShape((1, 1), intercept=True))
    return evaluate(network, theta, lanes, Loss("mse", 0), torch.tensor([largest]))


def test_a_large_row_has_no_say_either() -> None:
    """Left over from a total in single precision, its rounding would decide."""
    found = constants([0.0, 1e-2], [[0.0, 0.0, 3e4]])
    assert found.answers[2, 0, 0].item() == 0
    found = constants([1e-2, 0.0], [[0.0, 0.0, 3e4]])
    assert found.answers[2, 0, 0].item() == 0


def test_a_hypothesis_that_overflows_is_not_chosen() -> None:
    for worse in (1e30, math.inf, math.nan):
        found = constants([worse, 1.0], [[1.0, 2.0], [1.0, 1.0, 1.0]])  # also on padding
        assert found.answers[:2].flatten().tolist() == [1.0] * 4
        for losses in (found.scores.selection_loss, found.scores.validation_loss):
            assert losses.mean().item() == 0.25


@given(
    st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=4, unique=True),
    st.lists(st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_figures_are_those_of_a_plain_loop(predictions, target, largest):
    largest = min(largest, len(predictions) - 1)
    found = constants(predictions, target, largest=largest)
    selection, validation = [], []
    for client, values in enumerate(target):
        errors = np.square(np.subtract.outer(predictions, values))
        selection.append(errors.mean(1).min())
        scores = []
        for row in range(len(values)):
            others = np.delete(errors, row, axis=1).sum(1)
            choice = largest if len(values) == 1 else int(others.argmin())
            scores.append(errors[choice, row])
            # Of hypotheses that fit alike any answer is as good.
            answer = found.answers[row, 0, client].item()
            assert scores[-1] == pytest.approx(np.square(answer - values[row]), abs=1e-6) or (
                np.count_nonzero(np.isclose(others, others.min(), atol=1e-5)) > 1
            )
        validation.append(np.mean(scores))
    for losses, expected in (
        (found.scores.selection_loss, selection),
        (found.scores.validation_loss, validation),
    ):
        assert losses.mean().item() == pytest.approx(np.mean(expected), rel=1e-5, abs=1e-6)


# -- counts per group ----------------------------------------------------------------------------


Codes = NDArray[np.int16]
Holds = Callable[[NDArray[np.floating], Codes], NDArray[np.bool_]]


def ruled(op: str, value: float, **group: Any) -> dict[str, Any]:
    return {"op": op, "value": value, **group}


RULES: dict[str, tuple[Callable[[float], object], Holds]] = {
    "ge": (lambda scale: ruled("ge", 0.2 * scale), lambda values, _: values >= 0.2),
    "le": (lambda scale: ruled("le", -0.1 * scale), lambda values, _: values <= -0.1),
    "by group": (
        lambda scale: [
            ruled("ge", 0.2 * scale, group={"group": "g1"}),
            ruled("le", 0.5 * scale, group={"group": "g2"}),
        ],
        lambda values, codes: np.where(codes == 0, values >= 0.2, values <= 0.5),
    ),
}


@pytest.mark.parametrize(("favourable", "holds"), RULES.values(), ids=RULES)
@pytest.mark.parametrize("scale", [1.0, 250.0])
def test_group_counts_of_numbers_are_those_of_a_plain_loop(favourable, holds, scale):
    data = random_federation(clients=60)
    data = replace(data, raw_target=data.raw_target * scale, target_scale=scale)
    codes = data.attributes[0].codes
    codes[data.first[3]] = -1  # a missing value is not scored
    fairness = {"sensitive": ["group"], "favourable": favourable(scale)}
    one = table_cell(data, fairness=fairness, training__hypotheses=1, training__rounds=4)
    records, result = train(one)
    theta = result.hypotheses[0].astype(np.float64)
    predictions = data.side_by_side @ theta[:-1] + theta[-1]
    kinds = kinds_of(holds(predictions, codes), holds(data.raw_target / scale, codes))
    expected = np.zeros((data.clients, 2, 4), dtype=np.int64)
    np.add.at(expected, (data.client_of[codes >= 0], codes[codes >= 0], kinds[codes >= 0]), 1)
    found = result.fairness["group"]
    assert np.array_equal(found, expected[one.validation_rows.clients])
    assert np.array_equal(records[result.best_round - 1].fairness["group"], found.sum(0))


@pytest.mark.parametrize("units", [{"target_scale": 10.0}, {"target_mean": 3.0}], ids=str)
def test_cells_with_other_units_are_not_stacked(units: dict[str, float]) -> None:
    data = random_federation()
    with pytest.raises(ValueError, match="one shape"):
        Stack([table_cell(data), table_cell(replace(data, **units))])


def test_single_row_clients_are_counted() -> None:
    data = random_federation(clients=60, max_rows=2)
    one = table_cell(data, training__rounds=1)
    single = (data.counts[one.validation_rows.clients] == 1).sum()
    assert train(one)[1].single_row_clients == single > 0


FAIRNESS = {"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-0", "class-2"]}}


def split(fraction: float) -> dict[str, Any]:
    return {
        **TABLE,
        "validation_fraction": 0.4,
        "scoring": {"method": "split", "fraction": fraction},
    }


def classes(data: Federation, **changes: Any) -> Cell:
    logistic = {"model": {"kind": "logistic"}, "training__loss": "cross-entropy"}
    return table_cell(data, **{**logistic, "fairness": FAIRNESS, "training__rounds": 4, **changes})


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
@pytest.mark.parametrize(
    ("k", "fraction"), [(1, None), *((k, share) for k in (1, 3) for share in (0.25, 0.5, 0.9))]
)
def test_figures_of_classes_are_those_of_a_plain_loop(fraction, k, form):
    """`fraction`: the rows that are scored by a choice on the others; None for all."""
    data = random_federation(clients=40, max_rows=9, classes=3)
    source = {} if fraction is None else {"federation": split(fraction)}
    one = classes(form(data), **source, training__hypotheses=k)
    result, rows = train(one)[1], one.validation_rows
    held_out, scored = rows.clients, rows.scored | (fraction is None)
    losses, selection, right = [], [], []
    counts = np.zeros((2, 4), dtype=int)
    codes = data.attributes[0].codes
    for place, client in enumerate(held_out.tolist()):
        values, guesses = values_of(data, result.hypotheses, client)
        own = scored[rows.client_of == place]
        if values.shape[1] == 1 and k > 1:
            continue  # by the largest hypothesis, which the result does not name
        chosen = values[:, ~own].sum(1).argmin()
        losses.append(values[chosen, own].mean())
        selection.append(values.mean(1).min())
        target = data.raw_target[data.own(client)]
        right += (guesses[chosen] == target)[own].tolist()
        kinds = kinds_of(np.isin(guesses[chosen], (0, 2)), np.isin(target, (0, 2)))
        np.add.at(counts, (codes[data.own(client)][own], kinds[own]), 1)
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
    own = ({}, {"federation": split(0.3)})
    runs = [train(classes(data, training__hypotheses=2, **one))[0] for one in own]
    for plain, halved in zip(*runs, strict=True):
        assert plain.selection_loss == halved.selection_loss
        assert plain.validation_loss != halved.validation_loss
