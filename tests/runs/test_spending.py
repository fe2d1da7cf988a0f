"""Running totals against a pass over all clients."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.metric.leakage import summarise_leakage
from fedaudit.runs.spending import Spending

CLIENTS = 12
INPUTS = MechanismParameters("laplace-l2", 11, 3.7, None, 1e-6, None, "simulation", "heuristic")

cohorts = st.lists(
    st.tuples(
        st.lists(st.integers(0, 8), min_size=1, unique=True),
        st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=9, max_size=9),
    ),
    max_size=30,
)


@given(cohorts)
def test_median_and_maximum_are_those_of_the_report(
    rounds: list[tuple[list[int], list[int]]],
) -> None:
    # Clients 9, 10 and 11 are held out.
    training = np.arange(9, dtype=np.int32)
    spending = Spending(np.zeros(CLIENTS, dtype=np.int32), training=training)
    counted = np.zeros(CLIENTS, dtype=np.int32)
    refused = np.zeros(CLIENTS, dtype=np.int32)
    refusals = withheld = 0
    for subjects, all_outcomes in rounds:
        outcomes = np.array(all_outcomes[: len(subjects)], dtype=np.uint8)
        spending.count_round(np.array(subjects, dtype=np.int32), outcomes)
        for subject, outcome in zip(subjects, outcomes, strict=True):
            counted[subject] += outcome == 0
            refusals += outcome == 1
            refused[subject] += outcome == 1
            withheld += outcome == 2
    expected = summarise_leakage(
        counted, training_clients=9, n=INPUTS.n, noise_multiplier=INPUTS.noise_multiplier or 0
    )
    assert spending.leakage_median(INPUTS) == expected.median
    assert spending.max_leakage(INPUTS) == expected.maximum
    assert (spending.refusals, spending.withheld) == (refusals, withheld)
    np.testing.assert_array_equal(spending.releases, counted)
    np.testing.assert_array_equal(spending.refused, refused)


def test_totals_that_were_stored_are_taken_up() -> None:
    releases = np.array([3, 0, 1, 0], dtype=np.int32)
    training = np.array([0, 1, 2], dtype=np.int32)
    spending = Spending(releases, training=training, refusals=4, withheld=5)
    assert (spending.max_releases, spending.median) == (3, 1.0)
    spending.count_round(np.array([1, 2], dtype=np.int32), np.array([0, 1], dtype=np.uint8))
    assert (spending.max_releases, spending.median) == (3, 1.0)
    assert (spending.refusals, spending.withheld) == (5, 5)
    assert releases.tolist() == [3, 0, 1, 0]


def test_without_a_mechanism_there_is_no_leakage() -> None:
    inputs = MechanismParameters("none", 2, None, None, None, None, "simulation", "none")
    spending = Spending(np.ones(3, dtype=np.int32), training=np.arange(3, dtype=np.int32))
    assert spending.leakage_median(inputs) is None
    assert spending.max_leakage(inputs) is None
