"""Federated averaging in Apple's pfl-research: its algorithm, model and simulated backend.

Started by `python -m benchmarks.other_frameworks`, with a Python that has `pfl`.
"""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.other_frameworks.averaging_task import AveragingTask, opened, parameters, rmse
from benchmarks.other_frameworks.measured_rounds import Asked, Played, Watch, answer

_NEVER = 1_000_000_000


class Network(nn.Module):
    """The task's network, with the two methods that pfl asks for."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, features: Tensor, target: Tensor) -> Tensor:
        """What a client minimises."""
        # pfl divides what it gets in place, which a root's gradient does not survive.
        return rmse(self.inner(features), target).clone()

    @torch.no_grad()
    def metrics(self, features: Tensor, target: Tensor) -> dict[str, Any]:
        """Asked for in the first round alone."""
        return {"loss": Weighted.from_unweighted(float(self.loss(features, target)))}


class RoundEnds(TrainingProcessCallback):
    """Tells the watch of every round."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Whether to stop, which is never so, and no further figures."""
        self._watch.round_ended()
        return False, Metrics()


def drawn(task: AveragingTask, seed: int, cohorts: list[list[int]]) -> Iterator[int]:
    """Clients one by one, without repeats in a round; every cohort is noted."""
    draws = np.random.default_rng(seed)
    while True:
        cohorts.append(draws.choice(task.clients, task.cohort, replace=False).tolist())
        yield from cohorts[-1]


def play(asked: Asked, watch: Watch) -> Played:
    """All rounds in this process."""
    task = opened(asked.task)
    cohorts: list[list[int]] = []
    clients = drawn(task, asked.seed, cohorts)
    rows = [PyTorchTensorDataset(task.rows(client)) for client in range(task.clients)]
    data = FederatedDataset(rows.__getitem__, lambda: next(clients))
    network = Network(task.module())
    model = PyTorchModel(
        model=network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        backend=SimulatedBackend(
            training_data=data, val_data=data, postprocessors=[WeightByUser()]
        ),
        model=model,
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=asked.total,
            evaluation_frequency=_NEVER,
            train_cohort_size=task.cohort,
            val_cohort_size=None,
        ),
        model_train_params=NNTrainHyperParams(
            local_batch_size=None, local_num_epochs=1, local_learning_rate=task.step_size
        ),
        callbacks=[RoundEnds(watch)],
    )
    return Played(
        versions={name: version(name) for name in ("pfl", "torch", "numpy")},
        rounds=asked.rounds,
        processor=watch.processor,
        elapsed=watch.elapsed,
        cohorts=cohorts[: asked.total],
        parameters=parameters(network),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    answer(play)
