"""The curves on a report's page come from the stored rounds."""

import pytest

from api.services import report_pages
from tests.api.service import ROUNDS, Api, finished


def test_the_page_draws_the_stored_rounds(api: Api) -> None:
    id_ = finished(api)
    page = api.get(f"/v1/experiments/{id_}/report.html").text
    for title in ("Leakage of a client", "Differences between groups of group", "Loss"):
        assert f"<strong>{title}, by round</strong>" in page
    assert f"Validation loss is 1.5 in round 1 and 0.5 in round {ROUNDS}." in page


def test_rounds_are_read_page_by_page(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = finished(api)
    with api.database.read() as session:
        whole = report_pages.stored_series(session, api.project_id, id_)
        assert whole.rounds == tuple(range(1, ROUNDS + 1))
        for size in (1, 2):
            monkeypatch.setattr(report_pages, "_AT_ONCE", size)
            assert report_pages.stored_series(session, api.project_id, id_) == whole
