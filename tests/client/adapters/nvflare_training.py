"""A training in NVFlare's simulator: `python -m tests.client.adapters.nvflare_training '{...}'`.

Prints one line of JSON behind everything that NVFlare prints.
"""

import json
import sys
from pathlib import Path
from typing import Any

from nvflare.apis.dxo import DataKind
from nvflare.app_common.aggregators.intime_accumulate_model_aggregator import (
    InTimeAccumulateWeightedAggregator,
)
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.app_common.shareablegenerators.full_model_shareable_generator import (
    FullModelShareableGenerator,
)
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner
from nvflare.recipe.sim_env import SimEnv

from fedaudit_client import Client
from fedaudit_client.adapters.nvflare import keep_ledger
from fedaudit_client.adapters.plain import Ledger

ROUNDS = 3
SITES = [f"silo-{place}" for place in range(3)]
# Each site leaves a file for each round in which it trained.
SITE = """
import sys
from pathlib import Path

import nvflare.client as flare

folder, failing = Path(sys.argv[1]), sys.argv[2].split(",")
flare.init()
site = flare.get_site_name()
while flare.is_running():
    model = flare.receive()
    if model is None:
        break
    (folder / f"{model.current_round}-{site}").touch()
    if site in failing:
        raise RuntimeError("this site is down")
    params = {name: value + 1.0 for name, value in model.params.items()}
    counts = {"fedaudit/sex/f": [20 + int(site[-1]), 5, 40, 10], "fedaudit/sex/m": [50, 5, 30, 10]}
    metrics = {"accuracy": 0.5, **counts}
    flare.send(flare.FLModel(params=params, metrics=metrics))
"""


def by_recipe(script: Path, arguments: str, least: int) -> NumpyFedAvgRecipe:
    """FedAvg, as NVFlare's recipe makes its job."""
    return NumpyFedAvgRecipe(
        name="by-recipe",
        model=[0.0, 0.0],
        min_clients=least,
        num_rounds=ROUNDS,
        train_script=str(script),
        train_args=arguments,
    )


def scattered(script: Path, arguments: str, least: int) -> FedJob:
    """The older workflow, which leaves it to its communicator whom a task goes to."""
    job = FedJob(name="scattered", min_clients=least)
    job.to_server(NPModelPersistor(model=[0.0, 0.0]), id="persistor")
    job.to_server(FullModelShareableGenerator(), id="generator")
    aggregator = InTimeAccumulateWeightedAggregator(expected_data_kind=DataKind.WEIGHTS)
    job.to_server(aggregator, id="aggregator")
    controller = ScatterAndGather(
        min_clients=least,
        num_rounds=ROUNDS,
        wait_time_after_min_received=1,
        persistor_id="persistor",
        shareable_generator_id="generator",
        aggregator_id="aggregator",
    )
    job.to_server(controller)
    runner = ScriptRunner(script=str(script), script_args=arguments, framework=FrameworkType.NUMPY)
    job.to_clients(runner)
    return job


def trained(asked: dict[str, Any]) -> dict[str, Any]:
    """What came of a training."""
    work = Path(asked["work"])
    script = work / "site.py"
    script.write_text(SITE)
    arguments = f"{asked['folder']} {','.join(asked.get('failing', [])) or 'none'}"
    build = scattered if asked.get("scattered") else by_recipe
    job = build(script, arguments, asked.get("least", 3))
    if asked.get("snippet"):
        names: dict[str, Any] = {"recipe": job, "terms": asked["terms"], "event": asked["event"]}
        exec(asked["snippet"], names)
        ledger = names["ledger"]
    else:
        client = Client()
        known = asked.get("ledger")
        ledger = Ledger(client, known) if known else Ledger.open(client, asked["terms"])
        keep_ledger(job, ledger, event=asked["event"], **asked.get("more", {}))
    ended: dict[str, Any] = {"ledger": ledger.id, "error": None}
    place = str(work / "simulated")
    if isinstance(job, FedJob):
        ended["error"] = job.simulator_run(place, clients=SITES) or None
    else:
        try:
            job.execute(SimEnv(clients=SITES, workspace_root=place))
        except RuntimeError as error:
            ended["error"] = str(error)
    [log] = (work / "simulated").rglob("server/log.txt")
    [configuration] = (work / "simulated").rglob("app_server/config/config_fed_server.json")
    return {**ended, "log": log.read_text(), "configuration": configuration.read_text()}


if __name__ == "__main__":
    print(json.dumps(trained(json.loads(sys.argv[1]))))
