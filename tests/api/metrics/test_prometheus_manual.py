"""The scrape that docs/tools.md has Prometheus make, with a token and with a key."""

import re
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from tests.api.service import running_api, served, settings_for
from tests.house import ROOT

TOKEN = "5f" * 32
# As Prometheus 3 asks, and as older ones and other scrapers do.
_ASKED = {
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2": openmetrics,
    "text/plain;version=0.0.4": plain,
}


@pytest.fixture(scope="module")
def configuration() -> Any:
    page = (ROOT / "docs/tools.md").read_text()
    [found] = re.findall(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    return yaml.safe_load(found)


@pytest.mark.parametrize("accept", _ASKED)
def test_the_scrape_of_the_manual_is_answered(sqlite_url, tmp_path, configuration, accept):
    [job] = configuration["scrape_configs"]
    # Prometheus' defaults: the path /metrics, and the type Bearer.
    assert {*job} == {"job_name", "scrape_interval", "authorization", "static_configs"}
    assert {*job["authorization"]} == {"credentials_file"}
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = settings_for(sqlite_url, tmp_path, metrics_token_file=tmp_path / "token")
    with running_api(settings) as api, served(api) as url:
        for credentials in (TOKEN, api.key):
            headers = {"Accept": accept, "Authorization": f"Bearer {credentials}"}
            answer = httpx.get(f"{url}/metrics", headers=headers, trust_env=False)
            assert answer.status_code == 200
            found = {one.name for one in _ASKED[accept](answer.text)}
            assert {"fedaudit_database_up", "fedaudit_units"} <= found
            assert "fedaudit_http_request_duration_seconds" in found
