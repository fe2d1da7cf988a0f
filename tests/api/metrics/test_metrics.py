"""What `/metrics` says of the service, to whom, and that it names no person."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text, update

from infrastructure.settings import Settings, SettingsError, load_settings
from models.clock import seconds_from_now
from models.database import HEAD
from models.repositories import SweeperLeaseRepository, UnitRepository
from models.tables.experiments import Unit
from tests.api.service import SPEC, Api, finish, running_api, served, settings_for, spec
from tests.house import ROOT

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Every value, by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def scrape(api: Any, **options: Any) -> Samples:
    response = api.get("/metrics", **options)
    assert response.status_code == 200, response.text
    return samples(response.text)


TOKEN = "a-token-of-a-scraper-0123456789"


def with_token(database_url: str, folder: Path) -> Settings:
    """Settings that let who has TOKEN in."""
    (file := folder / "token").write_text(f"{TOKEN}\n")
    return settings_for(database_url, folder, metrics_token_file=file)


def test_units_experiments_and_the_outbox_are_counted(api_on_both: Api) -> None:
    api = api_on_both
    finish(api, api.submit()["id"])
    waiting = api.submit(spec(seed=8))
    lost = api.submit(spec(seed=9))
    lost_id, late_id = (api.stored(one["id"]).unit_id for one in (lost, waiting))
    with api.database.write() as session:
        units = UnitRepository(session)
        claim = units.claim(lost_id, worker="w", devices={"auto"}, lease_seconds=0)
        assert units.take_back(lost_id).id == claim.id
        session.execute(
            update(Unit).where(Unit.id == late_id).values(available_at=seconds_from_now(-50))
        )
        unsent = units.create(api.project_id, "cpu")
        units.mark_published([unsent.id], published=False)
        SweeperLeaseRepository(session).acquire("sweeper", holder="h", lease_seconds=30)
    found = scrape(api)
    assert value(found, "fedaudit_database_up") == 1
    assert value(found, "fedaudit_schema_info", current=HEAD, needed=HEAD) == 1
    assert value(found, "fedaudit_units", kind="run", state="waiting") == 4
    assert value(found, "fedaudit_unit_claims_total", kind="run") == 1
    assert value(found, "fedaudit_unit_lost_leases_total", kind="run") == 1
    assert 50 <= value(found, "fedaudit_unit_oldest_waiting_seconds", device="auto") < 500
    assert value(found, "fedaudit_unit_oldest_waiting_seconds", device="cuda") == 0
    assert value(found, "fedaudit_experiments", status="succeeded") == 1
    assert value(found, "fedaudit_experiments", status="queued") == 2
    assert value(found, "fedaudit_rounds_recorded_total") == 3
    assert value(found, "fedaudit_outbox_messages") == 2, (
        "one was never published, one not since it was taken back"
    )
    assert value(found, "fedaudit_sweeper_elected") == 1


def test_a_lease_that_another_worker_finds_lost_counts_too(api: Api) -> None:
    unit_id = api.stored(api.submit()["id"]).unit_id
    with api.database.write() as session:
        units = UnitRepository(session)
        for worker in ("first", "second"):
            assert units.claim(unit_id, worker=worker, devices={"auto"}, lease_seconds=0)
    assert value(scrape(api), "fedaudit_unit_lost_leases_total", kind="run") == 1


def test_requests_are_counted_by_route_and_never_by_address(api: Api) -> None:
    unknown = "01890000-0000-7000-8000-000000000000"
    api.submit({**SPEC, "name": "a-secret-name"})
    for _ in range(2):
        api.get(f"/v1/experiments/{unknown}")
    api.get(f"/nothing/at/{unknown}")
    api.request("HEAD", "/health/live")
    api.request("BREW", "/health/live")
    response = api.get("/metrics")
    found, count = samples(response.text), "fedaudit_http_request_duration_seconds_count"
    experiment = {"method": "GET", "route": "/v1/experiments/{experiment_id}", "status": "4xx"}
    assert value(found, count, **experiment) >= 2
    assert value(found, count, method="HEAD", route="/health/live", status="2xx") >= 1
    assert value(found, count, method="GET", route="other", status="4xx") >= 1
    # Nor does anything appear that an owner named.
    named = ("a-secret-name", "hospital", "synthetic-groups", api.key)
    assert [one for one in (unknown, "BREW", *named) if one in response.text] == []


def test_only_who_runs_the_service_reads_them(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(with_token(sqlite_url, tmp_path)) as api:
        for key in (None, "fa_made-up", TOKEN[:-1]):
            assert api.get("/metrics", key=key).status_code == 401
        refused = api.get("/metrics", key=api.key_with("admin", "ledger:read"))
        assert (refused.status_code, refused.json()["scope"]) == (403, "metrics:read")
        assert api.get("/metrics", key=api.key_with("metrics:read")).status_code == 200
        assert api.get("/metrics", key=TOKEN).status_code == 200
        # An administrator of one project cannot let themselves see all of them.
        wish = {"name": "mine", "scopes": ["metrics:read"]}
        assert api.post("/v1/api-keys", json=wish).status_code == 422


def test_with_the_token_an_absent_database_is_a_figure(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(with_token(sqlite_url, tmp_path)) as api:
        api.change(text("UPDATE alembic_version SET version_num = '0001'"))
        found = scrape(api, key=TOKEN)
        assert value(found, "fedaudit_schema_matches") == 0
        assert not any(name == "fedaudit_units" for name, _ in found)
        api.client.app.state.resources.database.close()
        (tmp_path / "fedaudit.db").unlink()
        (tmp_path / "fedaudit.db").mkdir()
        assert value(scrape(api, key=TOKEN), "fedaudit_database_up") == 0


def test_a_token_that_is_easily_guessed_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "token"
    assert Settings(data_dir=tmp_path).metrics_token() is None
    monkeypatch.setenv("FEDAUDIT_METRICS_TOKEN_FILE", str(file))
    with pytest.raises(SettingsError, match=r"METRICS_TOKEN_FILE.*cannot be read"):
        load_settings()
    file.write_text("short\n")
    with pytest.raises(SettingsError, match=r"METRICS_TOKEN_FILE.*openssl rand"):
        load_settings()


def test_the_scrape_of_the_manual_is_answered(sqlite_url, tmp_path):
    page = (ROOT / "docs/tools.md").read_text()
    [found] = re.findall(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    [job] = yaml.safe_load(found)["scrape_configs"]
    # Prometheus' defaults: the path /metrics, and the type Bearer.
    assert {*job} == {"job_name", "scrape_interval", "authorization", "static_configs"}
    assert {*job["authorization"]} == {"credentials_file"}
    # As Prometheus 3 asks, which takes either.
    asked = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    with running_api(with_token(sqlite_url, tmp_path)) as api, served(api) as url:
        for credentials in (TOKEN, api.key):
            headers = {"Accept": asked, "Authorization": f"Bearer {credentials}"}
            answer = httpx.get(f"{url}/metrics", headers=headers, trust_env=False)
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert value(samples(answer.text), "fedaudit_database_up") == 1
