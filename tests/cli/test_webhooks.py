"""Webhooks by `fedaudit api`, and the receiver of docs/webhooks.md as it is shown."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner

from benchmarks.servers import free_port
from fedaudit.cli.main import app
from tests.api.service import running_api, served, settings_for
from tests.api.webhooks.webhooks import deliver
from tests.house import ROOT
from tests.waiting import listens, wait_until
from workers.webhooks import WebhookDispatcher


@contextmanager
def shown_receiver(secret: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """The receiver that the page shows, ready."""
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.DOTALL)
    environment = {"WEBHOOK_SECRET": secret, "PORT": str(port)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            wait_until(lambda: process.poll() is not None or listens(port), pause=0.02)
            yield process
        finally:
            process.terminate()


def test_from_registration_to_redelivery(sqlite_url, tmp_path, monkeypatch):
    port = free_port()

    def call(method: str, path: str = "", body: Any = None) -> Any:
        sent = ("--body", "-") if body else ()
        asked = ("api", method, f"webhooks{path}", "--yes", *sent)
        done = CliRunner().invoke(app, asked, input=json.dumps(body))
        assert done.exit_code == 0, (done.output, done.exception)
        return json.loads(done.stdout or "null")

    settings = settings_for(sqlite_url, tmp_path, webhooks_allow_private=True)
    with running_api(settings) as api, served(api) as url:
        monkeypatch.setenv("FEDAUDIT_URL", url)
        monkeypatch.setenv("FEDAUDIT_API_KEY", api.key)
        dispatcher = WebhookDispatcher(api.settings, api.database)
        address = f"http://127.0.0.1:{port}/"
        made = call("POST", body={"url": address, "events": ["gate.failed"]})
        id_ = f"/{made['id']}"
        assert "secret" not in call("GET")["items"][0]
        rotated = call("POST", f"{id_}/rotate-secret")
        call("POST", f"{id_}/test")
        [sent] = deliver(api, dispatcher, made)
        assert (sent["state"], sent["status_code"]) == ("waiting", None)
        [listed] = call("GET", f"{id_}/deliveries")["items"]
        assert "ConnectionRefused" in listed["error"]
        with shown_receiver(rotated["secret"], port) as receiver:
            call("POST", f"{id_}/deliveries/{sent['id']}/redeliver")
            [sent] = deliver(api, dispatcher, made)
            assert (sent["state"], sent["status_code"], sent["attempts"]) == ("delivered", 204, 2)
            line = receiver.stdout.readline()
        assert line.startswith(f"{sent['message_id']} webhook.test {{'project': 'hospital'")
        with shown_receiver("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", port):
            call("POST", f"{id_}/test")
            assert deliver(api, dispatcher, made)[0]["status_code"] == 401
        assert call("PATCH", id_, {"events": ["budget.low"]})["events"] == ["budget.low"]
        call("DELETE", id_)
        assert call("GET")["items"] == []
