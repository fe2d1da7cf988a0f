"""Runs of networks that are put together from named layers, to their reports."""

from typing import Any

import pytest

from fedaudit.cli.run import run_locally
from fedaudit.reports.document.material import ModelFile
from fedaudit.spec.parse import parse_spec
from tests.training.specs import groups_spec
from tests.workers.epsilon_specs import by_record

MODEL = {
    "kind": "layers",
    "layers": [{"kind": "dense", "units": 4}, {"kind": "tanh"}, {"kind": "dense", "units": 3}],
}


def ran(spec: dict[str, Any]) -> Any:
    return run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)


def test_each_layer_has_noise_of_its_own_and_a_line_of_the_report() -> None:
    privacy = {
        "mechanism": "laplace-l2",
        "noise_multiplier": 2.0,
        "radius": 1.0,
        "clip": 0.5,
        "per_layer": True,
        "noise": "release",
    }
    done = ran(groups_spec(model=MODEL, privacy=privacy, training__rounds=3))
    parts = done.report["privacy"]["leakage_by_component"]
    # Two features to 4 units, these to 3, and these to the output, each with a bias.
    assert [one["parameters"] for one in parts] == [12, 15, 4]
    assert sum(one["leakage_per_release"] for one in parts) == pytest.approx(31 / 2)
    assert isinstance(done.model, ModelFile)
    names = {one.name: one.shape for one in done.model.section.tensors}
    assert names["hypotheses.1.0.weight"] == [4, 2]
    assert names["hypotheses.1.2.weight"] == [3, 4]
    assert names["hypotheses.1.3.bias"] == [1]


def test_records_have_budgets_of_their_own_whatever_the_layers() -> None:
    done = ran({**by_record(noise="release"), "model": MODEL})
    assert done.report["data"]["parameters"] == 31
    assert done.report["guarantee"]["label"] == "formal"
    assert isinstance(done.model, ModelFile)
