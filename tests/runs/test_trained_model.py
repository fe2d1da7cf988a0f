"""A model that leaves predicts as its report says; a model that may not is in no file."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch

from fedaudit.cli.local_run import LocalRun, run_locally
from fedaudit.federations.load import load_federation
from fedaudit.networks.parameter_files import METADATA_KEY
from fedaudit.reports.document.material import ModelFile
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.record_sources import validation_rows

DOCS = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources with three classes in the plane, of 60 clients."""
    folder = tmp_path_factory.mktemp("sources")
    draws = np.random.default_rng(1)
    lines = ["who,x,y,kind"]
    for row in range(900):
        kind = int(draws.integers(3))
        x, y = draws.normal(size=2) + [(2.0, 0.0), (-2.0, 0.0), (0.0, 2.0)][kind]
        lines.append(f"c{row % 60},{x:.4f},{y:.4f},{'abc'[kind]}")
    (folder / "plane.csv").write_text("\n".join([*lines, ""]))
    return folder


def a_spec(**changes: Any) -> ExperimentSpec:
    document: dict[str, Any] = {
        "name": "plane",
        "seed": 2,
        "federation": {
            "source": "table",
            "path": "plane.csv",
            "client_key": "who",
            "target": "kind",
            "validation_fraction": 0.3,
        },
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {
            "loss": "cross-entropy",
            "rounds": 12,
            "cohort": {"sampling": "poisson", "rate": 0.8},
            "local": {"epochs": 4, "step_size": 0.5},
            "stopping": {"patience": None},
        },
        "privacy": {
            "mechanism": "gaussian-central",
            "noise_multiplier": 1.0,
            "clip": 1.0,
            "delta": 1e-3,
            "noise": "release",
        },
    }
    return parse_spec({**document, **changes})


def ran(spec: ExperimentSpec, folder: Path) -> LocalRun:
    return run_locally(spec, sources_dir=folder, device="cpu", progress=lambda _: None)


@pytest.fixture(scope="module")
def done(folder: Path) -> LocalRun:
    """A run whose model may leave."""
    return ran(a_spec(), folder)


def test_the_lines_of_the_documentation_predict_as_the_report_says(
    done: LocalRun, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(done.model, ModelFile)
    (tmp_path / "model.safetensors").write_bytes(done.model.data)
    monkeypatch.chdir(tmp_path)
    spec = parse_spec(done.report["spec"])
    federation = load_federation(spec, sources_dir=folder)
    held_out = validation_rows(spec, federation)
    features = federation.side_by_side[held_out.place]
    target = federation.target[held_out.place]

    (snippet,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    found: dict[str, Any] = {"features": features}
    exec(snippet, found)

    utility = done.report["utility"]
    assert 0.6 < utility["accuracy"] < 1
    assert float((found["predicted"].numpy() == target).mean()) == utility["accuracy"]
    losses = torch.nn.functional.cross_entropy(
        found["outputs"].double(), torch.from_numpy(target).long(), reduction="none"
    )
    owner = held_out.client_of
    of_clients = [losses.numpy()[owner == client].mean() for client in np.unique(owner)]
    assert np.mean(of_clients) == pytest.approx(utility["validation_loss"], rel=1e-5)


def test_file_and_report_state_each_other(done: LocalRun, tmp_path: Path) -> None:
    assert isinstance(done.model, ModelFile)
    section, report = done.model.section, done.report
    assert report["model"] == section.model_dump()
    assert report["model_reason"] is None
    path = tmp_path / "model.safetensors"
    path.write_bytes(done.model.data)
    with safetensors.safe_open(path, framework="numpy") as file:
        card = json.loads(file.metadata()[METADATA_KEY])
    stored = safetensors.numpy.load(done.model.data)
    assert {one["name"]: one["shape"] for one in card["tensors"]} == {
        name: list(tensor.shape) for name, tensor in stored.items()
    }
    assert card["experiment"]["id"] == report["experiment"]["id"]
    assert card["experiment"]["spec_hash"] == spec_hash(parse_spec(report["spec"]))
    assert card["guarantee"]["statement"] == report["guarantee"]["statement"]
    assert card["guarantee"]["label"] == "formal"
    assert card["round"] == report["utility"]["best_round"]
    assert any("held out for validation" in one for one in card["limits"])


def test_with_noised_counts_the_last_round_is_kept_whatever_its_loss(folder: Path) -> None:
    fairness = {
        "sensitive": ["x"],
        "edges": {"x": [0.0]},
        "favourable": {"op": "in", "value": ["a"]},
        "noise": {
            "mechanism": "discrete-laplace",
            "epsilon": 1.0,
            "unit": "client",
            "max_rows_per_client": 15,
        },
    }
    spec = a_spec(fairness=fairness)
    done = ran(spec, folder)
    assert isinstance(done.model, ModelFile)
    assert done.model.section.round == spec.training.rounds


def test_a_model_that_may_not_leave_is_in_no_file(folder: Path) -> None:
    privacy = a_spec().privacy.model_dump(mode="json")
    done = ran(a_spec(privacy={**privacy, "noise": "simulation"}), folder)
    assert isinstance(done.model, str)
    assert "was simulated" in done.model
    assert done.report["model"] is None
    assert done.report["model_reason"] == done.model
