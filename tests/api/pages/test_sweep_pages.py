"""The pages of sweeps: what a sweep costs, its table and drawing, its end, and what a key opens."""

import csv
import io
import re
from html import unescape
from typing import Any

from tests.api.pages.browser import signed_in, text_of
from tests.api.service import Api, body_of, fail, finish, spec

NU = "privacy.noise_multiplier"


def submitted(api: Api, **changes: Any) -> dict[str, Any]:
    asked = {"name": "<b>two</b> noises", "base": spec(), "grid": {NU: [1, 3]}, **changes}
    return dict(body_of(api.post("/v1/sweeps", json=asked), 202))


def test_a_sweep_from_its_first_cell_to_its_table(api: Api) -> None:
    sweep = submitted(api, repeats=2)
    browser, path = signed_in(api), f"/sweeps/{sweep['id']}"
    assert f'href="{path}"' in browser.get("/sweeps").text
    waiting = browser.get(path).text
    assert "&lt;b&gt;two&lt;/b&gt; noises" in waiting
    assert '<meta http-equiv="refresh" content="5">' in waiting
    assert "refresh" not in browser.get(f"{path}?refresh=no").text.partition("<main")[0]
    assert "The table begins with the first cell that succeeds" in waiting
    for cell in sweep["cells"]:
        loss = {1: 1.0, 3: 5.0}[cell["values"][NU]] + cell["values"]["seed"] / 100
        finish(api, cell["experiment_id"], validation_loss=loss)
    ended = browser.get(path).text
    assert "http-equiv" not in ended
    assert all(f'href="/experiments/{cell["experiment_id"]}"' in ended for cell in sweep["cells"])
    text = text_of(browser.get(path))
    for words in (
        *("4 of 4 cells ended", "Leakage at most", "see log_ratio_max"),
        "Cells draw simulated noise",
        "the figures of a row that was chosen for them look better than they are",
    ):
        assert words in text
    cell_page = browser.get(f"/experiments/{sweep['cells'][0]['experiment_id']}").text
    assert f'<a href="{path}">' in cell_page
    drawn = browser.get(f"{path}?x={NU}&y=validation_loss&lines=&only={NU} = 3").text
    assert "<strong>validation_loss over privacy.noise_multiplier</strong>" in drawn
    assert '<option value="validation_loss" selected>' in drawn
    files = re.findall('href="([^"]*/picture[.][^"]*)" download', drawn)
    svg, png = (browser.get(unescape(file)) for file in files)
    assert "validation_loss over privacy.noise_multiplier</title>" in svg.text
    assert png.content.startswith(b"\x89PNG")
    assert browser.get(f"{path}/picture.gif").status_code == 422
    lines = list(csv.DictReader(io.StringIO(browser.get(f"{path}/table.csv").text)))
    assert [line[NU] for line in lines] == ["1", "3"]
    assert browser.get(f"{path}/table.md").text.startswith(f"| {NU}")


def test_cancel_and_retry(api: Api) -> None:
    sweep = submitted(api)
    browser, path = signed_in(api), f"/sweeps/{sweep['id']}"
    assert "Retry what" not in browser.get(path).text
    fail(api, sweep["cells"][0]["experiment_id"])
    assert browser.post(f"{path}/cancel", csrf=None).status_code == 403
    answer = browser.post(f"{path}/cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    page = browser.get(path).text
    assert "Cancel all" not in page
    once = re.search(r'name="once" value="([^"]+)"', page)
    before = api.counts()["experiments"]
    for _ in range(2):
        assert browser.post(f"{path}/retry", {"once": once[1]}).status_code == 303
    assert api.counts()["experiments"] == before + 2
    assert api.get(f"/v1{path}").json()["progress"]["statuses"] == {"queued": 2}


def test_a_key_sees_what_its_scopes_allow(api: Api) -> None:
    sweep = submitted(api)
    finish(api, sweep["cells"][0]["experiment_id"])
    path = f"/sweeps/{sweep['id']}"
    reader, officer = signed_in(api, "experiments:read"), signed_in(api, "reports:read")
    page = reader.get(path).text
    shown = [words in page for words in ("What it costs together", "The table", "Cancel all")]
    assert shown == [True, False, False]
    refused = (reader.get(f"{path}/table.csv"), reader.post(f"{path}/cancel"), officer.get(path))
    assert [one.status_code for one in refused] == [403] * 3
    assert 'href="/sweeps"' not in officer.get("/reports").text
