"""Small groups that are hidden, joined or left out: by `fedaudit run` and `fedaudit audit`."""

import json
import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from fedaudit.federations.load import load_federation
from fedaudit.federations.split import split_clients
from fedaudit.reports.page.html import render
from fedaudit.spec.parse import parse_admitted
from fedaudit.training.base.records import training_records, validation_rows
from tests.cli.conftest import assert_refused
from tests.spec.documents import BY_RECORD as BUDGETS_OF_RECORDS

CLIENTS = 40


@cache
def people(*, of_divers: str = "") -> str:
    """A table in which 24 of 2,400 people are divers, two in each of the first twelve clients.
    `of_divers`: the outcome of them all."""
    draw, rows = random.Random(1), []
    for row in range(2400):
        sex = "divers" if row < 24 else draw.choice("mw")
        client = row % 12 if row < 24 else row % CLIENTS
        skill = draw.gauss(0, 1)
        high = "high" if skill + 0.5 * (sex == "m") + draw.gauss(0, 0.5) > 0.3 else "low"
        guess = "high" if skill > 0.3 else "low"
        if sex == "divers" and of_divers:
            high = of_divers
        rows.append(f"c{client:02},{skill:.3f},{sex},{draw.choice(['a', 'b'])},{high},{guess}")
    return "\n".join(["who,skill,sex,wave,class,guess", *rows, ""])


SPEC: dict[str, Any] = {
    "name": "left out",
    "seed": 7,
    "federation": {
        "source": "table",
        "path": "people.csv",
        "client_key": "who",
        "target": "class",
        "positive": "high",
        "features": ["skill"],
        "validation_fraction": 0.5,
    },
    "model": {"kind": "logistic"},
    "training": {
        "loss": "cross-entropy",
        "rounds": 4,
        "hypotheses": 2,
        "cohort": {"clients": 10},
        "local": {"epochs": 1, "step_size": 0.5},
    },
    "privacy": {"mechanism": "none"},
}


BY_RECORD: dict[str, Any] = {
    "federation": {**SPEC["federation"], "validation_unit": "record"},
    "training": {
        "loss": "cross-entropy",
        "rounds": 2,
        "cohort": {"sampling": "poisson", "rate": 0.5},
        "local": {"steps": 2, "batch_size": 8, "step_size": 0.5},
    },
    "privacy": {**BUDGETS_OF_RECORDS, "delta": 1e-4},
}


@pytest.fixture
def run(command, tmp_path):
    def call(
        fairness: Mapping[str, Any],
        table: str,
        *,
        more: Mapping[str, Any] | None = None,
        **federation: Any,
    ) -> Any:
        (tmp_path / "people.csv").write_text(table)
        asked = {"sensitive": ["sex", "wave"], **fairness}
        source = {**SPEC["federation"], **federation}
        spec = {**SPEC, "fairness": asked, "federation": source, **(more or {})}
        sources = {"FEDAUDIT_SOURCES_DIR": str(tmp_path)}
        done = command("run", "-", "--json", stdin=yaml.safe_dump(spec), env=sources)
        return json.loads(done.stdout) if done.stdout else done

    return call


def group(report: Mapping[str, Any], value: str, attribute: int = 0) -> Mapping[str, Any]:
    return next(one for one in report["fairness"][attribute]["groups"] if one["value"] == value)


def without_data(report: Mapping[str, Any]) -> str:
    """The report as text, without what follows from the file's bytes or the time."""
    text = json.dumps({name: part for name, part in report.items() if name != "integrity"})
    return re.sub(r"[0-9a-f]{64}|\d{4}-\d\d-\d\dT[^\"]*|[0-9a-f-]{36}", "*", text)


def test_a_large_group_is_said_to_protect_a_small_one(run):
    report = run({}, people())
    assert group(report, "divers")["reasons"]["accuracy"].startswith("suppressed: fewer than 30")
    hidden = [one for one in report["fairness"][0]["groups"] if one["suppressed"]]
    large = next(one for one in hidden if one["value"] != "divers")
    assert large["reasons"]["accuracy"].startswith("hidden to protect a smaller group")
    why = report["fairness"][0]["metrics"]["demographic_parity_difference"]["reason"]
    assert "fairness.groups" in why, "it says how to get a gap"
    assert "fairness.exclude" in why
    assert "hidden to protect a smaller group" in render(report)


