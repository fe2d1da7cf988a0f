"""What reports draw and add up is the same with the compiled kernels and without, to the bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.gaps import GroupScores
from fedaudit.fairness.permutation import _exchanged_once, permutation_nulls, score_nulls
from fedaudit.native.library import kernels
from fedaudit.utility import LossShape, MeasuredRows, best_constant
from tests.fairness.disclosures import disclosed_clients, disclosed_scores
from tests.native_fallback import fallback_only

pytestmark = pytest.mark.skipif(kernels() is None, reason="built without a C compiler")


def both(compute: Callable[[], Any]) -> tuple[Any, Any]:
    """What the kernels compute, and what the fallback does; nothing drawn is kept."""
    found = []
    for fallback in (False, True):
        _exchanged_once.cache_clear()
        if not fallback:
            found.append(compute())
            continue
        with fallback_only():
            found.append(compute())
    return found[0], found[1]


def scored(seed: int, *, clients: int, groups: int, apart: bool) -> tuple[Any, GroupScores]:
    """Counts [clients, groups, 4] and scores; `apart`: each client is of one group."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (clients, groups, 4))
    if apart:
        counts *= (rng.integers(0, groups, clients)[:, None] == np.arange(groups))[..., None]
    rows = counts.sum(axis=2)
    return counts, GroupScores(rows, None, rows * rng.random((clients, groups)))


@pytest.mark.parametrize("apart", [True, False])
def test_nulls(apart: bool) -> None:
    counts, scores = scored(1, clients=70, groups=4, apart=apart)
    disclosure = disclosed_clients(counts, minimum_group_size=5)
    of_scores = disclosed_scores(scores, minimum_group_size=5)

    def compute() -> Any:
        return (
            permutation_nulls(counts, disclosure, seed=3, permutations=300),
            score_nulls(scores, of_scores, root_mean=True, seed=3, permutations=300),
        )

    ours, fallback = both(compute)
    assert ours == fallback


def test_clients_that_exchanged_groups_are_not_drawn_twice() -> None:
    counts, scores = scored(1, clients=70, groups=4, apart=True)
    _exchanged_once.cache_clear()
    permutation_nulls(counts, disclosed_clients(counts, minimum_group_size=5), seed=3)
    of_scores = disclosed_scores(scores, minimum_group_size=5)
    score_nulls(scores, of_scores, root_mean=True, seed=3)
    assert (_exchanged_once.cache_info().hits, _exchanged_once.cache_info().misses) == (1, 1)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    clients=st.sampled_from([1, 7, 8, 60, 129, 400]),
    hypotheses=st.integers(1, 4),
    shared=st.booleans(),
    by_client=st.booleans(),
)
def test_the_best_number_of_each_hypothesis(seed, clients, hypotheses, shared, by_client):
    rng = np.random.default_rng(seed)
    client = np.concatenate([np.arange(clients), rng.integers(0, clients, 3 * clients)])
    client = rng.permutation(client)
    size = len(client)
    chosen = rng.integers(0, hypotheses, size if shared else clients)
    rows = MeasuredRows(
        client=client,
        clients=clients,
        target=rng.normal(size=size),
        predicted=np.zeros(size),
        values=np.zeros(size),
        outcome=None,
        true_outcome=None,
        hypothesis=chosen if shared else chosen[client],
        groups={},
    )
    shape = LossShape(row="squared", classes=0, root_mean=True, by_client=by_client)

    def compute() -> bytes:
        return best_constant(rows, shape).values.tobytes()

    ours, fallback = both(compute)
    assert ours == fallback
