"""A table in the browser: sent, looked at, corrected, registered, or removed after a day."""

import html
import re
from typing import Any

import yaml
from sqlalchemy import select, update

from api.services import pending_uploads
from models.clock import seconds_from_now
from models.repositories.base import table_of
from models.tables.federations import PendingUpload
from tests.api.pages.browser import HOST, Browser, signed_in
from tests.api.service import Api
from tests.api.uploads import CONTENT, files_of, registration, stored, upload
from tests.html_forms import form_fields

NEW = "/federations/new"
PEOPLE = "\n".join(
    [
        "town,sex,age,hours,note,passed",
        *(
            f"t{town},{row % 2 + 1},{20 + row},{row if row else ''},{'<b>x</b>' * 9},"
            f"{'yes' if (town + row) % 3 else 'no'}"
            for town in range(12)
            for row in range(5)
        ),
        "",
    ]
).encode()


def send(
    visitor: Browser, content: bytes = PEOPLE, *, name: str = "people.csv", csrf: str | None = None
) -> Any:
    """The form with a file, as browsers send it: the session's word before the file."""
    word = visitor.csrf() if csrf is None else csrf
    parts = [("csrf", (None, word)), ("file", (name, content, "text/csv"))]
    sent = {"Accept": "text/html", "Origin": f"http://{HOST}"}
    return visitor.client.post(NEW, files=parts, headers=sent, follow_redirects=False)


def proposed(visitor: Browser, content: bytes = PEOPLE) -> tuple[str, dict[str, str]]:
    """The address of a table that was sent, and what its form begins with."""
    answer = send(visitor, content)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    return address, form_fields(visitor.get(address).text, address)


def corrected(form: dict[str, str], **sections: Any) -> dict[str, str]:
    """What the form sends with other fields in its registration."""
    value = yaml.safe_load(form["document"])
    for name, section in sections.items():
        value[name] = {**value[name], **section} if isinstance(section, dict) else section
    return {**form, "document": yaml.safe_dump(value), "action": "register"}


def test_a_table_is_proposed_corrected_and_registered_without_being_sent_again(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor)
    value = yaml.safe_load(form["document"])
    read = value["federation"]
    assert (read["client_key"], read["target"], read["positive"]) == ("town", "passed", "yes")
    assert value["fairness"]["sensitive"] == ["sex", "age"]
    assert "# " in form["document"], "guesses have their reasons"
    # Every fault at once, each with its place, and what was typed stays.
    wrong = corrected(form, name="", federation={"scale": {"hours": -3}, "labels": {"sex": 2}})
    faulty = visitor.post(address, wrong)
    assert faulty.status_code == 422
    places = re.findall(r"<li>([^:<]+): ", faulty.text)
    assert places == ["name", "federation › labels › sex", "federation › scale › hours"]
    assert form_fields(faulty.text, address)["document"] == wrong["document"].strip()
    unread = visitor.post(address, {**form, "document": "name: [", "action": "register"})
    assert (unread.status_code, "The registration: " in unread.text) == (422, True)
    # What only the data show is stated here too, before anything is registered.
    undeclared = corrected(form, federation={"features": ["age", "note"]})
    answer = visitor.post(address, undeclared)
    assert answer.status_code == 422
    assert "federation › features › note: " in answer.text
    # Columns and classes that the file lacks are named beside faults of the form.
    lacking = {"features": ["age", {"name": "agee"}], "positive": "maybe", "scale": {"age": "1,5"}}
    answer = visitor.post(address, corrected(form, name="", federation=lacking))
    faults = re.findall(r"<li>([^<]+)", html.unescape(answer.text))
    assert [one.partition(": ")[0] for one in faults] == [
        "federation › features › agee",
        "federation › positive",
        "name",
        "federation › scale › age",
    ]
    assert "did you mean 'age'?" in faults[0]
    assert "has no class 'maybe'; it has 'no', 'yes'" in faults[1]
    assert faults[3].endswith("has a comma; write 1.5 with a point")
    assert api.counts()["federations"] == 0

    right = corrected(form, federation={"labels": {"sex": {"1": "men", "2": "women"}}})
    answer = visitor.post(address, right)
    assert answer.status_code == 303, answer.text
    row = stored(api, answer.headers["location"].rpartition("/")[2])
    assert (row.status, row.file_name) == ("profiling", "people.csv")
    assert row.registration["federation"]["path"] == "people.csv"
    assert row.registration["federation"]["labels"] == {"sex": {"1": "men", "2": "women"}}
    assert row.registration["fairness"]["sensitive"] == ["sex", "age"]
    assert len(files_of(api)) == 1
    assert api.counts()["pending_uploads"] == 0
    # A double click leads to the same.
    assert visitor.post(address, right).headers["location"] == answer.headers["location"]


