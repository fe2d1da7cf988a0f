"""Random rounding: without bias, the same for the same rows, and a part within its whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness.joint_disclosure import Population
from fedaudit.fairness.noised_counts import GroupRows, Rounder, rounder_of
from fedaudit.number_text import digit_step, nearest, outward, step_of

BASE = 5
COUNTS = st.lists(st.integers(0, 200), min_size=8, max_size=8)


def group(name: bytes) -> GroupRows:
    return GroupRows(rows=name, positives=name + b"+", negatives=name + b"-")


def rounder(key: bytes = b"key") -> Rounder:
    groups = {"sex": [group(b"one"), group(b"two")]}
    return Rounder(base=BASE, key=key, population=b"held out", groups=groups)


@given(counts=COUNTS, key=st.binary(min_size=1, max_size=8))
def test_counts_become_multiples_near_by_and_parts_stay_within_wholes(counts, key):
    exact = np.array(counts, dtype=np.int64).reshape(2, 4)
    found = rounder(key).counts("sex", exact)
    assert (found % BASE == 0).all()
    assert (np.abs(found - exact) < BASE).all()
    assert (found >= 0).all()
    for parts in ((0, 3), (1, 2)):
        whole, rounded = exact[:, parts].sum(axis=1), found[:, parts].sum(axis=1)
        assert (np.abs(whole - rounded) < BASE).all()


def test_rounding_is_without_bias() -> None:
    """The mean over 4,000 keys; four standard errors would be passed in one seed of 15,000."""
    exact = np.array([[7, 11, 23, 4], [1, 2, 3, 4]], dtype=np.int64)
    keys = np.random.default_rng(3).bytes(4000 * 8)
    found = [rounder(keys[8 * one : 8 * one + 8]).counts("sex", exact) for one in range(4000)]
    error = np.std(found, axis=0) / np.sqrt(4000)
    assert (error > 0).all(), "without the key no one knows"
    assert (np.abs(np.mean(found, axis=0) - exact) <= 4 * error + 1e-12).all()


def test_repeating_a_report_averages_nothing_away() -> None:
    """The attack: a hundred reports of the same people, and the mean of their sizes."""
    generator, found = np.random.default_rng(4), set()
    for _ in range(100):
        # Another model each time: other predictions, the same people and outcomes.
        positives = generator.binomial([21, 9], 0.5)
        negatives = generator.binomial([16, 15], 0.5)
        counts = np.array([positives, negatives, [16, 15] - negatives, [21, 9] - positives]).T
        rounded = rounder().counts("sex", counts)
        found.add((*rounded[:, [0, 3]].sum(axis=1), *rounded[:, [1, 2]].sum(axis=1)))
    assert len(found) == 1


def test_the_same_rows_are_rounded_alike_under_another_attribute_and_rule() -> None:
    one, other = group(b"one"), group(b"two")
    reversed_ = GroupRows(rows=one.rows, positives=one.negatives, negatives=one.positives)
    groups = {"sex": [one, other], "sex_race": [other, one], "judged": [reversed_, other]}
    many = Rounder(base=BASE, key=b"k", population=b"p", groups=groups)
    exact = np.array([[7, 1, 2, 3], [9, 9, 9, 9]], dtype=np.int64)
    found = many.counts("sex", exact)
    assert (many.counts("sex_race", exact[::-1]) == found[::-1]).all()
    # The complementary rule: what was a true positive is a true negative. People of either outcome
    # are the same, and so is their rounded number.
    judged = many.counts("judged", exact[:, [2, 3, 0, 1]])
    for own, others in (([1, 2], [0, 3]), ([0, 3], [1, 2])):
        assert judged[0, own].sum() == found[0, others].sum()


def test_offsets_follow_which_rows_have_which_outcome() -> None:
    """Not only how many: else reports of other people of one number would be rounded alike."""
    codes, numbers = {"sex": np.array([0, 0, 0, 0, 1])}, np.array([3, 5, 8, 13, 21])
    people = Population(codes, {"sex": 2}, clients=np.arange(5), row_ids=numbers)

    def of(*favourable: bool) -> GroupRows:
        outcome = np.array([*favourable, True])
        found = rounder_of(people, outcome, base=BASE, key=b"k", data=b"d")
        return found.groups["sex"][0]

    one, other = of(True, True, False, False), of(True, False, True, False)
    assert (one.positives, one.negatives) != (other.positives, other.negatives)
    assert len({one.positives, one.negatives, other.positives, other.negatives}) == 4
    assert one.rows == other.rows
    mirrored = of(False, False, True, True)
    assert (mirrored.positives, mirrored.negatives) == (one.negatives, one.positives)


@pytest.mark.parametrize(
    ("rows", "step"), [(3, 1.0), (5, 1.0), (30, 0.2), (100, 0.05), (1000, 0.005), (12_000, 0.0005)]
)
def test_steps_are_those_of_the_base_or_wider(rows: int, step: float) -> None:
    assert step_of(rows, base=BASE) == pytest.approx(step)


@given(low=st.floats(0, 1), width=st.floats(0, 1), step=st.sampled_from([0.001, 0.02, 0.05, 0.5]))
def test_intervals_only_get_wider(low: float, width: float, step: float) -> None:
    found = outward(low, low + width, step)
    assert found[0] <= low + 1e-8
    assert found[1] >= low + width - 1e-8
    assert abs(nearest(low, step) - low) <= step / 2 + 1e-9


@pytest.mark.parametrize(
    ("value", "step"),
    [(1.0, 0.1), (-0.0234, 0.001), (990.0, 10.0), (0.0, 1.0), (float("inf"), 1.0)],
)
def test_two_digits_have_their_step(value, step):
    assert digit_step(value) == pytest.approx(step)
