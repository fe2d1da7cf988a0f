"""What (epsilon, delta) allows a test of one dataset against another, and what contradicts it."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fedaudit.attacks.membership.member_rates import Claim, claim_of, contradiction_of
from fedaudit.attacks.membership.membership_attack import RowObserver, likelihood_ratios
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.privacy.lower_bounds.e_values import EValue, is_alarm, run_evidence
from fedaudit.privacy.planning.plan import ObserverEpsilon
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.attacks.attacked_runs import attacked_run
from tests.training.federations import TABLE, federation
from tests.training.personalised import records_spec
from tests.training.specs import cell, groups_spec


def claim(epsilon: float, delta: float, *, steps: int = 1) -> Claim:
    claimed = ObserverEpsilon(
        observer="final_model", delta=delta, adjacency="replace-one", value=epsilon
    )
    return Claim(claimed=claimed, unit="client", steps=steps)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_test_of_the_gaussian_mechanism_exceeds_it(mu: float, epsilon: float) -> None:
    # Noise of deviation 1 / mu at sensitivity 1: delta at epsilon by Balle and Wang 2018, and the
    # best test by Neyman and Pearson.
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    rates = np.linspace(0.0005, 0.9995, 400)
    best = norm.sf(norm.isf(rates) - mu)
    allowed = np.array([claim(epsilon, float(delta)).tpr_max(rate) for rate in rates.tolist()])
    assert (best <= allowed + 1e-9).all()
    # And some test comes up to it: the bound is no looser than delta says.
    assert (allowed - best).min() < 2e-3


def test_two_steps_are_the_composition_of_one_after_the_other() -> None:
    one, two = claim(0.7, 1e-3), claim(0.7, 1e-3, steps=2)
    assert two.epsilon == pytest.approx(1.4)
    assert two.delta == pytest.approx(1e-3 * (1 + math.exp(0.7)))
    assert two.tpr_max(0.001) == pytest.approx(one.tpr_max(one.tpr_max(0.001)))
    assert claim(5000.0, 1e-5).tpr_max(0.001) == 1.0


@pytest.mark.parametrize("unit", ["record", "client"])
def test_a_claim_of_records_needs_records_that_are_held_out(unit: str) -> None:
    found = claim_of(attacked_run(cell(records_spec(federation__validation_unit=unit))))
    if unit == "client":
        assert isinstance(found, str)
        assert "hold out records" in found
    else:
        assert isinstance(found, Claim)
        assert (found.unit, found.steps) == ("record", 1)
        assert found.claimed.observer == "final_model"


def attacked(
    *, clients: int, rows: int, held_out: int, generator: np.random.Generator
) -> AttackedRows:
    member = np.ones(clients, dtype=np.bool_)
    member[generator.choice(clients, held_out, replace=False)] = False
    client = np.repeat(np.arange(clients), rows)
    return AttackedRows(place=np.arange(len(client)), client=client, member=member[client])


def alarms(claimed: Claim, scores: NDArray[np.float64], rows: AttackedRows) -> bool:
    """As the first attack on a run."""
    e_value = contradiction_of(claimed, scores, rows)["e_value"]
    return is_alarm(run_evidence([EValue(e_value, "run")]), e_value)


def test_members_with_higher_scores_raise_an_alarm() -> None:
    generator = np.random.default_rng(1)
    rows = attacked(clients=600, rows=2, held_out=300, generator=generator)
    scores = generator.normal(size=len(rows)) + 3 * rows.member
    assert alarms(claim(0.5, 1e-6), scores, rows)
    found = contradiction_of(claim(0.5, 1e-6), scores, rows)
    assert "one score of each of 600 clients" in found["evidence"]
    assert "epsilon 0.5" in found["claim"]
    assert not alarms(claim(8.0, 1e-6), scores, rows)
    # So many rows may each fail with a chance of delta.
    assert not alarms(claim(0.5, 1e-4), scores, rows)


@pytest.mark.parametrize("first", [True, False])
def test_first_rows_that_are_all_of_one_side_contradict_nothing(first: bool) -> None:
    """Records are held out of four clients, and the first row of each is on the same side."""
    member = np.tile([first, not first] * 20, 4)
    rows = AttackedRows(np.arange(160), np.repeat(np.arange(4), 40), member)
    found = contradiction_of(claim(0.1, 1e-6), 9.0 * member, rows)
    assert found["e_value"] == 0.25  # of a p-value of 1
    assert not alarms(claim(0.1, 1e-6), 9.0 * member, rows)


def test_clients_whose_rows_are_alike_raise_no_false_alarm() -> None:
    """Nothing is learnt; a few clients of another kind train or are held out by chance.

    Each of 200 runs alarms with a chance of at most 1 in 200, so more than 5 alarms come with one
    below 0.001; and e-values are 1 at most on average.
    """
    generator, found = np.random.default_rng(7), []
    for _ in range(200):
        rows = attacked(clients=100, rows=20, held_out=10, generator=generator)
        unlike = generator.random(100) < 0.1
        scores = generator.normal(size=len(rows)) + 5.0 * unlike[rows.client]
        found.append(contradiction_of(claim(0.1, 1e-6), scores, rows)["e_value"])
    assert sum(one >= 200 for one in found) <= 5
    assert np.mean(found) <= 1


ROWS, SHADOWS = 4000, 128
BEST = norm.cdf(1 / np.sqrt(2))
"""The AUC of two normal laws that lie a deviation apart. Of 2,000 of each it is measured with a
standard error of 0.008."""


def observer(features: Any, target: Any, *, classes: tuple[str, ...] = (), **spec: Any) -> Any:
    data = federation(features, target, classes=classes)
    every = np.arange(data.rows)
    rows = AttackedRows(every, data.client_of, every >= 0)
    parsed = parse_spec(groups_spec(federation=TABLE, fairness={}, **spec))
    return RowObserver(Cell(parsed, data), rows, torch.device("cpu"))


def test_a_row_does_not_choose_its_hypothesis_unless_it_is_alone() -> None:
    linear = {"model": {"kind": "linear", "intercept": False}, "training__loss": "mse"}
    looks = observer([np.ones((3, 1)), np.ones((1, 1))], [[1, 1, -1], [-1]], **linear)
    seen = looks.observe(np.array([[1.0], [-1.0]], dtype=np.float32))
    # The third row fits the second hypothesis; its client's others fit the first.
    assert seen.loss.tolist() == [0.0, 0.0, 4.0, 0.0]
    assert seen.statistic.tolist() == [0.0, 0.0, 2.0, 0.0]


LOGISTIC = {
    "model": {"kind": "logistic"},
    "training__loss": "cross-entropy",
    "training__hypotheses": 1,
}


@pytest.mark.parametrize("classes", [2, 3])
def test_the_statistic_is_the_logit_of_the_true_class(classes: int) -> None:
    random = np.random.default_rng(3)
    features, target = random.normal(size=(6, 4)), random.integers(0, classes, 6)
    names = tuple("abc"[:classes])
    looks = observer([features], [target], classes=names, **LOGISTIC)
    n = 5 if classes == 2 else 15
    seen = looks.observe(random.normal(size=(1, n)).astype(np.float32))
    probability = np.exp(-seen.loss)  # the loss is the cross-entropy
    logit = np.log(probability / (1 - probability))
    np.testing.assert_allclose(seen.statistic, logit, rtol=1e-4, atol=1e-4)
    # It is exact where the probability has been rounded to one.
    far = observer([np.array([[40.0], [80.0]])], [[1, 1]], classes=names[:2], **LOGISTIC)
    sure = far.observe(np.array([[1, 0]], dtype=np.float32))
    assert sure.statistic.tolist() == [40.0, 80.0]


def logits() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Each row has a place to itself, and one deviation higher where it was trained on."""
    random = np.random.default_rng(11)
    level = random.normal(scale=5, size=ROWS)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    statistic = level + trained + random.normal(size=(SHADOWS, ROWS))
    member = np.arange(ROWS) % 2 == 0
    target = level + member + random.normal(size=ROWS)
    return {"trained": trained, "shadows": statistic}, target, member


def test_likelihood_ratios_are_nearly_the_best_test() -> None:
    shadows, target, member = logits()
    scores = likelihood_ratios(target, **shadows)
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
    # A threshold that knows nothing of the rows is lost among their levels.
    assert roc_auc_score(member, target) < 0.6


def test_a_residual_fits_well_where_it_is_small() -> None:
    random = np.random.default_rng(12)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    deviation = np.where(trained, 0.5, 1.0)
    shadows = random.normal(size=trained.shape) * deviation
    member = np.arange(ROWS) % 2 == 0
    target = random.normal(size=ROWS) * np.where(member, 0.5, 1.0)
    scores = likelihood_ratios(target, shadows=shadows, trained=trained)
    best = roc_auc_score(member, -np.abs(target))
    assert roc_auc_score(member, scores) == pytest.approx(best, abs=0.03)


def test_a_statistic_that_overflowed_is_left_out() -> None:
    shadows, target, member = logits()
    shadows["shadows"][0], shadows["shadows"][1] = np.inf, np.nan
    scores = likelihood_ratios(target, **shadows)
    assert np.isfinite(scores).all()
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
