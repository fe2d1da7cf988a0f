"""`fedaudit sweep` and the group `sweeps`, against a real service."""

import json
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples/sweep.yaml"
NU = "privacy.noise_multiplier"


@pytest.fixture
def example(call):
    """The end of the example as JSON; every test may ask for it, and it runs once."""
    done = call("sweep", EXAMPLE, "--json", "--idempotency-key", "example")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def small_sweep(small_spec):
    """A sweep of two cells of a second."""
    return {"name": "small sweep", "base": {**small_spec, "gates": []}, "grid": {NU: [1, 3]}}


def test_the_example_ends_in_a_table(call, example, service):
    asked = yaml.safe_load(EXAMPLE.read_text())
    cells = asked["repeats"] * len(asked["grid"][NU]) * len(asked["grid"]["training.hypotheses"])
    assert example["progress"]["statuses"] == {"succeeded": cells}
    assert [row["succeeded"] for row in example["table"]["rows"]] == [asked["repeats"]] * 4
    id_ = example["id"]
    shown = call("sweeps", "watch", id_)
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "What the sweep costs together" in text
    assert "simulated noise" in text
    assert "the figures of a row that was chosen for them look better than they are" in text
    assert text.endswith(f"page: {service.url}/sweeps/{id_}")
    assert id_ in {one["id"] for one in _listed(call)}
    assert json.loads(call("api", "GET", f"sweeps/{id_}/table").stdout) == example["table"]
    narrow = call("sweeps", "table", id_, COLUMNS="70").stdout
    assert max(map(len, narrow.splitlines())) <= 70
    for name in ("epsilon_max", "validation_loss", "[group]"):
        assert name in narrow


def test_a_dry_run_shows_cells_and_costs_and_starts_nothing(call, small_sweep):
    before = _listed(call)
    patience = {"patience": None, "validate_every": 2}
    varied = {**small_sweep["grid"], "training.stopping": [{"patience": 5}, patience]}
    said = call(
        "sweep",
        "-",
        "--dry-run",
        stdin=yaml.safe_dump({**small_sweep, "grid": varied}),
        COLUMNS="80",
    )
    assert said.returncode == 0, said.stderr
    lines = [line.split() for line in said.stdout.splitlines()]
    assert any({"noise_multiplier", "validate_every"} & {*line} for line in lines)
    assert ["4", "3", "null", "2"] in lines
    assert max(map(len, said.stdout.splitlines())) <= 80
    said = call("sweep", "-", "--dry-run", stdin=yaml.safe_dump(small_sweep))
    assert "leakage: at most" in said.stdout
    told = json.loads(
        call("sweep", "-", "--dry-run", "--json", stdin=json.dumps(small_sweep)).stdout
    )
    assert (told["cells"], told["values"]) == (2, [{NU: 1}, {NU: 3}])
    many = {**small_sweep, "grid": {NU: [1, 3], "seed": list(range(12))}}
    told = call("sweep", "-", "--dry-run", stdin=yaml.safe_dump(many)).stdout
    assert f"{NU}: 1, 3\n  seed: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11" in told
    assert told.index("What the sweep costs") < told.index("seed: 0")
    assert _listed(call) == before


def _listed(call):
    return json.loads(call("api", "GET", "sweeps").stdout)["items"]


def test_cells_that_did_not_succeed_are_named_and_tried_again(call, small_sweep):
    small_sweep["grid"] = {"training.rounds": [100_000, 100_001]}
    started = call("sweep", "-", "--no-wait", "--json", stdin=json.dumps(small_sweep))
    assert started.returncode == 0, started.stderr
    id_ = json.loads(started.stdout)["id"]
    assert call("api", "POST", f"sweeps/{id_}/cancel").returncode == 0
    ended = call("sweeps", "watch", id_)
    assert ended.returncode == 1
    assert "of 2 cells 2 cancelled" in ended.stderr
    hint = f"fedaudit api POST sweeps/{id_}/retry"
    assert hint in ended.stderr
    again = json.loads(call(*hint.split()[1:]).stdout)
    assert again["progress"]["cells"] == 2
    assert call("api", "POST", f"sweeps/{id_}/cancel").returncode == 0


def test_faults_are_reported_before_anything_is_sent(command, small_sweep):
    nowhere = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "k"}
    small_sweep["grid"] = {NU: [1, -1]}
    wrong = command("sweep", "-", stdin=json.dumps(small_sweep), env=nowhere)
    assert wrong.returncode == 2
    assert f"/grid/{NU}: with -1: must be greater than 0" in wrong.stderr
    small_sweep["grid"] = {NU: [1]}
    assert command("sweep", "-", stdin=json.dumps(small_sweep), env=nowhere).returncode == 4
