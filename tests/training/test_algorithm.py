"""Training without noise against loops over clients in plain torch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedaudit.federations.federation import Federation
from fedaudit.networks.stacked_network import Loss
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.stack import Stack
from tests.networks.test_networks import reference, reference_loss
from tests.training.federations import random_federation, table_cell
from tests.training.gaussian import training_clients
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import train


class Reference:
    """Federated averaging, or IFCA (Ghosh et al. 2020) with model averaging, client by client."""

    def __init__(self, cell: Cell) -> None:
        training = cell.spec.training
        self.shape = cell.shape
        self.loss = Loss(training.loss, len(cell.federation.classes))
        self.steps = training.local.epochs or 0
        self.step_size = training.local.step_size
        self.data: Federation = cell.federation
        self.theta = torch.from_numpy(first_hypotheses(cell)).double()

    def client_loss(self, theta: Tensor, client: int) -> Tensor:
        rows = self.data.own(client)
        inputs = torch.from_numpy(self.data.side_by_side[rows]).double()
        target = torch.from_numpy(self.data.target[rows]).double()
        return reference_loss(self.loss, reference(self.shape, theta, inputs), target)

    def choice(self, client: int) -> int:
        return int(np.argmin([self.client_loss(theta, client) for theta in self.theta]))

    def update(self, client: int) -> Tensor:
        theta = self.theta[self.choice(client)].clone()
        for _ in range(self.steps):
            theta.requires_grad_()
            (gradient,) = torch.autograd.grad(self.client_loss(theta, client), theta)
            theta = (theta - self.step_size * gradient).detach()
        return theta

    def round(self, subjects: list[int]) -> list[int]:
        chosen = [self.choice(client) for client in subjects]
        updates = torch.stack([self.update(client) for client in subjects])
        for j in range(len(self.theta)):
            members = torch.tensor(chosen) == j
            if members.any():
                self.theta[j] = updates[members].mean(0)
        return chosen

    def selection_loss(self, clients: list[int]) -> float:
        losses = [[float(self.client_loss(theta, c)) for theta in self.theta] for c in clients]
        return float(np.mean(np.min(losses, axis=1)))


def compare(cell: Cell) -> list[RoundRecord]:
    """Plays a cell and its reference side by side."""
    stack, reference = Stack([cell]), Reference(cell)
    records: list[RoundRecord] = []
    best = (np.inf, reference.theta.clone())
    held_out = cell.validation_rows.clients.tolist()
    while stack.active:
        (record,) = records_of(stack.advance(1)[0])
        chosen = reference.round(record.subjects.tolist())
        assert record.chosen.tolist() == chosen
        expected = reference.selection_loss(held_out)
        assert record.selection_loss == pytest.approx(expected, rel=1e-5, abs=1e-6)
        if expected < best[0] - 1e-7:
            best = expected, reference.theta.clone()
        records.append(record)
    hypotheses = torch.from_numpy(stack.result(0).hypotheses).double()
    torch.testing.assert_close(hypotheses, best[1], rtol=1e-5, atol=1e-5)
    return records


@pytest.mark.parametrize(
    "changes",
    [
        {"training__loss": "rmse"},
        {"training__loss": "mse", "training__local": {"epochs": 3, "step_size": 0.05}},
        {"training__loss": "mse", "model": {"kind": "mlp", "hidden": [4, 3]}},
        {"training__loss": "rmse", "model": {"kind": "mlp", "hidden": [20], "intercept": False}},
    ],
    ids=["linear rmse", "linear mse", "small network", "wide network"],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_one_hypothesis_is_federated_averaging(changes: dict[str, Any], seed: int) -> None:
    compare(table_cell(random_federation(), training__hypotheses=1, seed=seed, **changes))


@pytest.mark.parametrize("model", [{"kind": "logistic"}, {"kind": "mlp", "hidden": [20]}])
def test_federated_averaging_of_a_classifier(model: dict[str, Any]) -> None:
    data = random_federation(classes=3)
    records = compare(
        table_cell(data, training__hypotheses=1, training__loss="cross-entropy", model=model)
    )
    assert all(record.accuracy is not None for record in records)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("loss", ["rmse", "mse"])
def test_reported_choices_are_ifca(seed: int, loss: str) -> None:
    cell = table_cell(
        random_federation(seed=seed),
        seed=seed,
        training__hypotheses=3,
        training__loss=loss,
        training__clustering={"method": "reported"},
    )
    for record in compare(cell):
        assert np.array_equal(record.clusters, record.chosen)
        sizes = np.bincount(record.chosen, minlength=3)
        assert record.cluster_sizes == tuple(sizes.tolist())
        assert record.collapsed == (np.count_nonzero(sizes) == 1)


def test_the_cohort_is_drawn_from_training_clients_without_replacement() -> None:
    cell = table_cell(random_federation(), training__rounds=60)
    records, training = train(cell)[0], training_clients(cell).tolist()
    assert len(training) == 18
    drawn = np.concatenate([record.subjects for record in records])
    assert set(drawn.tolist()) == set(training)
    for record in records:
        assert np.all(np.diff(record.subjects) > 0)
