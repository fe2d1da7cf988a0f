"""Gates and policies on the command line, against a running service."""

import json
from xml.etree import ElementTree

import pytest

LEAKAGE = {
    "figure": "leakage_max",
    "op": "le",
    "value": 1000.0,
    "allow_heuristic": True,
    "allow_simulation": True,
}
TOO_LOW = {**LEAKAGE, "value": 0.5}
EPSILON = {**LEAKAGE, "figure": "epsilon_max"}
CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 4.0, "clip": 1.0, "delta": 1e-5}


@pytest.fixture
def submitted(call):
    """Submits a spec and gives the id of the ended experiment; the same key starts it once."""

    def submit(spec, key):
        options = ("--wait", "--json", "--idempotency-key", key)
        done = call("submit", "-", *options, stdin=json.dumps(spec))
        assert done.returncode in {0, 3}, done.stderr
        return json.loads(done.stdout)["id"]

    return submit


@pytest.fixture
def leaking(submitted, small_spec):
    """An experiment under metric privacy."""
    return submitted(small_spec, "leaking")


def test_every_policy_of_a_file_in_every_format(call, leaking, tmp_path):
    policies = [
        {"name": "easy", "gates": [LEAKAGE]},
        {"name": "hard", "gates": [TOO_LOW, {**LEAKAGE, "allow_heuristic": False}]},
    ]
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps({"policies": policies}))
    text = call("gate", leaking, "--policy", file)
    assert text.returncode == 1
    lines = text.stdout.splitlines()
    assert [lines[0], lines[2]] == ["easy", "hard"]
    assert "leakage_max <= 1000: passed" in lines[1]
    assert "leakage_max <= 0.5: failed" in lines[3]
    assert "leakage_max <= 1000: not enough evidence" in lines[4]
    stated = json.loads(call("gate", leaking, "--policy", file, "--json").stdout)
    assert (stated["experiment_id"], stated["outcome"]) == (leaking, "fail")
    assert [one["policy"] for one in stated["evaluations"]] == ["easy", "hard"]
    assert [(gate["policy"], gate["outcome"]) for gate in stated["gates"]] == [
        ("easy", "pass"),
        ("hard", "fail"),
        ("hard", "insufficient_evidence"),
    ]
    saved = (tmp_path / "gates.xml", tmp_path / "gates.md")
    done = call("gate", leaking, "--policy", file, "--junit", saved[0], "--markdown", saved[1])
    # What people read stays in the log.
    assert (done.returncode, done.stdout) == (1, text.stdout)
    root = ElementTree.fromstring(saved[0].read_bytes())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert saved[1].read_text().startswith("## The gates failed\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "stated"),
    [((), "", "name an experiment"), (("x", "--policy", "-"), "policies: []", "/policies")],
)
def test_what_cannot_be_asked(call, arguments, stdin, stated):
    done = call("gate", *arguments, stdin=stdin)
    assert done.returncode == 2
    assert stated in done.stderr
    assert "Traceback" not in done.stderr


def test_a_figure_of_the_other_kind_is_no_evidence(call, submitted, small_spec, leaking):
    """An epsilon that a leakage would satisfy, and a leakage that an epsilon would."""
    training = {**small_spec["training"], "hypotheses": 1}
    central = {**small_spec, "privacy": CENTRAL, "training": training, "gates": []}
    counted = submitted({**central, "name": "central"}, "central")
    for experiment, own, other, reason in (
        (leaking, LEAKAGE, EPSILON, "metric privacy is counted as leakage"),
        (counted, EPSILON, LEAKAGE, "counted as an epsilon with a delta"),
    ):
        assert call("gate", experiment, "--policy", "-", stdin=json.dumps([own])).returncode == 0
        done = call("gate", experiment, "--policy", "-", "--json", stdin=json.dumps([own, other]))
        assert done.returncode == 3
        [passed, unknown] = json.loads(done.stdout)["gates"]
        assert (passed["outcome"], unknown["outcome"]) == ("pass", "insufficient_evidence")
        assert unknown["value"] is None
        assert reason in unknown["reason"]
