"""What reports draw and add up is the same with the compiled kernels and without, to the bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.native.library import kernels
from fedaudit.utility import LossShape, MeasuredRows, best_constant
from tests.native_fallback import fallback_only

pytestmark = pytest.mark.skipif(kernels() is None, reason="built without a C compiler")


def both(compute: Callable[[], Any]) -> tuple[Any, Any]:
    """What the kernels compute, and what the fallback does."""
    ours = compute()
    with fallback_only():
        return ours, compute()


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
