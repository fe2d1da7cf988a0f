"""The page on which experiments are priced and submitted."""

import re
from typing import Any

import yaml

from api.pages import experiment_form as fields
from api.pages import experiment_form as sheet
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.parse import parse_spec
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import SPEC, Api, spec
from tests.api.uploads import make_ready, upload
from tests.html_forms import form_fields

NEW = "/experiments/new"
SMALL = {
    "/federation/clients_per_group": "30, 10",
    "/federation/rows_per_client": "3",
    "/training/rounds": "4",
    "/training/cohort/clients": "5",
    "/privacy/noise_multiplier": "3",
    "/privacy/radius": "adaptive",
    "/privacy/clip": "",
}
"""As SPEC of the service's tests: n / nu is 1 a release."""


def typed(**changes: str) -> dict[str, str]:
    """The form as it is first shown, for a small task."""
    form = {**sheet.blank(), **SMALL, "action": "preview"}
    return {**form, **changes}


def document(value: Any, **changes: str) -> dict[str, str]:
    return {"mode": "document", "document": yaml.safe_dump(value), "action": "preview", **changes}


def notices(answer: Any, words: str) -> list[str]:
    """The colours of the notices that say so."""
    assert answer.status_code == 200, text_of(answer)
    found = re.findall(r'<p class="notice ([\w-]+)"[^>]*>([^<]*)</p>', answer.text)
    return [tone for tone, said in found if words in said]


def test_the_cost_is_shown_and_nothing_is_stored(api: Api) -> None:
    before = api.counts()
    visitor = signed_in(api)
    stated = text_of(visitor.post(NEW, typed()))
    for words in (
        *("Leakage, worst case 4 of a client", "Noise multiplier", "heuristic"),
        "privacy.client_budget is not set",
        "No budget is set for noise mode simulation on these data",
    ):
        assert words in stated
    assert "budgets have room" not in stated
    for changes, words, absent in PREVIEWS:
        found = text_of(visitor.post(NEW, typed(**changes)))
        assert [one for one in words if one not in found] == [], changes
        assert [one for one in absent if one in found] == [], changes
    assert {**api.counts(), "web_sessions": 0} == {**before, "web_sessions": 0}


def test_a_bound_is_said_in_words_and_one_that_excludes_nothing_is_no_success(api: Api) -> None:
    visitor = signed_in(api)
    one_model = {"training": {"hypotheses": 1}}
    for multiplier, colour, badge, words in (
        (6, "notice-good", "guarantee-formal", "right at most 89% of the time"),
        (3, "notice-note", "guarantee-formal", "That is weak: "),
        (0.03, "notice-warn", "guarantee-suspended", "practically no protection"),
    ):
        privacy = {"radius": 1.0, "clip": 0.5, "noise": "release", "noise_multiplier": multiplier}
        answer = visitor.post(NEW, document(spec(privacy=privacy, **one_model)))
        assert colour in notices(answer, words)
        assert f'class="badge {badge}"' in answer.text
    # With a delta of one in three training clients no bound says anything of one of them.
    local = {"mechanism": "gaussian-local", "noise_multiplier": 60, "clip": 1.0, "delta": 0.4}
    asked = {**spec(**one_model), "privacy": {**local, "noise": "release"}}
    found = notices(visitor.post(NEW, document(asked)), "to be handed over whole")
    assert found == ["notice-warn"] * 2
    # Without a clip the figure holds within a radius that anyone may choose, and is no measure.
    tiny = typed(**{"/privacy/radius": "0.001", "/privacy/noise": "release"})
    found = notices(visitor.post(NEW, tiny), "How much that protects cannot be said")
    # Above the figures, and beside the fields of privacy.
    assert found == ["notice-note"] * 2


