"""Nulls and privacy cost by group, in the report's fairness section."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.report import Report, assemble
from fedaudit.spec.parse import parse_spec
from tests.fairness.disclosures import with_disclosures
from tests.reports.conftest import SPEC, counts_of_clients, training_rows_of_clients

LOCAL = {"mechanism": "gaussian-local", "noise_multiplier": 8, "clip": 1.0, "delta": 1e-5}
CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 1.1, "clip": 1.0, "delta": 1e-5}
POISSON = {"sampling": "poisson", "rate": 0.1}
PAID = ("leakage_mean", "participations_mean", "refusals_mean")


def section(material: Any) -> dict[str, Any]:
    report = assemble(material)
    assert Report.model_validate(report).model_dump(mode="json") == report
    found: dict[str, Any] = report["fairness"][0]
    return found


def with_attribute(made, values, *, counts=None, rows=None):
    """The material with other groups, and other rows of them."""
    federation = replace(
        made.federation,
        attributes={"group": values},
        training_rows={"group": np.zeros((60, len(values)), np.int32) if rows is None else rows},
    )
    if counts is None:
        counts = np.zeros((30, len(values), 4), dtype=np.int64)
    compared = replace(made.result.against_constant, by_group={})
    result = replace(made.result, fairness={"group": counts}, scores={}, against_constant=compared)
    return with_disclosures(replace(made, federation=federation, result=result))


def nulls_without_reason(part: Any, place: str = "") -> Iterator[str]:
    """Fields that are None with nothing beside them that says why."""
    if isinstance(part, list):
        for one in part:
            yield from nulls_without_reason(one, place)
    elif isinstance(part, dict):
        for name, value in part.items():
            if value is None and not name.endswith("reason"):
                said = part.get("reasons", {}).get(name) or part.get(f"{name}_reason")
                if not (said or (name == "value" and part.get("reason"))):
                    yield f"{place}.{name}"
            yield from nulls_without_reason(value, f"{place}.{name}")


def test_privacy_cost_is_reported_by_group(material):
    found = section(material())["privacy_cost_by_group"]
    assert found["unit"] == "client"
    for group in found["groups"]:
        # Both groups took part alike, so both have the mean over all clients: 2 of 5 times 3 / 5.
        assert group["participations_mean"] == 2.0
        assert group["leakage_mean"] == pytest.approx(2.0 * 3 / 5)
        # One client was refused twice, which its group's mean does not disclose.
        assert group["refusals_mean"] == 0.067


def test_what_gives_the_clients_of_a_group_away_is_never_shown(material):
    for group in section(material())["privacy_cost_by_group"]["groups"]:
        assert set(group) == {"value", "suppressed", *PAID, "reasons"}


def test_it_is_shown_on_request_only(material):
    fairness = {**SPEC["fairness"]}
    del fairness["privacy_cost_by_group"]
    report = assemble(material({"fairness": fairness}))
    found = report["fairness"][0]
    assert found["privacy_cost_by_group"] is None
    assert found["privacy_cost_by_group_reason"].startswith("fairness.privacy_cost_by_group is off")
    assert not any("privacy_cost_by_group" in limit for limit in report["limits"])
    (limit,) = [one for one in assemble(material())["limits"] if "privacy_cost_by_group" in one]
    assert "training clients, whom the guarantee speaks of" in limit


def test_clients_with_rows_of_several_groups_count_by_their_rows(material):
    rows = training_rows_of_clients()
    rows[4] = (10, 30)
    made = with_attribute(material(), ("g1", "g2"), counts=counts_of_clients(), rows=rows)
    assert section(made)["privacy_cost_by_group"]["unit"] == "record"


def test_small_groups_show_nothing(material):
    rows = np.zeros((60, 3), dtype=np.int32)
    rows[:20, 0], rows[20:29, 1], rows[29, 2] = 10, 10, 500
    found = section(with_attribute(material(), ("a", "b", "c"), rows=rows))["privacy_cost_by_group"]
    assert [group["suppressed"] for group in found["groups"]] == [False, True, True]
    for group in found["groups"][1:]:
        for figure in PAID:
            assert group[figure] is None
            assert "fewer than 30 training rows" in group["reasons"][figure]


def test_with_an_epsilon_groups_have_participations(material):
    training = {**SPEC["training"], "hypotheses": 1}
    parts = {"training": training, "privacy": LOCAL, "gates": []}
    spec = parse_spec({**SPEC, **parts})
    plan = mechanism_of(spec).spending_plan(
        training_clients=30, names=[str(one) for one in range(60)]
    )
    made = material(parts, plan=plan)
    made = replace(made, compositions={"server": made.releases})
    report = assemble(made)
    first, second = report["fairness"][0]["privacy_cost_by_group"]["groups"]
    assert first["leakage_mean"] is None
    assert "leakage" in first["reasons"]["leakage_mean"]
    assert first["participations_mean"] == second["participations_mean"] == 2.0


def test_where_it_is_secret_who_took_part_nobody_is_told_who_paid(material):
    parts = {
        "training": {**SPEC["training"], "hypotheses": 1, "cohort": POISSON},
        "privacy": CENTRAL,
        "gates": [],
    }
    plan = mechanism_of(parse_spec({**SPEC, **parts})).spending_plan(training_clients=30)
    found = section(material(parts, plan=plan, compositions={"final_model": 41}))
    assert found["privacy_cost_by_group"] is None
    assert "secret" in found["privacy_cost_by_group_reason"]


@pytest.mark.parametrize("missing", ["rows", "refused"])
def test_what_was_not_handed_over_is_missing_with_its_reason(material, missing):
    made = material(refused=None)
    if missing == "rows":
        made = replace(made, federation=replace(made.federation, training_rows={}))
        found = section(made)
        assert (found["privacy_cost_by_group"], bool(found["privacy_cost_by_group_reason"])) == (
            None,
            True,
        )
        return
    group = section(made)["privacy_cost_by_group"]["groups"][0]
    assert group["refusals_mean"] is None
    assert group["reasons"]["refusals_mean"] == "refusals were not counted by client"


def test_no_figure_is_missing_without_a_reason(material):
    rows = np.zeros((60, 3), dtype=np.int32)
    rows[:20, 0], rows[20:29, 1], rows[29, 2] = 10, 10, 500
    for made in (
        material(),
        material({"fairness": {**SPEC["fairness"], "minimum_group_size": 10_000}}),
        with_attribute(material(), ("a", "b", "c"), rows=rows),
    ):
        found = section(made)
        parts = [found["metrics"], found["privacy_cost_by_group"]]
        assert list(nulls_without_reason(parts)) == []


# -- combinations of attributes -------------------------------------------------------------------


def combined(material, *, small):
    """Two attributes by client and their combinations, of which one or none is too small."""
    fairness = {
        "sensitive": ["sex", "age"],
        "intersections": [["sex", "age"]],
        "favourable": {"op": "ge", "value": 0},
        "intervals": None,
        "privacy_cost_by_group": True,
    }
    table = {"source": "table", "path": "a.csv", "client_key": "town", "target": "pay"}
    table["features"] = ["hours"]
    made = material({"federation": table, "fairness": fairness, "gates": []})
    sex, age = np.arange(60) % 2, np.arange(60) // 2 % 3
    rows = {"sex": sex, "age": age, "sex_age": 3 * sex + age}
    # Two clients in 30 are left of those of 1 and 2.
    away = (sex == 1) & (age == 2) & (np.arange(60) % 30 > 12) if small else np.zeros(60, bool)
    values = {"sex": ("F", "M"), "age": ("old", "middle", "young")}
    values["sex_age"] = tuple(f"{a}, {b}" for a in values["sex"] for b in values["age"])
    counts, training = {}, {}
    for name, group in rows.items():
        groups = len(values[name])
        training[name] = np.zeros((60, groups), dtype=np.int32)
        training[name][np.arange(60), group] = np.where(away, 0, 10)
        training[name][30:] = 0
        counts[name] = np.zeros((30, groups, 4), dtype=np.int64)
        counts[name][np.arange(30), group[30:]] = (3, 2, 3, 2)
        counts[name][away[30:]] = 0
    federation = replace(made.federation, attributes=values, training_rows=training)
    result = replace(made.result, fairness=counts)
    return assemble(with_disclosures(replace(made, federation=federation, result=result)))[
        "fairness"
    ][2]


def test_combinations_have_all_of_it(material):
    found = combined(material, small=False)
    assert found["intersection_of"] == ["sex", "age"]
    assert len(found["privacy_cost_by_group"]["groups"]) == 6


def test_totals_of_single_attributes_do_not_give_a_small_combination_away(material):
    found = combined(material, small=True)
    assert found["privacy_cost_by_group"] is None
    assert "would give it away" in found["privacy_cost_by_group_reason"]
