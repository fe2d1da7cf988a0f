"""The form on registered data: its defaults follow from their profile, registration and policy."""

import re
from typing import Any

import pytest

from api.pages import spec_fields as fields
from api.pages import spec_sheet as sheet
from api.pages.spec_preview import profile_defaults
from fedaudit.spec.disclosure import DisclosurePolicy, FixedSplit
from models.tables.federations import Federation
from tests.api.pages.browser import signed_in
from tests.api.pages.test_new_experiment import NEW, text_of
from tests.api.service import Api
from tests.api.uploads import make_ready, upload

SHARE, COHORT = "/federation/validation_fraction", "/training/cohort/clients"


def federation(
    *, clients: int = 60, classes: tuple[str, ...] = ("0", "1"), **source: Any
) -> Federation:
    registered = {"source": "table", "client_key": "town", "target": "hired", **source}
    fairness = {"sensitive": ["sex"], "minimum_group_size": 40}
    return Federation(
        id="01890a5d-ac96-774b-bcce-b302099a8057",
        name="people",
        registration={"name": "people", "federation": registered, "fairness": fairness},
        profile={"clients": clients, "rows": 600, "target": "hired", "classes": list(classes)},
    )


@pytest.mark.parametrize(
    ("clients", "share", "drawn", "judged"),
    [
        (2, "0.3", "1", False),
        (3, "0.3", "2", False),
        (38, "0.3", "13", False),
        (40, "0.49", "10", True),
        (60, "0.33", "20", True),
        (1000, "0.3", "70", True),
    ],
)
def test_enough_clients_are_held_out_to_judge_gaps_where_there_are_enough(
    clients: int, share: str, drawn: str, judged: bool
) -> None:
    found = profile_defaults(federation(clients=clients), DisclosurePolicy())
    assert (found.typed[SHARE], found.typed[COHORT]) == (share, drawn)
    assert any("hard to judge" in note for note in found.notes) != judged


def test_a_policy_goes_before_what_the_data_suggest() -> None:
    split = FixedSplit(validation_fraction=0.2, seed=3)
    policy = DisclosurePolicy(minimum_group_size=12, split=split)
    found = profile_defaults(federation(), policy)
    assert found.typed[SHARE] == "0.2"
    assert found.typed["/fairness/minimum_group_size"] == "12"
    assert any("12 clients held out, whose intervals are wide" in note for note in found.notes)
    own = profile_defaults(federation(), DisclosurePolicy())
    assert own.typed["/fairness/minimum_group_size"] == "40"


def test_the_form_begins_with_what_suits_the_data_and_can_be_priced_as_it_stands(api: Api) -> None:
    registered = upload(api)
    make_ready(api, registered["id"], target="income", classes=[])
    browser = signed_in(api)
    answer = browser.get(f"{NEW}?federation_id={registered['id']}")
    stated = text_of(answer)
    assert "The target, income, is a number: linear with rmse." in stated
    assert "Favourable outcome, as registered: income >= 50." in stated
    [name] = re.findall('<input[^>]*name="/name"[^>]*>', answer.text)
    assert 'value="incomes"' in name
    # The button gives the same to whoever chooses the data in the form, and keeps the rest.
    chosen = {**sheet.blank(), fields.SOURCE: registered["id"], "/training/rounds": "3"}
    filled = browser.post(NEW, {**chosen, "action": "defaults"})
    assert filled.status_code == 200
    form = {
        name: re.findall(f'<input[^>]*name="{name}" value="([^"]*)"', filled.text)[0]
        for name in ("/name", COHORT, SHARE, "/training/rounds")
    }
    assert form == {"/name": "incomes", COHORT: "10", SHARE: "0.49", "/training/rounds": "3"}
    priced = browser.post(NEW, {**chosen, **form, "action": "preview"})
    assert priced.status_code == 200, text_of(priced)
    assert "20 of 40 clients in training" in text_of(priced)
    assert "hard to judge" not in text_of(priced)
