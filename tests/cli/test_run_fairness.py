"""`fedaudit run` on people with several sensitive attributes, and without a favourable outcome."""

import json
import random

import pytest
import yaml

from fedaudit.reports.report import Report


@pytest.fixture
def people(tmp_path):
    """A table of 40 clients; income depends on sex and race, some races are missing or rare."""
    draw = random.Random(1)
    rows = []
    for row in range(2400):
        sex, race = draw.choice("FM"), draw.choice(["White"] * 6 + ["Black"] * 3 + [""])
        race = "Other" if draw.random() < 0.012 else race
        skill = draw.gauss(0, 1)
        income = skill + 0.8 * (sex == "M") + 0.5 * (race == "White") + draw.gauss(0, 0.5)
        high = "high" if income > 0.6 else "low"
        rows.append(f"c{row % 40},{skill:.3f},{sex},{race},{income:.3f},{high}")
    text = "\n".join(["who,skill,sex,race,income,class", *rows, ""])
    (tmp_path / "people.csv").write_text(text)
    return {
        "source": "table",
        "path": "people.csv",
        "client_key": "who",
        "features": ["skill"],
        "validation_fraction": 0.5,
    }


@pytest.fixture
def run(command, small_spec, tmp_path):
    def call(**changes):
        spec = {**small_spec, "privacy": {"mechanism": "none"}, **changes}
        source = {"FEDAUDIT_SOURCES_DIR": str(tmp_path)}
        done = command("run", "-", "--json", stdin=yaml.safe_dump(spec), env=source)
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        Report.model_validate(report)
        return done, report

    return call


def test_combinations_are_attributes_like_any_other(run, people):
    done, report = run(
        federation={**people, "target": "class", "positive": "high"},
        model={"kind": "logistic"},
        training={"loss": "cross-entropy", "rounds": 20, "cohort": {"clients": 10}},
        fairness={"sensitive": ["sex", "race"], "intersections": [["sex", "race"]]},
        gates=[
            {"figure": "accuracy_difference", "attribute": "sex_race", "op": "le", "value": 0.9},
            {"figure": "loss_ratio", "attribute": "race", "op": "ge", "value": 0.1},
        ],
    )
    assert done.returncode == 3, done.stderr  # of race one group is left
    sections = {section["attribute"]: section for section in report["fairness"]}
    assert list(sections) == ["sex", "race", "sex_race"]
    both = sections["sex_race"]
    assert both["intersection_of"] == ["sex", "race"]
    values = [group["value"] for group in both["groups"]]
    assert values == ["F, Black", "F, Other", "F, White", "M, Black", "M, Other", "M, White"]
    # Other is too few, and Black is suppressed beside it: so are their combinations.
    race = {group["value"]: group["suppressed"] for group in sections["race"]["groups"]}
    assert race == {"Black": True, "Other": True, "White": False}
    for group in both["groups"]:
        assert group["suppressed"] == (not group["value"].endswith("White"))
        assert (group["loss"] is None) == group["suppressed"]
        assert (group["accuracy"] is None) == group["suppressed"]
    assert both["metrics"]["accuracy_difference"]["interval"]["method"] == "score-pairs"
    assert any("'sex_race', in no group" in note for note in report["data"]["notes"])
    assert any(
        "the figures of other attributes' groups would reveal these rows" in limit
        for limit in report["limits"]
    )
    assert [gate["outcome"] for gate in report["gates"]] == ["pass", "insufficient_evidence"]
