"""A training in Flower's simulation: `python -m tests.client.adapters.flower_training '{...}'`.

Prints one line of JSON behind everything that Flower prints.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

from fedaudit_client import Client
from fedaudit_client.adapters.flower import FedauditStrategy, say_subject, subject_mod
from fedaudit_client.adapters.plain import Ledger, RoundRefused

CLIENTS = 4
NOISE, CLIP = 2.0, 0.5
ROUNDS = 3


def client_app(folder: Path, weights: list[int], failing: list[int]) -> ClientApp:
    """Clients that leave a file for each round in which they trained."""
    app = ClientApp(mods=[subject_mod(lambda context: f"silo-{_place(context)}")])
    app.query("fedaudit")(say_subject)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        place, round_ = _place(context), message.content["config"]["server-round"]
        (folder / f"{round_}-silo-{place}").touch()
        if place in failing:
            raise RuntimeError("this silo is down")
        arrays = [one + 1.0 for one in message.content["arrays"].to_numpy_ndarrays()]
        metrics = MetricRecord({"num-examples": weights[place]})
        return Message(
            RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message
        )

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        counts = {"fedaudit/sex/f": [20, 5, 40, 10], "fedaudit/sex/m": [50, 5, 30, 10]}
        if _place(context) == 3:  # Nobody of a group there.
            del counts["fedaudit/sex/m"]
        metrics = MetricRecord({"num-examples": 1, "loss": 0.5, **counts})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def _place(context: Context) -> int:
    return int(context.node_config["partition-id"])


def trained(asked: dict[str, Any]) -> dict[str, Any]:
    """What came of a training."""
    printed: dict[str, Any] = {"error": None, "metrics": None}
    app = ServerApp()
    folder = Path(asked["folder"])

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        base = FedAvg(min_available_nodes=CLIENTS, min_train_nodes=1, min_evaluate_nodes=1)
        inner: Any = base
        if asked["event"] is None:
            inner = DifferentialPrivacyServerSideFixedClipping(
                base, NOISE, CLIP, asked.get("calibrated", CLIENTS)
            )
        if asked.get("snippet"):
            names: dict[str, Any] = {"strategy": inner}
            exec(asked["snippet"], names)
            strategy = names["strategy"]
        else:
            client = Client()
            known = asked.get("ledger")
            ledger = Ledger(client, known) if known else Ledger.open(client, asked["terms"])
            strategy = FedauditStrategy(
                inner, ledger, event=asked["event"], ask_subjects=asked["asks"], group_counts=True
            )
        printed["ledger"] = strategy.ledger.id
        try:
            arrays = ArrayRecord([np.zeros(3)])
            result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=ROUNDS)
            printed["metrics"] = {
                round_: sorted(one) for round_, one in result.evaluate_metrics_clientapp.items()
            }
        except RoundRefused as refused:
            printed["error"] = str(refused)

    weights = asked.get("weights", [1] * CLIENTS)
    run_simulation(
        app,
        client_app(folder, weights, asked.get("failing", [])),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}},
    )
    return printed


if __name__ == "__main__":
    print(json.dumps(trained(json.loads(sys.argv[1]))))
