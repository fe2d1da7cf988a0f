"""Scores of held-out clients against a plain loop."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import outcome_rules
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss, SmallDenseNetwork
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.clients import Lanes
from fedaudit.training.stacked.validation import Evaluation, evaluate
from tests.training.federations import (
    TABLE,
    federation,
    one_by_one,
    padded,
    random_federation,
    table_cell,
)
from tests.training.round_records import records_of


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


def test_three_constants_look_better_than_they_are_on_the_rows_they_were_chosen_by() -> None:
    """Trap: choosing and scoring on one row makes constants look like a model."""
    random = np.random.default_rng(1)
    target = random.normal(size=(500, 2)).tolist()
    spread = float(np.var(target))
    honest = constants([-1.0, 0.0, 1.0], target)
    assert honest.scores.selection_loss.mean().item() < 0.7 * spread
    # Nothing is to be learned from a row about the other, so constants are worse than the mean.
    assert honest.scores.validation_loss.mean().item() > spread
    alone = constants([0.0], target)
    assert alone.scores.validation_loss.mean().item() == pytest.approx(spread, rel=0.01)
    assert alone.scores.selection_loss.mean().item() == alone.scores.validation_loss.mean().item()


def test_a_row_is_predicted_by_the_choice_of_the_others() -> None:
    found = constants([0.0, 10.0], [[0.0, 0.0, 10.0], [10.0, 9.0, 10.0]])
    assert found.answers[:, 0, 0].tolist() == [0.0, 0.0, 0.0]
    assert found.answers[:, 0, 1].tolist() == [10.0, 10.0, 10.0]
    two = constants([0.0, 10.0], [[0.0, 10.0]])
    assert two.answers.flatten().tolist() == [10.0, 0.0]


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
        assert (
            found.scores.selection_loss.mean().item()
            == found.scores.validation_loss.mean().item()
            == 0.25
        )


@given(
    st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=4, unique=True),
    st.lists(st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_figures_are_those_of_a_plain_loop(predictions, target, largest):
    largest = min(largest, len(predictions) - 1)
    found = constants(predictions, target, largest=largest)
    selection, validation = [], []
    for values in target:
        errors = np.square(np.subtract.outer(predictions, values))
        selection.append(errors.mean(1).min())
        scores = []
        for row in range(len(values)):
            others = np.delete(errors, row, axis=1).sum(1)
            choice = largest if len(values) == 1 else int(others.argmin())
            scores.append(errors[choice, row])
        validation.append(np.mean(scores))
    assert found.scores.selection_loss.mean().item() == pytest.approx(
        np.mean(selection), rel=1e-5, abs=1e-6
    )
    assert found.scores.validation_loss.mean().item() == pytest.approx(
        np.mean(validation), rel=1e-5, abs=1e-6
    )


# -- counts per group ----------------------------------------------------------------------------


def counted(
    data: Federation, predictions: NDArray[np.floating], favourable: object, clients: list[int]
) -> list[list[int]]:
    """Counts per group in a plain loop; predictions [clients, rows] in the target's own units."""
    counts = [[0, 0, 0, 0], [0, 0, 0, 0]]
    for place, client in enumerate(clients):
        for row, at in enumerate(range(data.first[client], data.first[client + 1])):
            code = data.attributes[0].codes[at]
            if code < 0:
                continue
            said = holds(predictions[place, row], favourable, code)
            true = holds(data.raw_target[at], favourable, code)
            counts[code][{(1, 1): 0, (1, 0): 1, (0, 0): 2, (0, 1): 3}[int(said), int(true)]] += 1
    return counts


def holds(value: float, favourable: object, code: int) -> bool:
    rule = favourable[code] if isinstance(favourable, list) else favourable
    assert isinstance(rule, dict)
    bound = rule["value"]
    if rule["op"] == "in":
        return bool(value in bound)
    return bool(value >= bound if rule["op"] == "ge" else value <= bound)


RULES: dict[str, object] = {
    "ge": {"op": "ge", "value": 0.2},
    "le": {"op": "le", "value": -0.1},
    "by group": [
        {"group": {"group": "g1"}, "op": "ge", "value": 0.2},
        {"group": {"group": "g2"}, "op": "le", "value": 0.5},
    ],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1.0, 250.0])
