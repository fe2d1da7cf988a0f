"""Federated averaging in Flower: its strategy, apps and simulation, whose one backend is Ray.

Started by `python -m benchmarks.other_frameworks`, with a Python that has `flwr` and `ray`.
"""

from collections.abc import Iterable
from importlib.metadata import version

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.other_frameworks.averaging_task import opened, parameters, rmse
from benchmarks.other_frameworks.measured_rounds import Asked, Played, Watch, answer

CLIENT = ClientApp()


@CLIENT.train()  # type: ignore[untyped-decorator]  # Flower may not be installed here
def train(message: Message, context: Context) -> Message:
    """One client's part of a round."""
    config = message.content["config"]
    task = opened(str(config["task"]))
    client = int(context.node_config["partition-id"])
    module = task.module()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    features, target = task.rows(client)
    optimiser = torch.optim.SGD(module.parameters(), lr=task.step_size)
    torch.autograd.backward(rmse(module(features), target))
    optimiser.step()
    content = RecordDict(
        {
            "arrays": ArrayRecord(module.state_dict()),
            # Every client counts the same.
            "metrics": MetricRecord({"num-examples": 1, "client": client}),
        }
    )
    return Message(content, reply_to=message)


class Watched(FedAvg):
    """Flower's own averaging, which notes who trained and tells the watch of every round."""

    def __init__(self, watch: Watch, *, cohort: int) -> None:
        # A share that is no client at all: the smallest number allowed is then the number drawn.
        super().__init__(fraction_train=1e-9, min_train_nodes=cohort, fraction_evaluate=0.0)
        self._watch = watch
        self.cohorts: list[list[int]] = []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As Flower does it."""
        kept = list(replies)
        self.cohorts.append([int(one.content["metrics"]["client"]) for one in kept])
        found: tuple[ArrayRecord | None, MetricRecord | None]
        found = super().aggregate_train(server_round, kept)
        self._watch.round_ended()
        return found


def play(asked: Asked, watch: Watch) -> Played:
    """All rounds, the clients in two processes of Ray's."""
    task = opened(asked.task)
    strategy = Watched(watch, cohort=task.cohort)
    module = task.module()
    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator]  # Flower may not be installed here
    def main(grid: Grid, context: Context) -> None:
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(module.state_dict()),
            num_rounds=asked.total,
            train_config=ConfigRecord({"task": asked.task}),
        )
        module.load_state_dict(result.arrays.to_torch_state_dict())

    run_simulation(
        server_app=server,
        client_app=CLIENT,
        num_supernodes=task.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 2},
        },
    )
    return Played(
        versions={name: version(name) for name in ("flwr", "ray", "torch", "numpy")},
        rounds=asked.rounds,
        processor=watch.processor,
        elapsed=watch.elapsed,
        cohorts=strategy.cohorts,
        parameters=parameters(module),
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    answer(play)