def test_columns_are_shown_with_few_escaped_cells_and_chosen_for_another_proposal(api) -> None:
    visitor = signed_in(api)
    address, _ = proposed(visitor)
    again = visitor.get(f"{address}?client_key=age&target=sex").text
    read = yaml.safe_load(form_fields(again, address)["document"])["federation"]
    assert (read["client_key"], read["target"]) == ("age", "sex")
    assert again.count("selected") == 2
    data = visitor.get(f"{address}?header=false").text
    assert yaml.safe_load(form_fields(data, address)["document"])["federation"]["header"] is False
    page = visitor.get(address).text
    cell = '<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>'
    facts = {name: f"{holds} {few}" for name, holds, few in re.findall(cell, html.unescape(page))}
    assert list(facts) == ["town", "sex", "age", "hours", "note", "passed"]
    assert facts["age"] == "numbers, 5 different 20, 21, 22, 23, 24"
    assert "20.0% empty" in facts["hours"]
    preview = page.partition("How the file begins")[2].partition("<tbody>")[2]
    preview = preview.partition("</tbody>")[0]
    assert preview.count("<tr>") == pending_uploads.FIRST_ROWS
    assert "<b>" not in preview
    assert "&lt;b&gt;x&lt;/b&gt;" in preview
    assert max(map(len, map(html.unescape, re.findall("<td>([^<]*)</td>", preview)))) == 40


def test_the_same_content_under_another_name_is_kept_once_and_says_what_it_replaced(api) -> None:
    visitor = signed_in(api)
    answers = []
    for name in ("first", "second"):
        address, form = proposed(visitor, CONTENT)
        answers.append(visitor.post(address, corrected(form, name=name)).headers["location"])
    assert answers[0] == answers[1].removesuffix("?replaced=true")
    assert len(files_of(api)) == 1
    assert "this registration replaced that one" in visitor.get(answers[1]).text
    body = upload(api, value=registration(name="third"))
    assert body["warnings"] == ["replaced the registration of 'second', which has the same content"]
    assert upload(api, value=registration(name="third"))["warnings"] == []


def test_no_other_key_sees_it_and_it_needs_the_scope(api: Api) -> None:
    owner = signed_in(api)
    address, form = proposed(owner)
    other = signed_in(api, "federations:read", "federations:write")
    asked = (other.get(address), other.post(address, {**form, "action": "register"}))
    assert [one.status_code for one in asked] == [404, 404]
    reader = signed_in(api, "federations:read")
    refused = (reader.get(NEW), reader.get(address), send(reader), send(owner, csrf="0" * 64))
    assert [one.status_code for one in refused] == [403] * 4
    assert NEW not in reader.get("/federations").text
    assert f'href="{NEW}"' in owner.get("/federations").text
    assert len(files_of(api)) == 1


def test_a_file_that_cannot_be_taken_and_what_is_no_table_is_said_and_removed(api: Api) -> None:
    visitor = signed_in(api)
    for content, name, said in (
        *((b"", "", "choose a file"), (b"", "a.csv", "is empty")),
        (b"\x1f\x8bxx", "a.csv.gz", "gzip"),
    ):
        answer = send(visitor, content, name=name)
        assert answer.status_code == 422
        assert said in re.findall(r'id="e-file" role="alert">([^<]*)<', answer.text)[0]
        assert (files_of(api), api.counts()["pending_uploads"]) == ([], 0)
    address = send(visitor, b"PK\x03\x04 no table \x00\xff").headers["location"]
    answer = visitor.get(address)
    assert answer.status_code == 422
    assert "is no table that can be shown" in answer.text
    assert visitor.post(address, {"action": "discard"}).headers["location"] == NEW
    assert files_of(api) == []


def test_after_a_day_it_is_gone(api_on_both: Api) -> None:
    api = api_on_both
    visitor = signed_in(api)
    address, _ = proposed(visitor)
    assert "people.csv" in visitor.get(NEW).text
    api.change(update(PendingUpload).values(expires_at=seconds_from_now(-1.0)))
    assert visitor.get(address).status_code == 404
    assert len(files_of(api)) == 1
    api.client.app.state.resources.tidy_storage()
    assert files_of(api) == []
    assert api.counts()["pending_uploads"] == 0


def test_a_registered_file_outlives_what_is_left_of_its_upload(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor)
    with api.database.read() as session:
        left = dict(session.execute(select(table_of(PendingUpload))).mappings().one())
    assert visitor.post(address, {**form, "action": "register"}).status_code == 303
    assert api.counts()["pending_uploads"] == 0
    # As a registration left it that ended between its two transactions.
    for remove in (
        lambda: visitor.post(address, {"action": "discard"}),
        api.client.app.state.resources.remove_expired_uploads,
    ):
        api.change(table_of(PendingUpload).insert().values(left))
        remove()
        left["expires_at"] = seconds_from_now(-1.0)
        assert api.counts()["pending_uploads"] == 0
        assert len(files_of(api)) == 1


def test_what_is_discarded_while_it_is_checked_is_not_registered(api, monkeypatch):
    visitor = signed_in(api)
    address, form = proposed(visitor)

    def discarding(*_: object) -> None:
        assert visitor.post(address, {"action": "discard"}).status_code == 303

    monkeypatch.setattr(pending_uploads, "_check_data", discarding)
    assert visitor.post(address, {**form, "action": "register"}).status_code == 404
    assert api.counts()["federations"] == 0
    assert files_of(api) == []