def test_group_counts_of_numbers_are_those_of_a_plain_loop(rule: str, scale: float) -> None:
    data = scaled(random_federation(clients=60), scale)
    data.attributes[0].codes[data.first[3]] = -1  # a missing value is not scored
    favourable = times(RULES[rule], scale)
    fairness = {"sensitive": ["group"], "favourable": favourable}
    result, hypotheses, clients = final(data, fairness, training__hypotheses=1)
    theta = hypotheses[0].astype(np.float64)
    predictions = (padded(data, data.side_by_side)[clients] @ theta[:-1] + theta[-1]) * scale
    expected = counted(data, predictions, favourable, clients)
    assert result.fairness["group"].sum(0).tolist() == expected
    assert result.fairness["group"].shape == (len(clients), 2, 4)
    for place, client in enumerate(clients):
        own = counted(data, predictions[[place]], favourable, [client])
        assert result.fairness["group"][place].tolist() == own


def test_the_counts_of_a_round_are_the_sums_over_its_clients() -> None:
    data = random_federation(clients=60)
    fairness = {"sensitive": ["group"], "favourable": RULES["ge"]}
    cell = table_cell(data, fairness=fairness, training__rounds=5)
    stack = Stack([cell])
    records = records_of(stack.advance(5)[0])
    result = stack.result(0)
    best = records[result.best_round - 1]
    assert np.array_equal(best.fairness["group"], result.fairness["group"].sum(0))
    scored = outcome_rules(data, cell.spec.fairness).rule_index >= 0
    assert best.fairness["group"].sum() <= np.count_nonzero(scored)


def test_single_row_clients_are_counted() -> None:
    data = random_federation(clients=60, max_rows=2)
    result, _, clients = final(data, {})
    assert result.single_row_clients == int((data.counts[clients] == 1).sum()) > 0


def test_cells_with_other_units_are_not_stacked() -> None:
    one, other = (table_cell(scaled(random_federation(), scale)) for scale in (1.0, 10.0))
    with pytest.raises(ValueError, match="one shape"):
        Stack([one, other])


def final(
    data: Federation, fairness: dict[str, object], **changes: object
) -> tuple[FinalResult, NDArray[np.float32], list[int]]:
    """The result of a short run, its hypotheses, and the held-out clients."""
    cell = table_cell(data, fairness=fairness, training__rounds=4, **changes)
    stack = Stack([cell])
    stack.advance(4)
    result = stack.result(0)
    held_out = stack._splits.validation[0].tolist()
    return result, result.hypotheses, held_out


def scaled(data: Federation, scale: float) -> Federation:
    """The same scaled target, from one in larger units."""
    owns = [data.own(client) for client in range(data.clients)]
    return federation(
        [data.side_by_side[own] for own in owns],
        [data.raw_target[own] * scale for own in owns],
        scale=scale,
        groups=[data.attributes[0].codes[own] for own in owns],
    )


def times(favourable: object, scale: float) -> object:
    if isinstance(favourable, list):
        return [times(rule, scale) for rule in favourable]
    assert isinstance(favourable, dict)
    return {**favourable, "value": favourable["value"] * scale}


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
@pytest.mark.parametrize(
    ("k", "fraction"), [(1, None), *((k, share) for k in (1, 3) for share in (0.25, 0.5, 0.9))]
)
def test_figures_of_classes_are_those_of_a_plain_loop(fraction, k, form):
    """`fraction`: the rows that are scored by a choice on the others; None for all."""
    data = random_federation(clients=40, max_rows=9, classes=3)
    source = {} if fraction is None else {"federation": split(fraction)}
    result, stack = result_of(form(data), **source, training__hypotheses=k)
    held_out = stack._splits.validation[0]
    scored = np.arange(data.longest) < data.counts[held_out][None, :, None]
    if fraction is not None:
        scored = stack._splits.scored(held_out[None], [0], rows=data.longest)
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
    own = ({}, {"federation": split(0.3)})
    cells = [table_cell(data, **classes(data, training__hypotheses=2, **one)) for one in own]
    runs = [records_of(Stack([cell]).advance(4)[0]) for cell in cells]
    for plain, halved in zip(*runs, strict=True):
        assert plain.selection_loss == halved.selection_loss
        assert plain.validation_loss != halved.validation_loss
