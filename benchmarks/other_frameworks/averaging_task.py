"""A task of federated averaging as a file that any framework can read. Needs numpy and torch alone.

One round: `cohort` training clients, each of which takes one step of gradient descent on all its
rows from the common model, with the root mean squared error as loss; then the plain mean of theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True)
class AveragingTask:
    """The training clients' rows, the network, and where it begins."""

    features: NDArray[np.float32]
    """[rows, features], the rows of one client after those of another."""
    target: NDArray[np.float32]
    """[rows]."""
    first: NDArray[np.int64]
    """[clients + 1]: where the rows of each client begin, and where those of the last one end."""
    hidden: NDArray[np.int64]
    """Units of each hidden layer."""
    intercept: bool
    initial: NDArray[np.float32]
    """[parameters], in the order of torch's modules."""
    cohort: int
    step_size: float

    @property
    def clients(self) -> int:
        """How many there are to choose from."""
        return len(self.first) - 1

    def rows(self, client: int) -> tuple[Tensor, Tensor]:
        """The client's features [rows, features] and target [rows, 1]."""
        own = slice(self.first[client], self.first[client + 1])
        return torch.from_numpy(self.features[own]), torch.from_numpy(self.target[own])[:, None]

    def module(self) -> nn.Module:
        """The network with its initial parameters."""
        width = self.features.shape[1]
        module = dense_module(width, self.hidden.tolist(), intercept=self.intercept)
        nn.utils.vector_to_parameters(torch.from_numpy(self.initial), module.parameters())
        return module

    def save(self, path: Path) -> None:
        """As an .npz file."""
        np.savez(path, allow_pickle=False, **vars(self))


@cache
def opened(path: str) -> AveragingTask:
    """The task in a file; read once in every process."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    single = {name: arrays.pop(name).item() for name in ("intercept", "cohort", "step_size")}
    return AveragingTask(**arrays, **single)


def dense_module(features: int, hidden: Sequence[int], *, intercept: bool) -> nn.Module:
    """Dense layers with ReLU between them and one output, for regression."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(features, width, bias=intercept), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, 1, bias=intercept))


def rmse(predicted: Tensor, target: Tensor) -> Tensor:
    """The root mean squared error."""
    return torch.sqrt(nn.functional.mse_loss(predicted, target))


def parameters(module: nn.Module) -> list[float]:
    """One after the other, for JSON."""
    found: list[float] = nn.utils.parameters_to_vector(module.parameters()).tolist()
    return found
