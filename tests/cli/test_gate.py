"""Gates and policies on the command line, against a running service."""

import json
from xml.etree import ElementTree

import pytest

from tests.api.service import SPEC
from tests.cli.conftest import assert_refused
from tests.spec.documents import gaussian

LEAKAGE = {**SPEC["gates"][0], "value": 1000.0}
"""Of a heuristic guarantee and simulated noise, too."""
TOO_LOW = {**LEAKAGE, "value": 0.5}
EPSILON = {**LEAKAGE, "figure": "epsilon_max"}


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
    file, junit, markdown = (tmp_path / name for name in ("policy.yaml", "gates.xml", "gates.md"))
    file.write_text(json.dumps({"policies": policies}))
    asked = ("gate", leaking, "--policy", file)
    # What people read stays in the log.
    done = call(*asked, "--junit", junit, "--markdown", markdown)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [lines[0], lines[2]] == ["easy", "hard"]
    assert "leakage_max <= 1000: passed" in lines[1]
    assert "leakage_max <= 0.5: failed" in lines[3]
    assert "leakage_max <= 1000: not enough evidence" in lines[4]
    root = ElementTree.fromstring(junit.read_bytes())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert markdown.read_text().startswith("## The gates failed\n")
    stated = json.loads(call(*asked, "--json").stdout)
    assert (stated["experiment_id"], stated["outcome"]) == (leaking, "fail")
    assert [(gate["policy"], gate["outcome"]) for gate in stated["gates"]] == [
        ("easy", "pass"),
        ("hard", "fail"),
        ("hard", "insufficient_evidence"),
    ]


def test_what_cannot_be_asked(call):
    assert_refused(call("gate"), "name an experiment")
    assert_refused(call("gate", "x", "--policy", "-", stdin="policies: []"), "/policies")
    unknown = call("gate", "01890000-0000-7000-8000-000000000000")
    assert_refused(unknown, "no such experiment", "an audit has the outcomes in `gates` of its")


def test_a_figure_of_the_other_kind_is_no_evidence(call, submitted, small_spec, leaking):
    """An epsilon that a leakage would satisfy, and a leakage that an epsilon would."""
    training = {**small_spec["training"], "hypotheses": 1}
    privacy = gaussian("central", 4.0)
    central = {**small_spec, "privacy": privacy, "training": training, "gates": []}
    counted = submitted({**central, "name": "central"}, "central")
    for experiment, own, other, reason in (
        (leaking, LEAKAGE, EPSILON, "metric privacy is counted as leakage"),
        (counted, EPSILON, LEAKAGE, "counted as an epsilon with a delta"),
    ):
        asked = ("gate", experiment, "--policy", "-")
        assert call(*asked, stdin=json.dumps([own])).returncode == 0
        done = call(*asked, "--json", stdin=json.dumps([own, other]))
        assert done.returncode == 3
        [passed, unknown] = json.loads(done.stdout)["gates"]
        assert (passed["outcome"], unknown["outcome"]) == ("pass", "insufficient_evidence")
        assert unknown["value"] is None
        assert reason in unknown["reason"]
