"""Quotas of a project: nobody slips past one, and a refusal says which it was."""

import threading
from pathlib import Path

from models.repositories import ProjectUsageRepository
from tests.api.service import SPEC, Api, running_api, settings_for
from tests.api.uploads import CONTENT, parts


def test_experiments_sent_at_once_do_not_pass_the_quota(database_url: str, tmp_path: Path) -> None:
    with running_api(settings_for(database_url, tmp_path, quota_running=2)) as api:
        together, found = threading.Barrier(5), []

        def submit() -> None:
            together.wait()
            while True:
                answer = api.post("/v1/experiments", json=SPEC)
                # A project loads one spec at a time, and few wait: that is another 429.
                if answer.status_code == 202 or "quota" in answer.json():
                    found.append(answer)
                    return

        threads = [threading.Thread(target=submit) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        accepted = [one.json()["id"] for one in found if one.status_code == 202]
        refused = [one for one in found if one.status_code == 429]
        assert (len(accepted), len(refused)) == (2, 3)
        problem = refused[0].json()
        assert problem["type"].endswith("/rate-limited")
        assert (problem["quota"], problem["limit"]) == ("running", 2)
        assert int(refused[0].headers["retry-after"]) > 0
        # What was refused left nothing: no deed, no reservation.
        deeds = api.get("/v1/audit-log?action=experiment.submitted").json()["items"]
        assert sorted(one["subject"] for one in deeds) == sorted(accepted)
        assert api.post("/v1/experiments", json=SPEC, key=_other(api)).status_code == 202
        api.post(f"/v1/experiments/{accepted[0]}/cancel")
        assert api.post("/v1/experiments", json=SPEC).status_code == 202


def test_a_file_beyond_the_quota_is_not_kept(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(
        settings_for(sqlite_url, tmp_path, quota_stored_bytes=len(CONTENT) + 9)
    ) as api:
        assert api.post("/v1/federations", files=parts()).status_code == 202
        # The same content again needs no room.
        assert api.post("/v1/federations", files=parts()).status_code == 202
        refused = api.post("/v1/federations", files=parts(CONTENT + b"c1,a,1,11\n"))
        assert refused.status_code == 429
        assert refused.json()["quota"] == "stored-bytes"
        assert len(api.get("/v1/federations").json()["items"]) == 1
        kept = [path for path in (tmp_path / "data" / "files").rglob("*") if path.is_file()]
        assert len(kept) == 1


def test_requests_are_counted_over_the_projects_keys(database_url, tmp_path, monkeypatch):
    with running_api(settings_for(database_url, tmp_path, quota_requests_per_minute=2)) as api:
        monkeypatch.setattr("api.shared.security.time.time", lambda: 1_800_000_010.0)
        second = api.key_with("reports:read")
        first = api.get("/v1/experiments")
        assert first.headers["ratelimit-policy"] == '"requests";q=2;w=60'
        assert first.headers["ratelimit"] == '"requests";r=1;t=50'
        assert api.get("/v1/reports", key=second).status_code == 200
        refused = api.get("/v1/experiments")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "50")
        assert refused.headers["ratelimit"] == '"requests";r=0;t=50'
        assert refused.json()["quota"] == "requests-per-minute"
        assert api.get("/v1/experiments", key=_other(api)).status_code == 200
        # Keys that do not exist are not counted on anybody.
        assert api.get("/v1/experiments", key="fa_made-up").status_code == 401
        monkeypatch.setattr("api.shared.security.time.time", lambda: 1_800_000_300.0)
        assert api.get("/v1/experiments").status_code == 200
        with api.database.read() as session:
            assert ProjectUsageRepository(session, api.project_id).running() == 0


def _other(api: Api) -> str:
    """A key of another project, whose use is its own."""
    return api.key_with("experiments:read", "experiments:write", project="elsewhere")
