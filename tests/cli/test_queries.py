"""`fedaudit reports` and `fedaudit compare`, against a real service."""

import json

import pytest


@pytest.fixture
def two(call, small_spec):
    """Two experiments that have ended; every test may ask for them, and they run once."""
    found = []
    for name, noise in (("little [noise]", 2), ("much noise", 8)):
        spec = {**small_spec, "name": name, "gates": []}
        spec["privacy"] = {**spec["privacy"], "noise_multiplier": noise}
        done = call(
            "submit", "-", "--wait", "--json", "--idempotency-key", name, stdin=json.dumps(spec)
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["id"])
    return found


def test_reports_are_found_by_their_figures(call, two):
    little, much = two
    report = json.loads(call("report", much).stdout)
    leakage = report["privacy"]["leakage_max"]
    found = call("reports", "--where", f"leakage_max <= {leakage}", "--json")
    assert found.returncode == 0, found.stderr
    [one] = json.loads(found.stdout)
    assert one["experiment"]["id"] == much
    assert one["verdict"] == report["verdict"]
    ordered = call("reports", "--sort=-leakage_max", "--where", "attribute=group", "--json")
    assert [one["experiment"]["id"] for one in json.loads(ordered.stdout)] == [little, much]


def test_reports_for_people(call, two):
    little, much = two
    asked = ("reports", "--where", "equalized_odds_difference>=0", "--most", "1")
    shown = call(*asked)
    assert shown.returncode == 0, shown.stderr
    assert much in shown.stdout
    assert little not in shown.stdout
    assert "equalized_odds_difference" in shown.stdout
    assert "heuristic" in shown.stdout
    assert "laplace-l2" in shown.stdout
    assert "there are more" in shown.stderr
    assert "little [noise]" in call("reports").stdout


def test_what_is_no_condition_names_the_remedy(call):
    wrong = call("reports", "--where", "leakage_max is small")
    assert (wrong.returncode, "FIGURE<=VALUE" in wrong.stderr) == (2, True)
    unknown = call("reports", "--where", "fame<=3")
    assert (unknown.returncode, "fame[lte]" in unknown.stderr) == (2, True)
    without = call("reports", "--where", "epsilon_max<=3")
    assert (without.returncode, "`delta`" in without.stderr) == (2, True)


def test_compare_for_people_and_for_programs(call, two):
    little, much = two
    found = json.loads(call("compare", little, much, "--json").stdout)
    assert [one["id"] for one in found["experiments"]] == two
    assert [one["path"] for one in found["spec_differences"]] == ["privacy.noise_multiplier"]
    [front] = found["fronts"]
    assert much in front["front"]
    shown = call("compare", little, much, "--utility", "validation_loss")
    assert shown.returncode == 0, shown.stderr
    # Without a terminal a line is 80 columns.
    unwrapped = " ".join(shown.stdout.split())
    assert f"1 {little} little [noise] heuristic, not in force (laplace-l2)" in unwrapped
    assert "leakage_max (heuristic)" in shown.stdout
    assert "privacy.noise_multiplier" in shown.stdout
    assert "Pareto front over leakage_max, equalized_odds_difference by group" in shown.stdout


def test_what_cannot_be_asked_is_refused_without_a_service(command):
    nowhere = {"FEDAUDIT_URL": "http://127.0.0.1:1", "FEDAUDIT_API_KEY": "key"}
    for asked, message in (
        (("compare", "one"), "two experiments or more"),
        (("list", "--where", "leakage_max is small"), "--where"),
        (("reports", "--where", "leakage_max is small"), "--where"),
    ):
        refused = command(*asked, env=nowhere)
        assert refused.returncode == 2
        assert message in refused.stderr
