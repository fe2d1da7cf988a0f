"""Running totals against a pass over all clients."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import summarise_leakage
from fedaudit.runs.ledger_writer import Spending

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
        spending.count_rounds(np.array([subjects], dtype=np.int32), outcomes[np.newaxis])
        for subject, outcome in zip(subjects, outcomes, strict=True):
            counted[subject] += outcome == 0
            refusals += outcome == 1
            refused[subject] += outcome == 1
            withheld += outcome == 2
    expected = summarise_leakage(
        counted, training_clients=9, n=INPUTS.n, noise_multiplier=INPUTS.noise_multiplier or 0
    )
    assert INPUTS.leakage(spending.median) == expected.median
    assert INPUTS.leakage(spending.max_releases) == expected.maximum
    assert (spending.refusals, spending.withheld) == (refusals, withheld)
    np.testing.assert_array_equal(spending.releases, counted)
    np.testing.assert_array_equal(spending.refused, refused)


def test_totals_that_were_stored_are_taken_up() -> None:
    releases = np.array([3, 0, 1, 0], dtype=np.int32)
    training = np.array([0, 1, 2], dtype=np.int32)
    spending = Spending(releases, training=training, refusals=4, withheld=5)
    assert (spending.max_releases, spending.median) == (3, 1.0)
    spending.count_rounds(np.array([[1, 2]], dtype=np.int32), np.array([[0, 1]], dtype=np.uint8))
    assert (spending.max_releases, spending.median) == (3, 1.0)
    assert (spending.refusals, spending.withheld) == (5, 5)
    assert releases.tolist() == [3, 0, 1, 0]


def test_rounds_counted_together_leave_what_they_leave_one_by_one() -> None:
    random, training = np.random.default_rng(3), np.arange(9, dtype=np.int32)
    together, apart = (Spending(np.zeros(CLIENTS, np.int32), training=training) for _ in range(2))
    for rounds in (1, 5, 20):
        subjects = random.permuted(np.tile(training, (rounds, 1)), axis=1)[:, :4]
        outcomes = random.choice([0, 0, 1, 2], size=subjects.shape).astype(np.uint8)
        counted = together.count_rounds(subjects, outcomes)
        for at in range(rounds):
            alone = apart.count_rounds(subjects[[at]], outcomes[[at]])
            assert alone.releases[0].tolist() == counted.releases[at].tolist()
            assert (alone.most[0], alone.median[0]) == (counted.most[at], counted.median[at])
            assert (alone.most[0], alone.median[0]) == (apart.max_releases, apart.median)
    np.testing.assert_array_equal(together.releases, apart.releases)
    np.testing.assert_array_equal(together.refused, apart.refused)
    assert (together.refusals, together.withheld) == (apart.refusals, apart.withheld)