def test_the_form_as_it_begins_gives_a_proven_bound_once_its_noise_is_secret(api: Api) -> None:
    """The advice beside the radius and the default clip come to what a theorem covers."""
    visitor = signed_in(api)
    begun = {"/privacy/radius": "2", "/privacy/clip": "1", "/privacy/noise": "release"}
    assert sheet.blank().items() >= {**begun, "/privacy/noise": "simulation"}.items()
    answer = visitor.post(NEW, typed(**begun))
    assert 'class="badge guarantee-formal"' in answer.text
    assert "How much that protects cannot be said" not in answer.text
    assert "at least twice the clip" in answer.text
    submitted = visitor.post(NEW, typed(**begun, action="submit"))
    asked = api.stored(submitted.headers["location"].removeprefix("/experiments/"))
    inputs = mechanism_of(parse_spec(asked.spec)).inputs(n=asked.parameters)
    assert (inputs.guarantee, asked.spec["privacy"]["clip"]) == ("formal", 1.0)


CENTRAL = {"/privacy/mechanism": "gaussian-central", "/training/hypotheses": "1"}
PREVIEWS: tuple[tuple[dict[str, str], tuple[str, ...], tuple[str, ...]], ...] = (
    ({"/privacy/noise_multiplier": "1"}, (), ("likely drown",)),
    ({"/privacy/noise_multiplier": "30"}, ("Noise will likely drown what is learnt",), ()),
    (
        {**CENTRAL, "/privacy/noise_multiplier": "1", "/privacy/clip": "1"},
        ("Epsilon against", "at delta = 1e-5"),
        ("Leakage, worst case",),
    ),
    ({"/privacy/client_budget": "2"}, ("The earliest round that a budget may refuse 3 of 4",), ()),
)
"""Typed over the form, what is said then, and what is not."""


def test_faults_are_beside_their_fields_and_what_was_typed_stays(api: Api) -> None:
    wrong = {"/training/rounds": "nine", "/name": "", "/tags": "kept <b>, b", "/gates": "{op: le}"}
    answer = signed_in(api).post(NEW, typed(**wrong))
    assert answer.status_code == 422
    assert 'value="kept &lt;b&gt;, b"' in answer.text
    assert "<b>" not in answer.text
    field = re.search(r'<input id="field-training-rounds".*?</div>', answer.text, re.DOTALL)
    for part in (
        *('value="nine"', 'aria-invalid="true"', "must be a whole number"),
        'aria-describedby="field-training-rounds-fault"',
    ):
        assert part in field[0]
    assert '<a href="#field-name">' in answer.text
    # What a field lacks that holds several is named, at the top and beside it.
    assert "Gates › 1 › figure : is required" in text_of(answer)
    assert "1 › figure: is required" in text_of(answer)


def test_a_double_click_submits_once(api: Api) -> None:
    visitor = signed_in(api)
    once = re.search(r'name="once" value="([\w-]+)"', visitor.get(NEW).text)
    form = typed(action="submit", once=once[1])
    first, second = visitor.post(NEW, form), visitor.post(NEW, form)
    assert first.headers["location"] == second.headers["location"]
    assert api.counts()["experiments"] == 1
    # Other values under the same key: that is another experiment, and the author is asked.
    other = visitor.post(NEW, {**form, "/name": "other"})
    assert other.status_code == 409
    assert "press Submit again" in text_of(other)
    again = re.search(r'name="once" value="([\w-]+)"', other.text)
    assert visitor.post(NEW, {**form, "/name": "other", "once": again[1]}).status_code == 303
    assert api.counts()["experiments"] == 2


def test_a_full_budget_refuses_the_submission_in_words(api: Api) -> None:
    visitor = signed_in(api)
    first = visitor.post(NEW, typed(action="submit")).headers["location"]
    federation = api.stored(first.removeprefix("/experiments/")).federation_id
    other_book = typed(**{"/privacy/noise": "release"})
    for total, form, words in (
        (5.0, typed(), "has no room"),
        (5.0, other_book, "No budget is set for noise mode release"),
        (50.0, typed(), "budgets have room"),
        (5.0, typed(action="submit"), "raise the budget"),
    ):
        assert api.set_budget(federation, total).is_success
        answer = visitor.post(NEW, form)
        assert answer.status_code == (409 if form["action"] == "submit" else 200)
        assert words in text_of(answer)
    assert api.counts()["experiments"] == 1


