"""Reports in a real MLflow tracking server, with SQLite behind it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mlflow.server", reason="needs the extra `integrations`: MLflow's server")

import mlflow

from benchmarks.servers import free_port
from fedaudit.publishing.mlflow_runs import Registration, publish_to_mlflow
from fedaudit.publishing.publication import MODEL_FILE, from_service
from tests.api.ledgers.trainings import CENTRAL, declared
from tests.cli.service import status
from tests.publishing.integrations.conftest import called
from tests.waiting import wait_until

pytestmark = pytest.mark.integrations


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory):
    """The address of a running `mlflow server`."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    options = {
        "--host": "127.0.0.1",
        "--port": port,
        "--workers": 1,
        "--backend-store-uri": f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination": folder / "artifacts",
    }
    arguments = [str(part) for pair in options.items() for part in pair]
    environment = {
        **os.environ,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    log = folder / "server.log"
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *arguments],
            env=environment,
            cwd=folder,
            stdout=said,
            stderr=said,
        ) as server,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            healthy = lambda: server.poll() is not None or status(f"{address}/health") == 200  # noqa: E731
            wait_until(healthy, "MLflow's server", seconds=300, pause=0.3)
            assert server.poll() is None, log.read_text()
            yield address
        finally:
            server.terminate()
            server.wait(timeout=60)


