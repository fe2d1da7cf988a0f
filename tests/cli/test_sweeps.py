"""`fedaudit sweep` and the group `sweeps`, against a real service."""

import json

import pytest
import yaml

from tests.cli.conftest import assert_refused
from tests.house import ROOT

EXAMPLE = ROOT / "examples/sweep.yaml"
NU = "privacy.noise_multiplier"


@pytest.fixture
def small_sweep(small_spec):
    """A sweep of two cells of a second."""
    return {"name": "small sweep", "base": {**small_spec, "gates": []}, "grid": {NU: [1, 3]}}


@pytest.fixture
def listed(json_of):
    return lambda: json_of("api", "GET", "sweeps")["items"]


def test_the_example_ends_in_a_table(said, json_of, listed, service):
    asked, example = yaml.safe_load(EXAMPLE.read_text()), json_of("sweep", EXAMPLE, "--json")
    cells = asked["repeats"] * len(asked["grid"][NU]) * len(asked["grid"]["training.hypotheses"])
    assert example["progress"]["statuses"] == {"succeeded": cells}
    assert [row["succeeded"] for row in example["table"]["rows"]] == [asked["repeats"]] * 4
    id_ = example["id"]
    text = " ".join(said("sweeps", "watch", id_).split())
    assert "What the sweep costs together" in text
    assert "simulated noise" in text
    assert "the figures of a row that was chosen for them look better than they are" in text
    assert text.endswith(f"page: {service.url}/sweeps/{id_}")
    assert id_ in {one["id"] for one in listed()}
    assert json_of("api", "GET", f"sweeps/{id_}/table") == example["table"]
    narrow = said("sweeps", "table", id_, COLUMNS="70")
    assert max(map(len, narrow.splitlines())) <= 70
    for name in ("epsilon_max", "validation_loss", "[group]"):
        assert name in narrow


def test_a_dry_run_shows_cells_and_costs_and_starts_nothing(said, json_of, listed, small_sweep):
    before, dry = listed(), ("sweep", "-", "--dry-run")
    patience = {"patience": None, "validate_every": 2}
    varied = {**small_sweep["grid"], "training.stopping": [{"patience": 5}, patience]}
    text = said(*dry, stdin=yaml.safe_dump({**small_sweep, "grid": varied}), COLUMNS="80")
    lines = [line.split() for line in text.splitlines()]
    assert any({"noise_multiplier", "validate_every"} & {*line} for line in lines)
    assert ["4", "3", "null", "2"] in lines
    assert max(map(len, text.splitlines())) <= 80
    many = {**small_sweep, "grid": {NU: [1, 3], "seed": list(range(12))}}
    text = said(*dry, stdin=yaml.safe_dump(many))
    assert "leakage: at most" in text
    assert f"{NU}: 1, 3\n  seed: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11" in text
    assert text.index("What the sweep costs") < text.index("seed: 0")
    cells = json_of(*dry, "--json", stdin=json.dumps(small_sweep))
    assert (cells["cells"], cells["values"]) == (2, [{NU: 1}, {NU: 3}])
    assert listed() == before


def test_cells_that_did_not_succeed_are_named_and_tried_again(call, said, json_of, small_sweep):
    small_sweep["grid"] = {"training.rounds": [100_000, 100_001]}
    id_ = json_of("sweep", "-", "--no-wait", "--json", stdin=json.dumps(small_sweep))["id"]
    cancel = ("api", "POST", f"sweeps/{id_}/cancel")
    said(*cancel)
    hint = f"fedaudit api POST sweeps/{id_}/retry"
    assert_refused(call("sweeps", "watch", id_), "of 2 cells 2 cancelled", hint, code=1)
    assert json_of(*hint.split()[1:])["progress"]["cells"] == 2
    said(*cancel)


def test_faults_are_reported_before_anything_is_sent(command, small_sweep):
    nowhere = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "k"}
    small_sweep["grid"] = {NU: [1, -1]}
    wrong = command("sweep", "-", stdin=json.dumps(small_sweep), env=nowhere)
    assert_refused(wrong, f"/grid/{NU}: with -1: must be greater than 0")
    small_sweep["grid"] = {NU: [1]}
    assert command("sweep", "-", stdin=json.dumps(small_sweep), env=nowhere).returncode == 4
