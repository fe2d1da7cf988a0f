"""A table in the browser: sent, looked at, corrected, registered, or removed after a day."""

import html
import re
from typing import Any

import pytest
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


def column(form: dict[str, str], name: str) -> str:
    """The beginning of the names of a column's fields."""
    [place] = [
        key for key, text in form.items() if text == name and re.fullmatch(r"c\d+-name", key)
    ]
    return place.removesuffix("name")


def test_a_table_is_proposed_corrected_and_registered_without_being_sent_again(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor)
    assert form["client_key"] == "town"
    assert (form["target"], form["positive"]) == ("passed", "yes")
    sex = column(form, "sex")
    assert form[f"{sex}role"] == "sensitive"
    # Every fault at once, each beside its field, and what was typed stays.
    wrong = {
        **form,
        "name": "",
        "positive": "yes",
        f"{sex}labels": "1 = men\n2",
        f"{column(form, 'age')}edges": "50, 30",
        f"{column(form, 'hours')}scale": "-3",
        "action": "register",
    }
    wrong[f"{column(form, 'age')}role"] = "sensitive"
    faulty = visitor.post(address, wrong)
    assert faulty.status_code == 422
    places = set(re.findall(r'<li><a href="#([\w-]+)">', faulty.text))
    age, hours = column(form, "age"), column(form, "hours")
    assert places == {"name", f"{sex}labels", f"{age}edges", f"{hours}scale"}
    assert form_fields(faulty.text, address)[f"{sex}labels"] == "1 = men\n2"
    # What only the data show is told here too, before anything is registered.
    undeclared = {**form, f"{column(form, 'note')}role": "feature", "action": "register"}
    undeclared[f"{column(form, 'note')}kind"] = "numeric"
    told = visitor.post(address, undeclared)
    assert told.status_code == 422
    assert f'href="#{column(form, "note")}role"' in told.text
    assert api.counts()["federations"] == 0

    right = {**form, f"{sex}labels": "1 = men\n2 = women", "action": "register"}
    answer = visitor.post(address, right)
    assert answer.status_code == 303, answer.text
    row = stored(api, answer.headers["location"].rpartition("/")[2])
    assert row.status == "profiling"
    assert row.file_name == "people.csv"
    assert row.registration["federation"]["path"] == "people.csv"
    assert row.registration["federation"]["labels"] == {"sex": {"1": "men", "2": "women"}}
    assert row.registration["fairness"]["sensitive"][0] == "sex"
    assert len(files_of(api)) == 1
    assert api.counts()["pending_uploads"] == 0
    # A double click leads to the same.
    assert visitor.post(address, right).headers["location"] == answer.headers["location"]


def test_a_fault_is_said_by_its_label_in_words_and_with_all_others(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor)
    hours = f"{column(form, 'hours')}scale"
    wrong = {**form, "action": "register", "name": "", hours: "1,5", "positive": "Yes"}
    told = html.unescape(visitor.post(address, wrong).text)
    said = dict(re.findall(r'<li><a href="#[\w-]+">([^<]+)</a>: ([^<]+)</li>', told))
    assert said == {
        "Name": "is empty",
        "hours: Divisor": "has a comma; write 1.5 with a point",
        "Favourable class": "no row of 'passed' holds 'Yes'; it holds no, yes; did you mean 'yes'?",
    }
    assert "/federation/" not in told
    # Details are folded, except where something in them is wrong.
    assert told.count("<details open>") == 1


def test_a_column_has_a_row_with_sample_role_and_reason(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor)
    page = html.unescape(visitor.get(address).text)
    rows = re.findall(r'<div class="column".*?</details>', page, re.DOTALL)
    assert len(rows) == 6
    facts = {
        re.findall("<strong>(.*?)</strong>", row)[0]: re.sub("<[^>]+>|\\s+", " ", row)
        for row in rows
    }
    assert "numbers, 5 different" in facts["age"]
    assert "20, 21, 22, 23, 24" in facts["age"]
    assert "20.0% empty" in facts["hours"]
    assert "1 to 4" not in facts["hours"]
    assert "names clients" in facts["town"]
    assert "is predicted" in facts["passed"]
    assert form[f"{column(form, 'hours')}fill"] == "2", "the median"


def test_the_same_content_under_another_name_says_what_it_replaced(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor, CONTENT)
    visitor.post(address, {**form, "name": "first", "action": "register"})
    address, form = proposed(visitor, CONTENT)
    answer = visitor.post(address, {**form, "name": "second", "action": "register"})
    assert "this registration replaced that one" in visitor.get(answer.headers["location"]).text
    body = upload(api, value=registration(name="third"))
    assert body["warnings"] == ["replaced the registration of 'second', which has the same content"]
    assert upload(api, value=registration(name="third"))["warnings"] == []


def test_cells_are_shown_escaped_cut_and_few(api: Api) -> None:
    visitor = signed_in(api)
    address, _ = proposed(visitor)
    page = visitor.get(address).text
    preview = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert preview.count("<tr>") == pending_uploads.FIRST_ROWS
    assert "<b>" not in preview
    assert "&lt;b&gt;x&lt;/b&gt;" in preview
    assert max(map(len, map(html.unescape, re.findall("<td>([^<]*)</td>", preview)))) == 40


def test_nobody_else_sees_it_and_it_needs_the_scope(api: Api) -> None:
    owner = signed_in(api)
    address, form = proposed(owner)
    for other in (signed_in(api, "federations:read", "federations:write"),):
        assert other.get(address).status_code == 404
        assert other.post(address, {**form, "action": "register"}).status_code == 404
    reader = signed_in(api, "federations:read")
    assert reader.get(NEW).status_code == 403
    assert reader.get(address).status_code == 403
    assert send(reader).status_code == 403
    assert NEW not in reader.get("/federations").text
    assert f'href="{NEW}"' in owner.get("/federations").text
    assert len(files_of(api)) == 1


def test_a_form_from_elsewhere_stores_nothing(api: Api) -> None:
    visitor = signed_in(api)
    assert send(visitor, csrf="0" * 64).status_code == 403
    assert files_of(api) == []


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [(b"", "", "choose a file"), (b"", "a.csv", "is empty"), (b"\x1f\x8bxx", "a.csv.gz", "gzip")],
)
def test_a_file_that_cannot_be_taken_is_said_beside_its_field(api, content, name, said):
    answer = send(signed_in(api), content, name=name)
    assert answer.status_code == 422
    assert said in re.findall(r'id="e-file" role="alert">([^<]*)<', answer.text)[0]
    assert files_of(api) == []
    assert api.counts()["pending_uploads"] == 0


def test_what_is_no_table_is_said_and_removed(api: Api) -> None:
    visitor = signed_in(api)
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
    with api.database.write() as session:
        session.execute(update(PendingUpload).values(expires_at=seconds_from_now(-1.0)))
    assert visitor.get(address).status_code == 404
    assert len(files_of(api)) == 1
    api.client.app.state.resources.tidy_storage()
    assert files_of(api) == []
    assert api.counts()["pending_uploads"] == 0


def test_content_that_is_registered_already_is_kept_once(api: Api) -> None:
    visitor = signed_in(api)
    address, form = proposed(visitor, CONTENT)
    first = visitor.post(address, {**form, "action": "register"})
    again, form = proposed(visitor, CONTENT)
    second = visitor.post(again, {**form, "action": "register"})
    assert first.headers["location"] == second.headers["location"]
    assert len(files_of(api)) == 1


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
        with api.database.write() as session:
            session.execute(table_of(PendingUpload).insert().values(left))
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
