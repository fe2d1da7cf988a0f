"""A model that leaves predicts as its report says; a model that may not is in no file."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from pydantic import TypeAdapter

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.load import load_federation
from fedaudit.networks.parameter_files import METADATA_KEY
from fedaudit.reports.document.material import ModelFile
from fedaudit.runs.model_layout import declared_layout, model_layout
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.record_sources import validation_rows

DOCS = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources with three classes in the plane, of 60 clients."""
    folder = tmp_path_factory.mktemp("sources")
    draws = np.random.default_rng(1)
    lines = ["who,x,y,kind,group,sex,grade,cost"]
    for row in range(900):
        kind = int(draws.integers(3))
        x, y = draws.normal(size=2) + [(2.0, 0.0), (-2.0, 0.0), (0.0, 2.0)][kind]
        group = "Zusage" if x + 2 * (row % 3 == 0) > 0 else "Absage"
        more = f"{group},{['f', 'm', ''][row % 3]},{['low', 'high'][row // 3 % 2]},{10 * x + y:.3f}"
        lines.append(f"c{row % 60},{x:.4f},{y:.4f},{'abc'[kind]},{more}")
    (folder / "plane.csv").write_text("\n".join([*lines, ""]))
    return folder


ENCODED: dict[str, Any] = {
    "features": [
        {
            "name": "sex",
            "kind": "categorical",
            "categories": ["m", "f", "x"],
            "missing": "constant",
            "fill": "x",
        },
        "y",
        {
            "name": "grade",
            "kind": "categorical",
            "categories": ["low", "high"],
            "encoding": "ordinal",
        },
        "x",
    ],
    "scale": {"x": {"low": -1, "high": 3}, "grade": 2, "*": 4},
}