@pytest.fixture
def server(tracking_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return mlflow.MlflowClient(tracking_uri)


@pytest.fixture(scope="module")
def printed(there, tracking_uri, tmp_path_factory):
    """What the command says of a run that it made."""
    options = ("--tracking-uri", tracking_uri)
    return called(there, tmp_path_factory.mktemp("mlflow"), "mlflow", there.simulated, *options)


def test_a_run_with_figures_spec_report_and_readings(there, printed, server):
    assert printed["created"]
    run = server.get_run(printed["run_id"])
    document = there.client.report(there.simulated)
    tags, metrics = run.data.tags, run.data.metrics
    assert (run.info.run_name, run.info.status) == ("small", "FINISHED")
    assert metrics["utility/validation_loss"] == document["utility"]["validation_loss"]
    losses = server.get_metric_history(printed["run_id"], "rounds/utility/validation_loss")
    assert [(one.step, one.value) for one in losses] == [
        (line["round"], line["validation_loss"])
        for line in there.client.rows(there.simulated, "rounds")
    ]
    # The noise was simulated: whoever sorts runs by what is proven does not find it.
    assert metrics["privacy_not_in_force/leakage_max"] == document["privacy"]["leakage_max"]
    assert not any(name.startswith(("privacy/", "rounds/privacy/")) for name in metrics)
    assert tags["fedaudit.privacy_cost"].startswith("heuristic, not in force: ")
    assert tags["fedaudit.gate.2"].startswith("insufficient_evidence: leakage_max <= 40: ")
    assert min(name for name in tags if name.startswith("fedaudit.")) == "fedaudit.answer"
    assert tags["fedaudit.answer"].startswith("do-not-release: ")
    page = f"{there.service.url}/experiments/{there.simulated}/report"
    assert tags["mlflow.note.content"].startswith(f"[The audit report]({page})\n\n")
    home = server.get_experiment(run.info.experiment_id)
    assert home.tags["mlflow.experimentKind"] == "custom_model_development"
    assert run.data.params["privacy.noise_multiplier"] == "3.0"
    # A confidential ledger is not there unless it was asked for.
    names = {one.path for one in server.list_artifacts(printed["run_id"])}
    assert names == {"readings", "report.html", "report.json"}
    assert tags["fedaudit.model"] == printed["model_reason"]


def test_publishing_again_writes_nothing_twice(there, publish, printed, server, tracking_uri):
    again = publish("mlflow", there.simulated, "--tracking-uri", tracking_uri, "--with-ledger")
    assert (again["run_id"], again["created"]) == (printed["run_id"], False)
    assert (again["metrics_written"], again["files_written"]) == (0, 1)
    assert len(server.get_metric_history(printed["run_id"], "utility/validation_loss")) == 1
    names = {one.path for one in server.list_artifacts(printed["run_id"])}
    assert "ledger.ndjson" in names


def test_a_ledger_is_a_run_that_grows_with_it(there, publish, server, tracking_uri, tmp_path):
    ledger = there.client.create_ledger(CENTRAL)["id"]
    fetched = {"artifact_path": "report.json", "tracking_uri": tracking_uri}
    for number in (1, 2):
        there.client.declare_rounds(ledger, [declared(number, ["c1"])])
        printed = publish("mlflow", ledger, "--tracking-uri", tracking_uri)
        run = server.get_run(printed["run_id"])
        path = mlflow.artifacts.download_artifacts(run_id=printed["run_id"], **fetched)
        assert json.loads(Path(path).read_text())["ledger"]["last_round"] == number
    assert (printed["created"], run.data.tags["fedaudit.kind"]) == (False, "declared-ledger")
    spent = server.get_metric_history(printed["run_id"], "privacy_declared/epsilon_max")
    assert [one.step for one in spent] == [1, 2]
    assert spent[0].value < spent[1].value
    note = f"[The audit report]({there.service.url}/ledgers/{ledger}/report)\n\nAs declared"
    assert run.data.tags["mlflow.note.content"].startswith(note)


def test_what_an_interruption_left_out_is_added(there, server, tracking_uri):
    with from_service(there.client, there.simulated) as found:
        rest = found.by_round[5:]
        del found.by_round[5:]
        files, found.files = found.files, found.files[:1]
        half = publish_to_mlflow(found, tracking_uri=tracking_uri, experiment="half")
        found.by_round += rest
        found.files = files
        whole = publish_to_mlflow(found, tracking_uri=tracking_uri, experiment="half")
        assert whole.run_id == half.run_id
        assert (whole.metrics_written, whole.files_written) == (len(rest), len(files) - 1)


def test_an_alias_is_only_of_a_version_whose_gates_passed(there, server, tracking_uri, tmp_path):
    """A pipeline deploys by the alias: what failed, or was found to fail later, has it no more."""

    def published(outcome):
        with from_service(there.client, there.released) as found:
            found.document = {**found.document, "gate_outcome": outcome}
            registration = Registration("wards", "champion")
            options = {"tracking_uri": tracking_uri, "experiment": "registry"}
            return publish_to_mlflow(found, **options, registration=registration).version

    assert published("fail") == "1"
    assert server.get_registered_model("wards").aliases == {}
    assert published("pass") == "1", "the same run is the same version"
    version = server.get_model_version_by_alias("wards", "champion")
    assert (str(version.version), version.tags["fedaudit.gate_outcome"]) == ("1", "pass")
    sent = tmp_path / "sent"
    with sent.open("wb") as file:
        there.client.download_model(there.released, file)
    address = server.get_model_version_download_uri("wards", "1")
    folder = mlflow.artifacts.download_artifacts(address, tracking_uri=tracking_uri)
    assert (Path(folder) / MODEL_FILE).read_bytes() == sent.read_bytes()
    assert published("insufficient_evidence") == "1"
    assert server.get_registered_model("wards").aliases == {}


@pytest.mark.parametrize(
    ("which", "why"), [("simulated", "no model was published"), ("released", "gates did not pass")]
)
def test_the_command_fails_where_no_alias_could_be_set(there, publish, tracking_uri, which, why):
    options = ("--tracking-uri", tracking_uri, "--registered-model", "m", "--alias", "champion")
    with pytest.raises(AssertionError, match=f"champion was not set: {why}"):
        publish("mlflow", getattr(there, which), *options)


def test_a_server_that_is_not_there_is_reported(there, publish):
    address = "http://127.0.0.1:9"
    with pytest.raises(AssertionError, match=f"MLflow at {address}: "):
        publish("mlflow", there.simulated, "--tracking-uri", address)
