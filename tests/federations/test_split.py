"""The split of clients into those that train and those held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.federations.split import split_clients, validation_clients


@given(
    clients=st.integers(2, 3000),
    fraction=st.floats(0, 1, exclude_min=True, exclude_max=True),
    seed=st.integers(0, 2**53 - 1),
)
def test_every_client_is_on_one_side(clients: int, fraction: float, seed: int) -> None:
    split = split_clients(clients, validation_fraction=fraction, seed=seed)

    both = np.concatenate([split.training, split.validation])
    assert np.array_equal(np.sort(both), np.arange(clients))
    assert len(split.training) >= 1
    assert len(split.validation) >= 1
    for side in (split.training, split.validation):
        assert side.dtype == np.int32
        assert (np.diff(side) > 0).all()
    asked = clients * fraction
    assert abs(len(split.validation) - asked) <= 0.5 or len(split.validation) in (1, clients - 1)


def test_sizes_of_the_papers() -> None:
    assert validation_clients(2948, validation_fraction=0.3) == 884
    assert validation_clients(200, validation_fraction=0.5) == 100
    assert validation_clients(4, validation_fraction=0.01) == 1


def test_one_client_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="fewer than two"):
        split_clients(1, validation_fraction=0.5, seed=0)


def test_seeds_split_differently_and_every_client_alike_often() -> None:
    held_out = np.zeros(20)
    for seed in range(400):
        split = split_clients(20, validation_fraction=0.3, seed=seed)
        again = split_clients(20, validation_fraction=0.3, seed=seed)
        assert np.array_equal(split.validation, again.validation)
        held_out[split.validation] += 1
    # 400 draws with probability 0.3: 120 +- 9.2 each; 5 deviations, 20 times one in 1.7 million.
    assert np.abs(held_out - 120).max() < 46
