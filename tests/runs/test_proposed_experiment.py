"""Proposed experiments, for synthetic shapes of federations."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.declared_facts import DeclaredFacts, shown_facts
from fedaudit.runs.proposed_experiment import ProposalAim, propose_experiment
from fedaudit.spec.disclosure import DisclosureFloor, DisclosurePolicy, FixedSplit
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import with_registration
from tests.house import ROOT
from tests.spec.documents import changed
from tests.training.specs import ran

ID = "00000000-0000-0000-0000-000000000000"
RANGE = {"low": -3, "high": 3}


def facts(
    *,
    clients: int = 300,
    rows: int = 50,
    features: int = 5,
    classes: int = 2,
    scale: Any = None,
    **more: Any,
) -> DeclaredFacts:
    names = [f"x{place}" for place in range(features)]
    source = {
        "source": "table",
        "path": "people.csv",
        "client_key": "town",
        "target": "y",
        "features": names,
        "scale": ({} if scale is None else dict.fromkeys(names, scale))
        | ({} if classes else {"y": {"mean": 30, "deviation": 5}}),
    }
    return DeclaredFacts(
        federation_id=ID,
        name="people",
        registration={"name": "people", "federation": source, "fairness": {}},
        clients=clients,
        rows=clients * rows,
        features=features,
        classes=classes,
        **more,
    )


def proposed(shape: DeclaredFacts, **aim: Any) -> Any:
    return propose_experiment(shape, ProposalAim(**aim))


def figure(found: Any) -> float:
    """What the projection says of a proposal."""
    spent = [float(entry["value"]) for entry in found.projection.epsilon]
    return max([*spent, found.projection.leakage_worst_case or 0.0])


@settings(max_examples=20, deadline=None)
@given(
    clients=st.integers(2, 1_000),
    rows=st.integers(1, 5_000),
    features=st.integers(1, 100),
    classes=st.sampled_from([0, 2, 3, 10]),
    scale=st.sampled_from([None, 10.0, RANGE]),
    unit=st.sampled_from([None, "client", "record"]),
    aim=st.sampled_from([{"epsilon": 1.0}, {"epsilon": 8.0, "delta": 1e-4}, {"leakage": 20.0}]),
)
def test_every_shape_gets_a_spec_that_parses_at_no_more_than_was_asked_for(
    clients: int, rows: int, features: int, classes: int, scale: Any, unit: Any, aim: Any
) -> None:
    shape = facts(clients=clients, rows=rows, features=features, classes=classes, scale=scale)
    found = proposed(shape, **aim, unit=None if "leakage" in aim else unit)
    spec = parse_spec(with_registration(found.spec, shape.registration))
    assert 0 < figure(found) <= max(aim.get("epsilon", 0), aim.get("leakage", 0))
    assert spec.training.hypotheses == 1
    assert spec.training.stopping.patience is None
    assert found.expected_useful == (found.needs is None)
    assert {one.pointer.split("/")[1] for one in found.reasons} <= set(found.spec)
    assert any("occurs is not known" in one.reason for one in found.reasons) == bool(classes)


def test_a_proposal_by_default_meets_the_shipped_policy_for_a_release() -> None:
    policy = yaml.safe_load((ROOT / "examples/policies/release.yaml").read_text())
    [most] = [one["value"] for one in policy["gates"] if one["figure"] == "epsilon_max"]
    assert 0.9 * most < figure(proposed(facts(scale=RANGE))) <= most


@pytest.mark.parametrize("aim", [{"epsilon": 3.0}, {"private": False}, {"leakage": 20.0}])
@pytest.mark.parametrize("unit", ["client", "record"])
def test_one_row_more_changes_a_proposal_only_at_a_power_of_two(unit: Any, aim: Any) -> None:
    def of_rows(rows: int) -> str:
        shape = facts(clients=40, scale=RANGE)
        shape = replace(shape, rows=rows, median_rows=rows / 40, most_rows=rows // 10)
        return repr(proposed(shape, **aim, unit=unit))

    # From 2^15.5, 46,341, on another power is the nearest.
    found = [of_rows(rows) for rows in (*range(40_000, 40_050, 7), *range(46_300, 46_341, 8))]
    assert len({*found, of_rows(46_340)}) == 1
    assert of_rows(80_000) != found[0]
    assert "nearest power of two" in found[0]
    hides = "a power of two, is above the rows, and hides how many" in found[0]
    assert hides is (unit == "record" and "epsilon" in aim)


def test_more_than_a_thousand_clients_are_drawn_once_in_a_block_for_less_noise() -> None:
    shape = facts(clients=4_000, scale=RANGE)
    found = proposed(shape, epsilon=3, unit="client")
    assert found.spec["training"]["cohort"] == {"sampling": "allocation", "every": 3}
    coins = changed(found.spec, {"training.cohort": {"sampling": "poisson", "rate": 1 / 3}})
    least = []
    for spec in (found.spec, coins):
        parsed = parse_spec(with_registration(spec, shape.registration))
        targeted = mechanism_of(parsed).targeted_figure(n=6, training_clients=2_800)
        assert targeted is not None
        least.append(targeted.least_noise(3))
    assert least[0] < 0.95 * least[1]


def test_hospitals_get_records_and_many_clients_are_protected_whole() -> None:
    six = proposed(facts(clients=6, rows=1000, scale=RANGE), epsilon=3)
    assert six.spec["privacy"]["mechanism"] == "record-personalised"
    assert six.expected_useful
    assert "whole client needs 10 clients that train at least, and 4 of 6" in six.reasons[0].reason
    many = proposed(facts(scale=RANGE), epsilon=3)
    assert many.spec["privacy"]["mechanism"] == "gaussian-central"
    assert many.expected_useful
    # A client's statistics are protected with it; a record's are others' too.
    divisors = facts(scale=10.0)
    assert proposed(divisors).spec["federation"]["standardise"] == "client"
    of_records = proposed(divisors, unit="record")
    assert of_records.spec["federation"]["standardise"] is None
    # Without ranges less is learnt, of most tables enough.
    assert of_records.expected_useful
    assert "training then learns faster" in str(of_records.reasons)
    assert proposed(facts(scale=RANGE), unit="record").expected_useful
    assert proposed(facts(), unit="record").needs is not None


def test_steps_of_few_rounds_are_long_enough_for_their_clip() -> None:
    few = proposed(facts(clients=12, rows=250, scale=RANGE), leakage=20)
    # A longer one would be too long for the curvature.
    assert few.spec["training"]["local"]["step_size"] == pytest.approx(8 / 6, abs=0.05)
    many = proposed(facts(scale=RANGE), leakage=20).spec["training"]["local"]
    assert many["step_size"] == 0.3


@pytest.mark.parametrize(("classes", "binary"), [(2, True), (3, False)])
def test_a_threshold_is_proposed_for_two_classes_alone(classes: int, binary: bool) -> None:
    reasons = str(proposed(facts(classes=classes, scale=RANGE), epsilon=3).reasons)
    assert ("decision.threshold" in reasons) is binary


def test_what_is_too_little_says_what_is_needed_and_that_is_enough() -> None:
    few = facts(clients=40, features=60, scale=RANGE)
    words = str(proposed(few, epsilon=0.1, unit="client").needs).split()
    needed = int(words[words.index("clients") - 1])
    assert needed > 28
    # About so many: the approximation is coarse at small epsilons.
    enough = facts(clients=round(1.25 * needed / 0.69), features=60, scale=RANGE)
    assert proposed(enough, epsilon=0.1, unit="client").expected_useful
    assert "size of x0" in str(proposed(facts(rows=5), unit="client").needs)
    # One figure, whatever was asked for, and it is enough.
    for shape, unit in ((facts(clients=30, scale=RANGE), "client"), (facts(clients=5), "record")):
        shape.registration["federation"]["scale"] = dict.fromkeys(
            ["x0", "x1", "x2", "x3", "x4"], RANGE
        )
        asked = [proposed(shape, epsilon=one, unit=unit).needs for one in (0.1, 0.15, 0.22)]
        (least,) = {float((one or "").split()[-1]) for one in asked}
        assert proposed(shape, epsilon=least, unit=unit).expected_useful


def test_a_number_to_be_predicted_has_to_be_of_known_size() -> None:
    shape = facts(classes=0, scale=RANGE)
    assert proposed(shape, epsilon=3).expected_useful
    scale = shape.registration["federation"]["scale"]
    scale["y"] = 10_000
    found = proposed(shape, epsilon=3)
    (why,) = (one.reason for one in found.reasons if one.pointer == "/training/loss")
    assert "{mean, deviation}, by what is publicly known, in place" in why
    del scale["y"]
    assert "the size of y" in (proposed(shape, epsilon=3).needs or "")
    assert proposed(shape, private=False).expected_useful


def test_classes_without_a_favourable_one_need_a_rule_where_groups_are_compared() -> None:
    shape = facts(classes=3, clients=80, scale=RANGE)
    rule = {"op": "in", "value": ["a"]}
    for fairness, needs in (
        ({}, None),
        ({"sensitive": ["x0"]}, "which of 3 classes are favourable"),
        ({"sensitive": ["x0"], "favourable": rule}, None),
    ):
        known = replace(shape, registration={**shape.registration, "fairness": fairness})
        found = proposed(known, private=False).needs
        assert found is needs if needs is None else needs in found
        assert proposed(known).spec["privacy"]["mechanism"] == "gaussian-central"


def test_policies_floors_and_budgets_bind() -> None:
    policy = DisclosurePolicy(
        minimum_group_size=50,
        split=FixedSplit(validation_fraction=0.2, seed=7),
        source="registered",
    )
    floor = DisclosureFloor(minimum_group_clients=4)
    found = proposed(
        facts(scale=RANGE, policy=policy, floor=floor, may_simulate=False, epsilon_left=0.5)
    )
    assert found.spec["seed"] == 7
    assert found.spec["federation"]["validation_fraction"] == 0.2
    assert "standardise" not in found.spec["federation"]
    assert found.spec["fairness"] == {"minimum_group_size": 50, "minimum_group_clients": 4}
    assert found.spec["privacy"]["noise"] == "release"
    assert figure(found) <= 0.5


@pytest.mark.parametrize(
    ("known", "private", "why"),
    [
        ({"may_simulate": False}, False, "refuses runs without noise"),
        ({"epsilon_left": 2.0}, False, "refuses runs without noise"),
        ({"bounds_reports": True}, True, "`fairness.noise`"),
        ({"policy": DisclosurePolicy(sensitive=[])}, True, "/fairness/sensitive/0"),
        ({}, False, None),
    ],
)
def test_what_submission_would_refuse_is_not_expected_to_be_useful(known, private, why):
    shape = replace(facts(scale=RANGE), **known)
    shape = replace(shape, registration={**shape.registration, "fairness": {"sensitive": ["sex"]}})
    found = proposed(shape, private=private).needs
    assert found is why if why is None else why in found


def test_clients_of_very_different_size_are_measured_by_rows_and_averaged_after_each_step() -> None:
    uneven = facts(clients=40, rows=800, scale=RANGE, median_rows=50, most_rows=29_000)
    for unit in ("client", "record"):
        found = proposed(uneven, unit=unit).spec
        assert found["federation"]["validation_unit"] == "record"
    local = found["training"]["local"]
    assert (found["training"]["rounds"], local["steps"]) == (200, 1)
    even = proposed(facts(clients=40, rows=800, scale=RANGE), unit="record")
    # Rows of a client are on average 1/40 of what the sum is divided by.
    assert local["step_size"] == pytest.approx(even.spec["training"]["local"]["step_size"] * 40)


def test_a_rare_class_gets_its_share_as_threshold_and_longer_steps() -> None:
    def of_classes(rows: list[int], **aim: Any) -> dict[str, Any]:
        profile = {
            "clients": 300,
            "rows": 15_000,
            "features": ["x0"],
            "classes": ["yes", "no"],
            "class_balance": dict(zip(["no", "yes"], rows, strict=True)),
        }
        share = shown_facts(profile)["positive_share"]
        return proposed(facts(scale=RANGE, positive_share=share), **aim).spec

    even, rare, common = map(of_classes, ([5_000, 10_000], [300, 14_700], [14_700, 300]))
    assert "decision" not in even
    assert rare["decision"] == {"threshold": 1 / 64}
    assert common["decision"] == {"threshold": 63 / 64}
    # One row more changes nothing.
    assert of_classes([301, 14_699]) == rare
    steps = [one["training"]["local"]["step_size"] for one in (even, rare, common)]
    assert steps == [0.3, 2.4, 2.4]
    # Of records the rare class's gradients are cut less, and steps are shorter.
    even, rare = (of_classes(rows, unit="record") for rows in ([5_000, 10_000], [300, 14_700]))
    assert (even["privacy"]["clip"], rare["privacy"]["clip"]) == (1, 2)
    steps = [one["training"]["local"]["step_size"] for one in (even, rare)]
    assert steps[1] == pytest.approx(0.3 * steps[0], rel=0.05)


@pytest.mark.parametrize("aim", [{"epsilon": 3.0}, {"leakage": 20.0}])
def test_of_a_class_that_is_too_rare_no_useful_model_is_expected_under_noise(aim: Any) -> None:
    rare, rarest = (facts(rows=1_000, scale=RANGE, positive_share=1 / one) for one in (256, 512))
    assert proposed(rare, **aim).expected_useful
    assert "no guarantee covers it" in repr(proposed(rare, **aim).reasons)
    needs = proposed(rarest, **aim).needs
    assert "one row in 512" in (needs or "")
    assert proposed(rarest, private=False).expected_useful


@pytest.mark.parametrize(
    ("aim", "largest", "classes", "share"),
    [
        ({"private": False}, 40, 2, None),
        ({"epsilon": 3}, 40, 2, None),
        ({"epsilon": 1, "unit": "record"}, 40, 2, None),
        ({"epsilon": 3}, 3_200, 2, None),
        ({"epsilon": 1, "unit": "record"}, 3_200, 2, None),
        ({"epsilon": 0.3}, 40, 0, None),
        ({"leakage": 5}, 40, 0, None),
        ({"leakage": 20}, 40, 2, 0.02),
        ({"epsilon": 3, "unit": "record"}, 40, 2, 0.02),
        ({"epsilon": 3, "unit": "client"}, 40, 2, 0.02),
    ],
)
def test_a_proposal_learns_from_a_made_up_table(tmp_path, aim, largest, classes, share):
    rows = [largest, *[40] * 79]
    shape = replace(
        facts(clients=80, features=4, scale=RANGE, classes=classes),
        rows=sum(rows),
        median_rows=40,
        most_rows=largest,
        positive_share=share,
    )
    random = np.random.default_rng(7)
    lines = ["town,x0,x1,x2,x3,y"]
    for town, count in enumerate(rows):
        for x in random.normal(size=(count, 4)):
            score = 2 * x[0] - x[1] - (6.3 if share else 0)
            y = "ab"[int(random.random() < 1 / (1 + np.exp(-score)))]
            if classes == 0:
                y = f"{33 + 2 * score + 2 * random.normal():.4f}"
            lines.append(",".join([f"t{town}", *(f"{one:.4f}" for one in x), y]))
    (tmp_path / "people.csv").write_text("\n".join(lines))
    found = proposed(shape, **aim)
    spec = with_registration(found.spec, shape.registration)
    spec["federation"] = {**spec["federation"], "id": None, "path": "people.csv"}
    utility = ran(spec, tmp_path).report["utility"]
    if classes == 0:
        assert utility["loss_under_baseline"] > 0.3 * utility["baseline_loss"]
    if share:
        assert utility["weighted_accuracy_over_baseline"] > 0.1
    elif classes:
        assert utility["accuracy"] > utility["baseline_accuracy"] + 0.15
    assert utility["degenerate"] is False
    assert found.expected_useful


@pytest.mark.parametrize(
    ("aim", "name"),
    [
        ({"epsilon": 2}, "people, clients at epsilon 2"),
        ({"epsilon": 2, "unit": "record"}, "people, records at epsilon 2"),
        ({"leakage": 20}, "people, clients at leakage 20"),
        ({"private": False}, "people, without privacy"),
    ],
)
def test_runs_of_different_aims_have_different_names(aim: Any, name: str) -> None:
    assert proposed(facts(), **aim).spec["name"] == name
