"""Batches: every row of every client has its turn, however many rows there are."""

import numpy as np
import pytest
import torch

from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss, SmallDenseNetwork
from fedaudit.randomness import CounterSource
from fedaudit.spec.training import FixedCohort, Local, Training
from fedaudit.training.stacked.clients import Lanes, LocalUpdate

STEP = 0.125
COUNTS = torch.tensor([[6.0, 3.0, 1.0, 2.0]])
ROWS = 6


def visits(local: Local, *, seed: int = 1, round_: int = 1) -> list[list[float]]:
    """How often each row of each client was learned from, one row in a batch.

    Row i has the i-th unit vector for features and 1 for a target: only its own visits move the
    i-th parameter, each by a factor of 1 - 2 * STEP towards 1.
    """
    mask = (torch.arange(ROWS)[:, None, None] < COUNTS).float()
    features = torch.eye(ROWS)[:, :, None, None] * mask
    lanes = Lanes(features=features, target=mask.clone(), mask=mask, count=COUNTS)
    network = SmallDenseNetwork(DenseShape((ROWS, 1), intercept=False))
    training = Training(loss="mse", rounds=1, cohort=FixedCohort(clients=4), local=local)
    update = LocalUpdate(network, Loss("mse", 0), training, rows=ROWS)
    theta = update(
        torch.zeros(1, 4, ROWS),
        lanes,
        source=CounterSource(np.array([[seed]], dtype=np.uint64)),
        rounds=np.array([round_]),
        clients=np.arange(4)[None],
    )
    counted = torch.log(1 - theta[0].double()) / np.log(1 - 2 * STEP)
    return [
        [round(value, 3) for value in row[: int(count)]]
        for row, count in zip(counted.tolist(), COUNTS[0], strict=True)
    ]


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_epoch_visits_every_row_once(epochs: int) -> None:
    local = Local(epochs=epochs, batch_size=1, step_size=STEP)
    assert visits(local) == [[epochs] * int(count) for count in COUNTS[0]]


def test_steps_are_as_many_for_clients_with_few_rows() -> None:
    local = Local(steps=12, epochs=None, batch_size=1, step_size=STEP)
    assert visits(local) == [[2.0] * 6, [4.0] * 3, [12.0], [6.0] * 2]


def test_the_rest_of_the_steps_goes_to_some_rows() -> None:
    found = visits(Local(steps=8, epochs=None, batch_size=1, step_size=STEP))
    assert [sum(row) for row in found] == pytest.approx([8, 8, 8, 8], abs=0.01)
    assert sorted(found[0]) == [1, 1, 1, 1, 2, 2]
    assert sorted(found[1]) == [2, 3, 3]


def test_the_order_depends_on_seed_and_round() -> None:
    local = Local(steps=3, epochs=None, batch_size=1, step_size=STEP)
    first = visits(local)
    assert visits(local) == first
    orders = {str(visits(local, seed=seed, round_=round_)) for seed in (1, 2) for round_ in (1, 2)}
    assert len(orders) > 1


def test_a_batch_of_all_rows_is_the_whole_data() -> None:
    whole, batch = (
        visits(Local(epochs=2, batch_size=size, step_size=STEP)) for size in (None, ROWS)
    )
    assert whole == batch


def test_the_last_batch_averages_over_what_is_left() -> None:
    """Batches of 4 of 6 rows: each row moves by 2 * STEP over its own batch's size."""
    found = visits(Local(epochs=1, batch_size=4, step_size=STEP))
    quarter, half = (np.log(1 - 2 * STEP / size) / np.log(1 - 2 * STEP) for size in (4, 2))
    assert sorted(found[0]) == pytest.approx([quarter] * 4 + [half] * 2, abs=1e-3)
    third = np.log(1 - 2 * STEP / 3) / np.log(1 - 2 * STEP)
    assert found[1] == pytest.approx([third] * 3, abs=1e-3)