def test_combinations_are_attributes_like_any_other(run):
    table = "\n".join(
        line.replace(",a,", ",,") if number % 9 == 0 else line
        for number, line in enumerate(people().splitlines())
    )
    gate = {"figure": "accuracy_difference", "op": "le", "value": 0.9, "attribute": "sex_wave"}
    gates = [gate, {**gate, "attribute": "sex"}]
    report = run({"intersections": [["sex", "wave"]]}, table, more={"gates": gates})
    sections = {section["attribute"]: section for section in report["fairness"]}
    assert list(sections) == ["sex", "wave", "sex_wave"]
    both = sections["sex_wave"]
    assert both["intersection_of"] == ["sex", "wave"]
    values = [one["value"] for one in both["groups"]]
    assert values == [f"{sex}, {wave}" for sex in ("divers", "m", "w") for wave in "ab"]
    # Divers are too few, and w is hidden beside them: so are their combinations.
    shown = {one["value"] for one in sections["sex"]["groups"] if not one["suppressed"]}
    assert len(shown) == 1
    for one in both["groups"]:
        assert one["suppressed"] == (one["value"].split(", ")[0] not in shown)
        assert one["suppressed"] == (one["loss"] is None) == (one["accuracy"] is None)
    assert both["metrics"]["accuracy_difference"]["interval"]["method"] == "score-pairs"
    assert any("'sex_wave', in no group" in note for note in report["data"]["notes"])
    revealing = "the figures of other attributes' groups would reveal these rows"
    assert any(revealing in limit for limit in report["limits"])
    assert {one["outcome"] for one in report["gates"]} == {"insufficient_evidence"}
    assert "nine tenths of the people" in report["gates"][0]["reason"]


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "as missing values": ({}, {"missing_values": ["", "south"]}),
    "by an empty feature": (
        {},
        {"features": ["skill", {"name": "extra", "missing": "drop-row"}], "leak_reviewed": ["*"]},
    ),
    "by what is excluded": ({"exclude": {"region": ["south"]}}, {}),
    "in small pieces": ({"sensitive": ["code"], "edges": {"code": [1, *range(2, 22)]}}, {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_gaps_that_leave_out_a_fifth_of_the_people_are_no_evidence(run, way):
    """Whichever way the spec leaves them out. What is beyond a bound fails all the same."""
    lines = people().splitlines()
    table = [f"{lines[0]},region,code,extra"]
    for row, line in enumerate(lines[1:]):
        south = row % 5 == 0
        code = 2 + row // 5 % 20 if south else row % 2
        table.append(f"{line},{'south' if south else 'en'[row % 2]},{code},{'' if south else 1}")
    fairness, federation = WAYS[way]
    gate = {"figure": "accuracy_difference", "op": "le"}
    gates = [{**gate, "value": bound} for bound in (0.9, 0.0)]
    asked = {"sensitive": ["region"], **fairness}
    report = run(asked, "\n".join([*table, ""]), more={"gates": gates}, **federation)
    [section] = report["fairness"]
    assert section["metrics"]["accuracy_difference"]["value"] is not None
    outcomes = [one["outcome"] for one in report["gates"]]
    if way == "plain":
        assert (outcomes, section["doubt"]) == (["pass", "fail"], None)
        return
    assert outcomes == ["insufficient_evidence", "fail"]
    assert report["gates"][0]["reason"] == section["doubt"]
    assert "nine tenths of the people" in section["doubt"]


@pytest.mark.parametrize("pieces", [False, True])
def test_noised_counts_doubt_gaps_too(run, pieces):
    """Noise of scale 1.2 on four counts makes 30 of 12 rows in one of 10,000 pieces, and of the
    seven pieces that would change the answer in fewer than one of 10^20 runs."""
    lines = people().splitlines()
    table = [f"{lines[0]},code"]
    for row, line in enumerate(lines[1:]):
        code = 2 + row // 5 % 20 if pieces and row % 5 == 0 else row % 2
        table.append(f"{line},{code}")
    noise = {"mechanism": "discrete-laplace", "epsilon": 100, "unit": "client"}
    asked = {"sensitive": ["code"], "noise": {**noise, "max_rows_per_client": 60}}
    edges = {"edges": {"code": [1, *range(2, 22)] if pieces else [1]}}
    [section] = run({**asked, **edges}, "\n".join([*table, ""]))["fairness"]
    assert (section["doubt"] is not None) is pieces


def test_joined_values_are_one_group_and_hide_no_other(run):
    report = run({"groups": {"sex": {"w or divers": ["divers", "w"]}}}, people())
    groups = report["fairness"][0]["groups"]
    assert [one["value"] for one in groups] == ["w or divers", "m"]
    assert not any(one["suppressed"] for one in groups)
    assert report["fairness"][0]["metrics"]["demographic_parity_difference"]["value"] is not None
    assert any("w or divers is divers, w" in one for one in report["limits"])
    assert "By sex, w or divers joins divers, w." in report["verdict_parts"]["fairness"]
    assert report["experiment"]["spec_hash"] != run({}, people())["experiment"]["spec_hash"]


@pytest.mark.parametrize("scoring", ["leave-one-out", "split"])
def test_no_figure_depends_on_rows_that_are_left_out(run, scoring):
    """Everything the report states is the same whatever came about for the held-out divers: so
    nothing that follows from it says anything of them. Those that train are left as they are."""
    how = {"method": scoring} | ({"fraction": 0.5} if scoring == "split" else {})
    asked = {"exclude": {"sex": ["divers"]}}
    report = run(asked, people(), scoring=how)
    assert [one["value"] for one in report["fairness"][0]["groups"]] == ["m", "w"]
    assert not any(one["suppressed"] for section in report["fairness"] for one in section["groups"])
    assert report["data"]["rows"] == 2400, "how many are left out is not stated"
    assert any("No accuracy, loss, rate or gap here counts" in one for one in report["limits"])

    trains = training_clients(report)
    lines = people().splitlines()
    plain = without_data(run({}, people(), scoring=how))
    for fate in ("high", "low"):
        table = [
            line.replace(",high,", f",{fate},").replace(",low,", f",{fate},")
            if ",divers," in line and line[:3] not in trains
            else line
            for line in lines
        ]
        assert table != lines
        other = run(asked, "\n".join([*table, ""]), scoring=how)
        assert without_data(other) == without_data(report)
        counted = run({}, "\n".join([*table, ""]), scoring=how)
        assert without_data(counted) != plain, "as it is where they are counted"


def training_clients(report: Mapping[str, Any]) -> set[str]:
    split = split_clients(CLIENTS, validation_fraction=0.5, seed=report["provenance"]["seed"])
    return {f"c{client:02}" for client in split.training.tolist()}


def test_records_that_are_held_out_are_left_out_too(tmp_path, run):
    (tmp_path / "people.csv").write_text(people())
    loaded = []
    for more in ({"exclude": {"sex": ["divers"]}}, {}):
        spec = parse_admitted({**SPEC, **BY_RECORD, "fairness": {"sensitive": ["sex"], **more}})
        federation = load_federation(spec, sources_dir=tmp_path)
        places = [read(spec, federation).place for read in (validation_rows, training_records)]
        loaded.append((federation, *places))
    (_, scored, trained), (every, all_scored, all_trained) = loaded
    divers = every.attribute("sex").codes == every.attribute("sex").values.index("divers")
    assert divers[all_scored].any()
    assert scored.tolist() == all_scored[~divers[all_scored]].tolist()
    assert trained.tolist() == all_trained.tolist(), "those that train stay"
    report = run({"exclude": {"sex": ["divers"]}}, people(), more=BY_RECORD)
    assert [one["value"] for one in report["fairness"][0]["groups"]] == ["m", "w"]
    counted = report["privacy"]["records"]
    hidden = [one for one in counted["groups"] if one["records"] is None]
    assert hidden, "rows less all that train and all that are scored would be the rows left out"
    counted = run({}, people(), more=BY_RECORD)["privacy"]["records"]
    assert all(one["records"] for one in counted["groups"])


def test_a_client_with_no_row_left_is_not_scored(run):
    """Every client has people of one wave: leaving one out leaves half of the clients."""
    lines = people().splitlines()
    whole = [lines[0]]
    for line in lines[1:]:
        who, *rest = line.split(",")
        whole.append(",".join([who, rest[0], rest[1], "ab"[int(who[1:]) % 2], *rest[3:]]))
    report = run({"sensitive": ["wave"], "exclude": {"wave": ["none"]}}, "\n".join([*whole, ""]))
    assert_refused(report, "has no value 'none'")
    three = [
        line.replace(",b,", ",c,") if line[:1] == "c" and int(line[1:3]) % 4 == 1 else line
        for line in whole
    ]
    report = run({"sensitive": ["wave"], "exclude": {"wave": ["c"]}}, "\n".join([*three, ""]))
    assert [one["value"] for one in report["fairness"][0]["groups"]] == ["a", "b"]
    assert report["fairness"][0]["metrics"]["accuracy_difference"]["value"] is not None


def test_a_site_is_left_out_beside_others_that_are_pooled(run):
    asked = {
        "sensitive": ["who"],
        "minimum_group_clients": 1,
        "minimum_group_size": 61,  # which some sites have
        "exclude": {"who": ["c00", "c39"]},
    }
    report = run({**asked, "groups": {"who": {"both": ["c01", "c02"]}}}, people())
    groups = {one["value"] for one in report["fairness"][0]["groups"]}
    assert {"both", "other sites"} < groups
    assert not groups & {"c00", "c01", "c39"}


def test_no_site_is_pooled_by_its_exact_size_where_counts_have_noise(run):
    """Which sites are groups would show for certain whether one of them has a held-out row more."""
    asked = {"sensitive": ["who"], "minimum_group_clients": 1, "minimum_group_size": 61}
    noise = {"mechanism": "discrete-laplace", "epsilon": 0.01, "unit": "client"}
    pooled = run(asked, people())
    report = run({**asked, "noise": {**noise, "max_rows_per_client": 5}}, people())
    sites = {line.partition(",")[0] for line in people().splitlines()[1:]}
    assert {one["value"] for one in report["fairness"][0]["groups"]} == sites
    assert "other sites" in {one["value"] for one in pooled["fairness"][0]["groups"]}


TWICE = {"groups": {"sex": {"x": ["m"]}}, "exclude": {"sex": ["m"]}}


@pytest.mark.parametrize(
    ("fairness", "where", "what"),
    [
        ({"groups": {"sex": {"other": ["divers", "x"]}}}, "/groups/sex/other/1", "no value 'x'"),
        ({"groups": {"sex": {"W": ["divers", "m"]}}}, "/groups/sex/W", "another value of 'sex'"),
        ({"groups": {"sex": {"all": ["divers", "m", "w"]}}}, "/groups/sex", "leaves one group"),
        ({"groups": {"age": {"all": ["1"]}}}, "/groups/age", "not in `sensitive`"),
        ({"groups": {"sex": {"x": ["m"], "y": ["m"]}}}, "/groups/sex/y", "'m' is in 'x' already"),
        (TWICE, "/groups/sex/x", "left out by `exclude` already"),
        ({"exclude": {"sex": ["divers", "m", "w"]}}, "/exclude/sex", "leaves no group"),
        ({"exclude": {"sex": []}}, "/exclude/sex", "at least 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_its_field(run, fairness, where, what):
    assert_refused(run(fairness, people()), f"/fairness{where}", what)


def test_an_audit_says_nothing_of_rows_left_out(command, tmp_path):
    def audited(table: str, **more: Any) -> Any:
        (tmp_path / "people.csv").write_text(table)
        done = command(
            *("audit", str(tmp_path / "people.csv"), "--truth", "class", "--prediction", "guess"),
            *("--sensitive", "sex", "--sensitive", "wave", "--favourable", "high", "--json"),
            *("--client-key", "who", "--spec", "-"),
            stdin=json.dumps(more),
        )
        return json.loads(done.stdout) if done.stdout else done.stderr

    left_out = {"exclude": {"sex": ["divers"]}}
    report = audited(people(), **left_out)
    assert [one["value"] for one in report["fairness"][0]["groups"]] == ["m", "w"]
    rows = range(1, 2401)
    accuracy = report["utility"]["accuracy"]
    counted = [one for one in rows if round(accuracy * one) / one == accuracy]
    assert counted == [2376], "a share has one denominator"
    assert report["data"]["rows"] == 2376, "so the rows of the file would tell how many are divers"
    assert not re.search(r"\b2,?400\b", json.dumps(report))
    assert report["predictions"]["rows_left_out"] == 0
    for fate in ("high", "low"):
        other = audited(people(of_divers=fate), **left_out)
        assert without_data(other) == without_data(report)

    joined = audited(people(), groups={"sex": {"other": ["divers", "w"]}})
    assert [one["value"] for one in joined["fairness"][0]["groups"]] == ["other", "m"]
    assert "By sex, other joins divers, w." in joined["verdict_parts"]["fairness"]
    assert "/exclude/sex/0" in audited(people(), exclude={"sex": ["inter"]})