def test_a_pasted_spec_is_priced_submitted_and_changed_later(api: Api) -> None:
    visitor = signed_in(api)
    assert "Leakage, worst case 4" in text_of(visitor.post(NEW, document(SPEC)))
    submitted = visitor.post(NEW, document(SPEC, action="submit"))
    # Blanks before it are kept.
    indented = "".join(f"  {line}\r\n" for line in yaml.safe_dump(SPEC).splitlines())
    form = {"mode": "document", "document": indented, "action": "preview"}
    assert visitor.post(NEW, form).status_code == 200
    like = submitted.headers["location"].removeprefix("/experiments/")
    again = visitor.get(f"{NEW}?like={like}").text
    assert "name: groups-k2" in again
    assert re.search(r'value="document"\s+checked', again)
    # One that is unknown or another project's is not found.
    theirs = api.submit(key=api.key_with("experiments:write", project="clinic"))
    for like in ("nothing", "01890a5d-ac96-774b-bcce-b302099a8057", "%00", theirs["id"]):
        assert visitor.get(f"{NEW}?like={like}").status_code == 404


def test_what_few_change_is_folded_until_it_is_changed_or_wrong(api: Api) -> None:
    browser = signed_in(api)
    blank = browser.get(NEW).text
    assert blank.count('<details class="advanced">') >= 3
    assert '<details class="advanced" open>' not in blank
    for name, value in (("/seed", "7"), ("/fairness/minimum_group_size", "few")):
        answer = browser.post(NEW, typed(**{name: value})).text
        assert answer.count('<details class="advanced" open>') == 1
        opened = answer.partition('<details class="advanced" open>')[2].partition("</details>")[0]
        assert f'name="{name}"' in opened


# -- the form on registered data ------------------------------------------------------------------

SHARE, COHORT = "/federation/validation_fraction", "/training/cohort/rate"


def test_the_form_begins_with_what_suits_the_data_and_can_be_priced_unchanged(api: Api) -> None:
    registered = upload(api)
    make_ready(api, registered["id"], target="income", classes=[])
    browser = signed_in(api)
    answer = browser.get(f"{NEW}?federation_id={registered['id']}")
    stated = text_of(answer)
    assert "the target is a number; the plainest model needs least noise" in stated
    assert "Projected: an epsilon of at most 2.94 at delta = 0.001." in stated
    assert "No useful model is expected: nothing is known of the size of the features" in stated
    assert "Favourable outcome, as registered: income >= 50." in stated
    [name] = re.findall('<input[^>]*name="/name"[^>]*>', answer.text)
    named = "incomes, clients at epsilon 2.94"
    assert f'value="{named}"' in name
    # The button gives the same after the data were chosen in the form, and keeps the rest.
    chosen = {**fields.blank(), fields.SOURCE: registered["id"], "/training/rounds": "3"}
    filled = browser.post(NEW, {**chosen, "action": "defaults"})
    assert filled.status_code == 200
    form = {
        name: re.findall(f'<input[^>]*name="{name}" value="([^"]*)"', filled.text)[0]
        for name in ("/name", COHORT, SHARE, "/training/rounds")
    }
    assert form == {"/name": named, COHORT: "1.0", SHARE: "0.49", "/training/rounds": "30"}
    priced = browser.post(NEW, {**form_fields(filled.text, NEW), "action": "preview"})
    assert priced.status_code == 200, text_of(priced)
    assert "20 of 40 clients in training" in text_of(priced)
    assert "hard to judge" not in text_of(priced)
    # A projected leakage is never shown smaller than it is.
    assert api.set_budget(registered["id"], 1.2345, book="release").status_code == 200
    stated = text_of(browser.get(f"{NEW}?federation_id={registered['id']}"))
    assert "Projected: a leakage of at most 1.24." in stated
