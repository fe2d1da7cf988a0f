"""The best constant, beside the dummies of scikit-learn and every other constant."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, log_loss

from fedaudit.fairness.intervals import Interval
from fedaudit.utility import (
    Gained,
    LossShape,
    MeasuredRows,
    best_constant,
    compare_with_constant,
    judge_comparison,
    judge_model,
)


def rows_of(client, target, predicted=None, values=None, **changes) -> MeasuredRows:
    target = np.asarray(target, dtype=np.float64)
    _, numbered = np.unique(client, return_inverse=True)
    return MeasuredRows(
        **{
            "client": numbered,
            "clients": int(numbered.max()) + 1,
            "target": target,
            "predicted": target if predicted is None else np.asarray(predicted, dtype=np.float64),
            "values": np.zeros(len(target)) if values is None else values,
            "outcome": None,
            "true_outcome": None,
            "hypothesis": np.zeros(len(target), dtype=np.int64),
            "groups": {},
            **changes,
        }
    )


def shape_of(row="squared", classes=0, *, root_mean=False, by_client=True) -> LossShape:
    return LossShape(row=row, classes=classes, root_mean=root_mean, by_client=by_client)


def validation_loss(shape, rows, values) -> float:
    losses = shape.of_clients(values, rows)
    return float(np.average(losses, weights=shape.client_weights(rows)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=40))
def test_a_class_is_that_of_the_dummy_classifier(pairs):
    client, target = np.array(pairs).T
    rows = rows_of(client, target)
    shape = shape_of("log", 3, by_client=False)
    correct = compare_with_constant(rows, shape).constant_correct.sum()
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((len(target), 1)), target)
    guesses = dummy.predict(np.zeros((len(target), 1)))
    assert correct / len(target) == pytest.approx(accuracy_score(target, guesses))
    shares = dummy.predict_proba(np.zeros((len(target), 1)))
    expected = log_loss(target, shares, labels=dummy.classes_) if len(dummy.classes_) > 1 else 0.0
    loss = validation_loss(shape, rows, best_constant(rows, shape))
    assert loss == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-9, 9, width=32)), min_size=1, max_size=30),
    st.floats(-9, 9),
    st.booleans(),
)
def test_no_other_number_has_a_smaller_mean_squared_loss(pairs, other, by_client):
    client, target = zip(*pairs, strict=True)
    rows = rows_of(client, target)
    shape = shape_of(by_client=by_client)
    best = validation_loss(shape, rows, best_constant(rows, shape))
    assert best <= validation_loss(shape, rows, (rows.target - other) ** 2) + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30),
    st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
    st.sampled_from(["log", "squared"]),
)
def test_no_other_probabilities_have_a_smaller_loss(pairs, weights, kind):
    client, target = np.array(pairs).T
    rows = rows_of(client, target)
    shape = shape_of(kind, 3)
    best = validation_loss(shape, rows, best_constant(rows, shape))
    shares = np.array(weights) / sum(weights)
    hot = np.eye(3)[target]
    other = -np.log(shares[target]) if kind == "log" else ((shares - hot) ** 2).sum(1) / 3
    assert best <= validation_loss(shape, rows, other) + 1e-9


def test_outcomes_are_counted_by_the_hypothesis_that_predicted_them():
    rows = rows_of(
        [0, 0, 1, 1],
        [0, 1, 1, 1],
        outcome=np.array([1, 1, 0, -1]),
        true_outcome=np.array([0, 1, 1, -1]),
        hypothesis=np.array([0, 0, 1, 1]),
        groups={"sex": (2, np.array([0, 1, -1, 1]))},
    )
    shape = shape_of("log", 2)
    found = compare_with_constant(rows, shape)
    assert found.outcomes.tolist() == [[0, 2], [1, 0]]
    assert found.true_outcomes.tolist() == [1, 2]
    assert found.rows_by_group["sex"].tolist() == [1, 2]


_TRIPLES = st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(-9, 9, width=32))


@settings(max_examples=80, deadline=None)
@given(st.lists(_TRIPLES, min_size=1, max_size=30), st.floats(-9, 9), st.booleans(), st.booleans())
@example([(0, 0, 0.0), (0, 0, 3.0), (0, 1, 5.0), (1, 0, 1.0), (1, 1, 0.0)], 1.0, False, True)
@example([(0, 0, 0.0), (0, 0, 0.0), (0, 1, 5.0), (1, 0, 1.0), (1, 1, 0.0)], 1.0, False, True)
@example([*((client, 0, 0.0) for client in range(5)), (5, 0, 1.0)], 1.0, False, True)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_other_number_of_a_hypothesis_has_a_smaller_mean_of_root_means(
    triples, other, of_clients, by_client
):
    client, chosen, target = map(np.array, zip(*triples, strict=True))
    rows = rows_of(client, target, hypothesis=client if of_clients else chosen)
    shape = shape_of(root_mean=True, by_client=by_client)
    values = best_constant(rows, shape)
    best = validation_loss(shape, rows, values)
    for own in np.unique(rows.hypothesis):
        changed = np.where(rows.hypothesis == own, (rows.target - other) ** 2, values)
        assert best <= validation_loss(shape, rows, changed) + 1e-6


def test_a_large_federation_has_its_median_and_every_client_its_own_constant():
    """Of one row each and outcomes that are nearly even, and of three rows that are alike."""
    rows, shape = rows_of(range(100_000), np.arange(100_000) < 49_900), shape_of(root_mean=True)
    median = validation_loss(shape, rows, best_constant(rows, shape))
    assert median == pytest.approx(0.499, abs=1e-12)
    client = np.repeat(np.arange(100_000), 3)
    for classes in (0, 3):
        rows = rows_of(client, client % 3 if classes else client, hypothesis=client)
        values = best_constant(rows, shape_of("squared", classes, root_mean=not classes))
        assert values.max() == pytest.approx(0, abs=1e-12)


def beside_constant(rows, shape, *, clients_trained=False):
    return judge_comparison(compare_with_constant(rows, shape), clients_trained=clients_trained)


@pytest.mark.parametrize("classes", [0, 2])
def test_a_model_of_one_constant_a_hypothesis_is_no_better_than_the_constants(classes):
    random = np.random.default_rng(5)
    client = np.repeat(np.arange(60), 10)
    kind = np.repeat(random.integers(0, 2, 60), 10)
    target = (random.random(600) < 0.2 + 0.6 * kind).astype(float)
    if not classes:
        target = target * 2 - 1 + random.normal(0, 0.1, 600)
    predicted = kind.astype(float) if classes else np.where(kind == 1, 0.6, -0.6)
    shape = shape_of("squared", classes, root_mean=not classes)
    values = (target - predicted) ** 2
    rows = rows_of(client, target, predicted, values, hypothesis=kind)
    assert beside_constant(rows, shape).degenerate is not False
    # One constant for all would have been beaten easily.
    alone = rows_of(client, target, predicted, values)
    assert beside_constant(alone, shape).degenerate is False


@pytest.mark.parametrize("clients", [10, 20])
def test_luck_on_few_clients_is_not_shown_and_a_gain_is(clients: int) -> None:
    def shown(right: float, seed: int) -> bool:
        random = np.random.default_rng(seed)
        target = (random.random(clients * 130) < 0.5).astype(float)
        predicted = np.where(random.random(len(target)) < right, target, 1 - target)
        values = np.where(predicted == target, 0.6, 0.8)
        rows = rows_of(np.repeat(np.arange(clients), 130), target, predicted, values)
        shape = shape_of("log", 2)
        return beside_constant(rows, shape).degenerate is False

    # At 2.5 %, 15 or more of 200 come about in fewer than one of a thousand repetitions.
    assert sum(shown(0.5, seed) for seed in range(200)) < 15
    assert sum(shown(0.58, seed) for seed in range(20)) > 15


def test_the_interval_that_decides_is_stated() -> None:
    """Of 200 rows the model alone is right on 20, the constant alone on 10."""
    target = np.repeat([0.0, 1.0], 100)
    predicted = np.repeat([1.0, 0.0, 1.0], [10, 170, 20])
    values = np.where(predicted == target, 0.6, 0.8)
    rows, shape = rows_of(np.arange(200) % 5, target, predicted, values), shape_of("log", 2)
    stated = "in accuracy reaches 0 (-0.00368 to 0.104, by rows taken one by one)"
    assert str(beside_constant(rows, shape).reason).endswith(stated)


def test_what_is_right_of_the_favourable_outcome_is_stated_where_it_is_too_little() -> None:
    """Classes 1 and 2 are distinguished, and neither from 0, which is the favourable one."""
    target = np.tile([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 40)
    predicted = np.tile([1, 1, 1, 0, 1, 1, 1, 2, 2, 2], 40)
    own = {"outcome": 1 * (predicted == 0), "true_outcome": 1 * (target == 0)}
    rows = rows_of(np.repeat(np.arange(40), 10), target, predicted, two_outcomes=True, **own)
    found = compare_with_constant(rows, shape_of("log", 3, by_client=False))
    for rounded in (False, True):
        why = judge_comparison(found, clients_trained=False, rounded=rounded)
        assert why.degenerate is None
        stated = " (right for 60.0% of rows, and the same answer for 70.0%)" * (not rounded)
        assert str(why.reason).endswith(f"always giving the same answer{stated}")


@pytest.mark.parametrize("clients_trained", [False, True])
def test_rows_of_one_large_client_show_no_gain_for_others(clients_trained: bool) -> None:
    """One client has most rows, and the model fits it: a gain for the clients that trained."""
    sizes = [5_000, *[20] * 24]
    client = np.repeat(np.arange(25), sizes)
    random = np.random.default_rng(3)
    target = (random.random(len(client)) < 0.5).astype(float)
    right = random.random(len(client)) < np.where(client == 0, 0.7, 0.5)
    predicted = np.where(right, target, 1 - target)
    rows = rows_of(client, target, predicted, np.where(right, 0.6, 0.8))
    shape = shape_of("log", 2, by_client=False)
    found = beside_constant(rows, shape, clients_trained=clients_trained)
    assert found.degenerate is (False if clients_trained else None)
    assert clients_trained or "of so uneven sizes" in str(found.reason)


# -- which models decide nothing ------------------------------------------------------------------


GOOD = Gained(0.1, Interval(0.05, 0.15))
UNSHOWN = Interval(-0.0123, 0.1)
UNKNOWN = {"share": None, "truth": None}


def judged(accuracy=GOOD, loss=GOOD, outcome=None, share=0.7, truth=0.6):
    gains = {"accuracy": accuracy, "loss": loss, "outcome": outcome}
    known = {kind: gain for kind, gain in gains.items() if gain is not None}
    return judge_model(known, prediction_share=share, outcome_share=truth)


@pytest.mark.parametrize(
    ("figures", "degenerate", "reason"),
    [
        *((good, False, None) for good in ({}, UNKNOWN, {"accuracy": None}, {"outcome": GOOD})),
        # Better in neither.
        (
            {"accuracy": Gained(0.0, UNSHOWN), "loss": Gained(-0.1, UNSHOWN)},
            True,
            "is no better than",
        ),
        ({"accuracy": None, "loss": Gained(-0.1, UNSHOWN)}, True, "no better"),
        # The two disagree, as of rare classes.
        ({"accuracy": Gained(-0.05, UNSHOWN)}, None, "by accuracy the model is no"),
        ({"outcome": Gained(0.0, UNSHOWN)}, None, "predictions of the favourable outcome"),
        # Not shown.
        ({"accuracy": Gained(0.01, UNSHOWN)}, None, "of its gain in accuracy reaches 0"),
        ({"accuracy": None, "loss": Gained(0.1, UNSHOWN)}, None, "in loss reaches 0"),
        ({"loss": Gained(0.1, UNSHOWN)}, False, None),
        ({"accuracy": None, "loss": None}, None, "nothing says"),
        # One prediction for nearly everybody.
        ({"share": 1.0, "truth": 1.0}, True, "equal rates mean nothing"),
        ({"share": 0.995, "truth": 0.5}, True, "equal rates mean nothing"),
        ({"share": 0.9807, "truth": 0.604}, True, "equal rates mean nothing"),
        # One in 200 has the rare outcome, and it is predicted about as often: not overlooked.
        ({"share": 0.996, "truth": 0.995}, False, None),
        ({"share": 0.9985, "truth": 0.995}, True, "equal rates mean nothing"),
        # Cautious, and not constant.
        ({"share": 0.96, "truth": 0.9}, False, None),
    ],
)
def test_what_decides(figures, degenerate, reason):
    found = judged(**figures)
    assert found.degenerate is degenerate
    assert found.reason is None if reason is None else reason in found.reason