def a_spec(**changes: Any) -> ExperimentSpec:
    document: dict[str, Any] = {
        "name": "plane",
        "seed": 2,
        "federation": {
            "source": "table",
            "path": "plane.csv",
            "client_key": "who",
            "target": "kind",
            "features": ["x", "y"],
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


TARGETS: dict[str, dict[str, Any]] = {
    "three classes": {},
    "two classes": {"target": "group"},
    "two, the first by name is positive": {"target": "group", "positive": "Absage"},
    "a number": {"target": "cost", "scale": {"cost": 10.0, "x": {"low": -1, "high": 3}}},
}


@pytest.mark.parametrize("target", TARGETS)
def test_the_lines_of_the_documentation_predict_as_the_report_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """From the cells as they are in the file to classes by their names."""
    source = {**a_spec().federation.model_dump(mode="json"), **ENCODED, **TARGETS[target]}
    by_name = target != "a number"
    training = a_spec().training.model_dump(mode="json")
    loss = {"loss": "cross-entropy" if by_name else "rmse", "rounds": 20}
    done = ran(a_spec(federation=source, training={**training, **loss}), folder)
    assert isinstance(done.model, ModelFile)
    (tmp_path / "model.safetensors").write_bytes(done.model.data)
    (tmp_path / "model-layout.json").write_text(json.dumps(done.model.layout))
    monkeypatch.chdir(tmp_path)
    spec = parse_spec(done.report["spec"])
    federation = load_federation(spec, sources_dir=folder)
    held_out = validation_rows(spec, federation)
    with (folder / "plane.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert federation.row_numbers is not None
    records = [lines[row - 1] for row in federation.row_numbers[held_out.place]]

    (snippet,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    found: dict[str, Any] = {"records": records}
    exec(snippet, found)

    np.testing.assert_array_equal(
        np.array(found["rows"], np.float32), federation.side_by_side[held_out.place]
    )
    utility, column = done.report["utility"], source["target"]
    owner = held_out.client_of
    if by_name:
        right = [
            one == record[column] for one, record in zip(found["predicted"], records, strict=True)
        ]
        assert 0.6 < utility["accuracy"] < 1
        assert np.mean(right) == utility["accuracy"]
    else:
        wrong = np.array(found["predicted"]) - [float(record[column]) for record in records]
        of_clients = [np.sqrt(np.mean((wrong[owner == one] / 10) ** 2)) for one in np.unique(owner)]
        assert np.mean(of_clients) == pytest.approx(utility["validation_loss"], rel=1e-5)


@pytest.mark.parametrize("named", [True, False])
def test_the_file_has_no_name_that_only_the_data_have(folder: Path, named: bool) -> None:
    """Of features and classes those that the spec declares; the rest is null with its reason."""
    source = {**a_spec().federation.model_dump(mode="json"), "target": "group"}
    everything = {"features": "all", "drop": ["sex", "grade", "kind"]}
    source |= {**ENCODED, "positive": "Absage"} if named else everything
    done = ran(a_spec(federation=source), folder)
    assert isinstance(done.model, ModelFile)
    with safetensors.safe_open(_written(done.model, folder), framework="numpy") as file:
        layout = json.loads(file.metadata()[METADATA_KEY])["layout"]
    whole = done.model.layout
    classes = ["Zusage", "Absage"] if named else ["Absage", "Zusage"]
    assert (whole["classes"], whole["reasons"]) == (classes, {})
    assert (layout["classes"], layout["positive"]) == (None, "Absage" if named else None)
    assert "federations:read" in layout["reasons"].pop("classes")
    if named:
        assert (layout["features"], layout["reasons"]) == (whole["features"], {})
        assert b"Zusage" not in done.model.data
        return
    assert [one["column"] for one in whole["features"]] == ["x", "y", "cost"]
    assert (layout["features"], list(layout["reasons"])) == (None, ["features"])
    assert [name for name in (b"Absage", b"Zusage", b"cost") if name in done.model.data] == []


def _written(model: ModelFile, folder: Path) -> Path:
    path = folder / "released.safetensors"
    path.write_bytes(model.data)
    return path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"source": "synthetic-linear"},
            {"features": [{"column": "x1"}, {"column": "x2"}], "target_scale": 1.0},
        ),
        (
            {"source": "hospital-charges", "path": "x.csv"},
            {
                "features": [
                    {"column": "service_index", "categories": ["194", "690", "292", "392"]},
                    {"column": "longitude", "scale": {"divisor": 100.0}},
                    {"column": "latitude", "scale": {"divisor": 10.0}},
                ],
                "target_scale": 10_000.0,
            },
        ),
        ({"source": "femnist", "path": "x.json"}, {"classes": ["a", "b"], "features": None}),
        ({"source": "images", "path": "x.npz", "classes": 2}, {"classes": ["a", "b"]}),
        ({"source": "images", "path": "x.npz"}, {"classes": None, "features": None}),
    ],
)
def test_other_sources_declare_their_layouts(
    source: dict[str, Any], expected: dict[str, Any]
) -> None:
    parsed = TypeAdapter[FederationSpec](FederationSpec).validate_python(source)
    names = tuple(one["column"] for one in expected.get("features") or [])
    images = source["source"] in ("images", "femnist")
    rows = ClientRows(np.zeros((2, 784), np.uint8), 255.0, (28, 28, 1))
    federation = Federation(
        features=rows if images else np.zeros((2, len(names)), np.float32),
        target=np.zeros(2, np.float32),
        raw_target=np.zeros(2),
        first=np.array([0, 1, 2]),
        client_names=("a", "b"),
        feature_names=names,
        target_name="y",
        target_scale=expected.get("target_scale", 1.0),
        classes=("a", "b") if images else (),
        attributes=(),
        fingerprint="f",
        truth=None,
        notes=(),
    )
    layout = declared_layout(model_layout(parsed, federation), parsed)
    assert {name: layout[name] for name in expected} == expected
    image = {"height_width_channels": [28, 28, 1], "divisor": 255.0} if images else None
    assert layout["image"] == image


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
