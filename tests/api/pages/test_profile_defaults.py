"""The form on registered data: its defaults follow from their profile, registration and policy."""

import re

from api.pages import experiment_form as fields
from tests.api.pages.browser import signed_in
from tests.api.pages.test_new_experiment import NEW, text_of
from tests.api.service import Api
from tests.api.uploads import make_ready, upload
from tests.html_forms import form_fields

SHARE, COHORT = "/federation/validation_fraction", "/training/cohort/rate"


def test_the_form_begins_with_what_suits_the_data_and_can_be_priced_unchanged(api: Api) -> None:
    registered = upload(api)
    make_ready(api, registered["id"], target="income", classes=[])
    browser = signed_in(api)
    answer = browser.get(f"{NEW}?federation_id={registered['id']}")
    stated = text_of(answer)
    assert "the target is a number; the plainest model needs least noise" in stated
    assert "Projected: an epsilon of at most 3 at delta = 0.001." in stated
    assert "No useful model is expected: nothing is known of the size of the features" in stated
    assert "Favourable outcome, as registered: income >= 50." in stated
    [name] = re.findall('<input[^>]*name="/name"[^>]*>', answer.text)
    assert 'value="incomes"' in name
    # The button gives the same to whoever chooses the data in the form, and keeps the rest.
    chosen = {**fields.blank(), fields.SOURCE: registered["id"], "/training/rounds": "3"}
    filled = browser.post(NEW, {**chosen, "action": "defaults"})
    assert filled.status_code == 200
    form = {
        name: re.findall(f'<input[^>]*name="{name}" value="([^"]*)"', filled.text)[0]
        for name in ("/name", COHORT, SHARE, "/training/rounds")
    }
    assert form == {"/name": "incomes", COHORT: "1.0", SHARE: "0.49", "/training/rounds": "30"}
    priced = browser.post(NEW, {**form_fields(filled.text, NEW), "action": "preview"})
    assert priced.status_code == 200, text_of(priced)
    assert "20 of 40 clients in training" in text_of(priced)
    assert "hard to judge" not in text_of(priced)


def test_a_projected_leakage_is_never_shown_smaller_than_it_is(api: Api) -> None:
    registered = upload(api)
    make_ready(api, registered["id"], target="income", classes=[])
    total = {"figure": "leakage", "book": "release", "total": 1.2345}
    set_ = api.request("PUT", f"/v1/federations/{registered['id']}/budget", json=total)
    assert set_.status_code == 200, set_.text
    stated = text_of(signed_in(api).get(f"{NEW}?federation_id={registered['id']}"))
    assert "Projected: a leakage of at most 1.24." in stated
