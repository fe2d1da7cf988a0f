"""Labels against the codes that the data have."""

from pathlib import Path
from typing import Any

from tests.federations.conftest import Load, Refuse
from tests.federations.registering import profile_in, refused, registration

PEOPLE = "hospital,x,sex,cost\n" + "".join(
    f"h{row % 10},{row},{1 + row % 2},{row % 2}\n" for row in range(80)
)
FAIRNESS: dict[str, Any] = {"sensitive": ["sex"]}


def labelled(labels: dict[str, Any], **fairness: Any) -> dict[str, Any]:
    return {"federation.labels": labels, "fairness": {**FAIRNESS, **fairness}}


def test_labels_move_no_row_and_no_group(load: Load) -> None:
    plain, named = (load(labelled(labels), data=PEOPLE) for labels in ({}, {"sex": {"1": "male"}}))
    assert plain.fingerprint == named.fingerprint
    assert plain.attribute("sex").values == named.attribute("sex").values == ("1", "2")


def test_a_label_of_no_code_and_one_that_a_code_has_are_named(refuse: Refuse) -> None:
    faults = refuse(labelled({"sex": {"1": "2", "3": "other"}}), data=PEOPLE)
    assert set(faults) == {"/federation/labels/sex/1", "/federation/labels/sex/3"}
    assert "another group" in faults["/federation/labels/sex/1"]
    assert "'1', '2'" in faults["/federation/labels/sex/3"]


def test_groups_between_edges_are_labelled_by_their_names(load: Load, refuse: Refuse) -> None:
    labels = {"sex": {"<2": "first", ">=2": "second"}}
    assert load(labelled(labels, edges={"sex": [2]}), data=PEOPLE).rows == 80
    assert set(refuse(labelled(labels), data=PEOPLE)) == {
        "/federation/labels/sex/<2",
        "/federation/labels/sex/>=2",
    }


def test_a_registration_is_checked_and_its_labelled_target_taken_for_classes(
    tmp_path: Path,
) -> None:
    (tmp_path / "data.csv").write_text(PEOPLE)
    labels = {"cost": {"0": "cheap", "1": "dear"}, "sex": {"1": "male"}}
    found = profile_in(tmp_path, registration({"labels": labels}, fairness=FAIRNESS))
    assert found["classes"] == ["0", "1"]
    wrong = {"cost": {"7": "cheap"}, "sex": {"male": "male"}}
    faults = refused(tmp_path, registration({"labels": wrong}, fairness=FAIRNESS))
    as_numbers = {"cost": {"0.0": "cheap"}, "sex": {"1.0": "male"}}
    assert profile_in(tmp_path, registration({"labels": as_numbers}, fairness=FAIRNESS))["rows"]
    assert set(faults) == {"/federation/labels/cost/7", "/federation/labels/sex/male"}
