"""Rates averaged over clients, beside those pooled over records."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.gaps import ZERO_OVER_ZERO, client_averages, gaps
from fedaudit.spec.metrics import METRICS, RATES
from tests.fairness.disclosures import disclosed_clients, disclosed_counts

DIFFERENCE = "demographic_parity_difference"


def averages(counts, **changes):
    return client_averages(np.array(counts), disclosed_clients(counts, **changes))


def values(found):
    return {figure.metric: figure.value for figure in found.figures}


def test_a_large_client_counts_as_much_as_a_small_one():
    # Group a: one client of 100 rows, all favoured, and one of 10, none favoured.
    counts = [[[50, 50, 0, 0], [0] * 4], [[0, 0, 5, 5], [0] * 4]]
    # Group b: two clients of 10 rows, half of them favoured.
    counts += [[[0] * 4, [3, 2, 2, 3]]] * 2
    found = averages(counts)
    assert found.rates[0].tolist() == [0.5, 0.5]
    assert values(found)[DIFFERENCE] == 0
    pooled = gaps(np.sum(counts, axis=0), disclosed_clients(counts))[0]
    assert pooled[0].value == pytest.approx(100 / 110 - 0.5)


def test_a_client_has_no_say_in_a_rate_that_it_lacks():
    counts = [[[4, 0, 0, 4], [0] * 4], [[1, 1, 0, 0], [0] * 4], [[0, 1, 1, 0], [0] * 4]]
    counts += [[[0] * 4, [1, 1, 1, 1]]] * 2
    found = averages(counts)
    assert found.clients.tolist() == [3, 2]
    assert found.contributing[:3, 0].tolist() == [3, 2, 2]
    assert found.rates[:3, 0].tolist() == pytest.approx([(0.5 + 1 + 0.5) / 3, 0.75, 0.75])


cell = st.lists(st.integers(0, 3), min_size=4, max_size=4)
clients_of_three_groups = st.lists(st.lists(cell, min_size=3, max_size=3), min_size=2, max_size=12)


@settings(max_examples=200, deadline=None)
@given(clients_of_three_groups)
def test_it_is_the_mean_of_the_clients_own_rates(counts):
    found = averages(counts)
    for group in range(3):
        own = [client[group] for client in counts]
        rates = [
            [(tp + fp) / (tp + fp + tn + fn) for tp, fp, tn, fn in own if tp + fp + tn + fn],
            [tp / (tp + fn) for tp, _, _, fn in own if tp + fn],
            [fp / (fp + tn) for _, fp, tn, _ in own if fp + tn],
        ]
        for place, of_clients in enumerate(rates):
            assert found.contributing[place, group] == len(of_clients)
            if len(of_clients) >= 2:
                assert found.rates[place, group] == pytest.approx(np.mean(of_clients))
            else:
                assert np.isnan(found.rates[place, group])


@settings(max_examples=100, deadline=None)
@given(clients_of_three_groups, st.sampled_from([None, 1]))
def test_with_clients_alike_it_is_the_pooled_gap(counts, reference):
    # Every client is there twice, and all clients of a group have that group's pooled counts.
    pooled = np.sum(counts, axis=0)
    found = averages([pooled] * 3, reference=reference)
    expected = gaps(3 * pooled, disclosed_counts(3 * pooled, reference=reference))[0]
    for figure in expected:
        assert values(found)[figure.metric] == pytest.approx(figure.value, nan_ok=True)


# -- what is hidden -----------------------------------------------------------------------------


def test_a_group_of_one_client_is_hidden_and_another_beside_it():
    counts = np.zeros((6, 3, 4), dtype=np.int64)
    counts[:3, 0], counts[3:5, 1], counts[5, 2] = (5, 5, 5, 5), (9, 9, 9, 9), (90, 9, 9, 9)
    found = averages(counts, minimum_group_size=10)
    # c has one client; a, the smallest of the others, is kept back with it.
    assert found.disclosure.shown.tolist() == [False, True, False]
    assert set(values(found).values()) == {None}
    assert "fewer than two groups are left" in found.figures[0].reason


def test_what_is_hidden_among_records_is_hidden_among_clients():
    counts = np.zeros((8, 4, 4), dtype=np.int64)
    counts[:2, 0], counts[2:4, 1] = (1, 1, 0, 0), (5, 5, 5, 5)
    counts[4:6, 2], counts[6, 3], counts[7, 3] = (9, 9, 9, 9), (30, 9, 9, 9), (9, 9, 9, 9)
    # 4 rows of a are too few, and b, the next smallest, is hidden beside it.
    found = averages(counts, minimum_group_size=30)
    assert found.disclosure.shown.tolist() == [False, False, True, True]
    assert found.figures[0].value is not None
    assert found.figures[0].reason.startswith("2 of 4 groups left out")


def test_the_rate_of_a_single_client_is_no_average():
    counts = [[[1, 1, 1, 1], [0] * 4]] * 2 + [[[0] * 4, [1, 1, 1, 1]], [[0] * 4, [0, 2, 2, 0]]]
    found = averages(counts)
    assert np.isnan(found.rates[1, 1])
    assert values(found)["equal_opportunity_difference"] is None
    assert values(found)[DIFFERENCE] == 0
    reasons = {figure.metric: figure.reason for figure in found.figures}
    assert reasons["equalized_odds_ratio"].startswith("in 1 of the groups compared, fewer than two")


def test_a_ratio_of_nothing_to_nothing_says_so():
    counts = [[[0, 0, 3, 3], [0] * 4]] * 2 + [[[0] * 4, [0, 0, 3, 3]]] * 2
    found = {figure.metric: figure for figure in averages(counts).figures}
    assert found["demographic_parity_ratio"].reason == ZERO_OVER_ZERO
    assert found[DIFFERENCE].value == 0


def test_a_hidden_reference_group_is_named():
    counts = np.zeros((9, 4, 4), dtype=np.int64)
    counts[:4, 0], counts[4:7, 1], counts[7:9, 2] = (9, 9, 9, 9), (5, 5, 5, 5), (1, 0, 0, 0)
    found = averages(counts, minimum_group_size=30, reference=1)
    assert not found.disclosure.shown[1]
    assert {figure.value for figure in found.figures} == {None}
    with pytest.raises(ValueError, match="is no group"):
        averages(counts, reference=4)


def test_every_metric_has_a_figure_and_every_rate_a_row():
    found = averages([[[1, 1, 1, 1], [1, 1, 1, 1]]] * 3)
    assert [figure.metric for figure in found.figures] == list(METRICS)
    assert found.rates.shape == (len(RATES), 2)
