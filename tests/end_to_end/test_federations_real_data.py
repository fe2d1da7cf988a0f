"""Every file of the real data, uploaded and trained on over HTTP; ends with a table of the gaps."""

import copy
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.service import SCRIPT, Service, clean_environment, running

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 900
_TITLES = ("file", "clients, rows", "k", "rounds", "loss, accuracy", "equalized_odds_difference")

Json = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """A file by its example, and what of the example is changed."""

    example: str
    attributes: tuple[str, ...]
    rounds: int | None = None

    def spec(self, *, hypotheses: int) -> Json:
        """The example with so many hypotheses, without gates: they are not what is looked at."""
        spec: Json = yaml.safe_load((EXAMPLES / f"{self.example}.yaml").read_text("utf-8"))
        spec = copy.deepcopy({**spec, "gates": []})
        if spec["privacy"]["mechanism"] != "record-personalised":  # which takes one hypothesis
            spec["training"]["hypotheses"] = hypotheses
        if spec["privacy"]["mechanism"] == "gaussian-central":
            # Its server has no single uploads to cluster.
            spec["training"]["clustering"] = {"method": "reported"}
        if self.rounds is not None:
            spec["training"]["rounds"] = self.rounds
        if self.attributes:
            spec["fairness"]["sensitive"] = list(self.attributes)
        return spec


DATA_SETS = (
    DataSet("heart-disease", ("sex", "age")),
    DataSet("table-income", ("SEX", "RAC1P")),
    DataSet("adult-occupation", ("sex", "race")),
    DataSet("hospital", ("state",)),
    DataSet("hospital-providers", ("state",)),
    # The convolutional network takes seconds a round.
    DataSet("unipen-k2", ("rotated", "site"), rounds=5),
    # Digits are of nobody: the file has no attribute, and the report has no gaps.
    DataSet("mnist", ()),
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service whose sources are the real data."""
    with running(
        "--sources-dir", data_dir, data_dir=tmp_path_factory.mktemp("service") / "data"
    ) as service:
        yield service


@pytest.fixture(scope="module")
def lines(request: pytest.FixtureRequest) -> Iterator[list[tuple[str, ...]]]:
    """Rows of the table, which is printed at the end."""
    rows: list[tuple[str, ...]] = []
    yield rows
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        for row in (_TITLES, ("---",) * len(_TITLES), *rows):
            print(f"\n| {' | '.join(row)} |", end="")
        print()


def fedaudit(service: Service, *arguments: object, stdin: str = "") -> Json:
    """What a command prints as JSON."""
    finished = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        input=stdin,
        env=clean_environment(**service.environment),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    printed: Json = json.loads(finished.stdout)
    return printed


@pytest.mark.parametrize("data_set", DATA_SETS, ids=lambda data_set: data_set.example)
def test_a_real_file_from_upload_to_gaps(service, data_dir, lines, data_set):
    spec = data_set.spec(hypotheses=1)
    path = spec["federation"]["path"]
    federation = fedaudit(
        service, "federations", "add", data_dir / path, "--spec", "-", "--wait", "--json",
        stdin=json.dumps(spec),
    )  # fmt: skip
    assert federation["status"] == "ready"
    assert set(federation["profile"]["attributes"]) == set(data_set.attributes)

    # Once as the upload and once as the file below the sources folder: they are the same data.
    for hypotheses, place in ((1, {"id": federation["id"]}), (2, {"path": path})):
        spec = data_set.spec(hypotheses=hypotheses)
        named = {name: value for name, value in spec["federation"].items() if name != "path"}
        spec["federation"] = {**named, **place}
        experiment = fedaudit(service, "submit", "-", "--wait", "--json", stdin=json.dumps(spec))
        assert experiment["status"] == "succeeded"
        assert experiment["federation_id"] == federation["id"]
        report = fedaudit(service, "report", experiment["id"])
        check_fairness(report, data_set.attributes)
        lines.append(row_of(os.path.basename(path), report, hypotheses))


def check_fairness(report: Json, attributes: tuple[str, ...]) -> None:
    """Every gap has a value or a reason (or both: groups were left out), and some have a value."""
    assert [fairness["attribute"] for fairness in report["fairness"]] == list(attributes)
    found = []
    for fairness in report["fairness"]:
        for metric in fairness["metrics"].values():
            assert metric["value"] is not None or metric["reason"]
            found.append(metric["value"])
    assert not attributes or any(value is not None for value in found)


def row_of(file_name: str, report: Json, hypotheses: int) -> tuple[str, ...]:
    """A row of the table."""
    data, utility = report["data"], report["utility"]
    accuracy = "" if utility["accuracy"] is None else f", {utility['accuracy']:.3f}"
    return (
        file_name,
        f"{data['clients']:,}, {data['rows']:,}",
        str(hypotheses),
        str(utility["rounds"]),
        f"{utility['validation_loss']:.3f}{accuracy}",
        "; ".join(gap(fairness) for fairness in report["fairness"]) or "no attribute in the file",
    )


def gap(fairness: Json) -> str:
    """An attribute, its gap or why there is none, and how many of its groups are shown."""
    metric = fairness["metrics"]["equalized_odds_difference"]
    value = metric["reason"] if metric["value"] is None else f"{metric['value']:.3f}"
    shown = sum(not group["suppressed"] for group in fairness["groups"])
    return f"{fairness['attribute']} {value} ({shown} of {len(fairness['groups'])} groups)"
