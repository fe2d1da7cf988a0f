"""Erasing, and exchanging keys, against a real service."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from fedaudit.ledger.statements import Envelope, public_keys_in
from tests.spec.documents import gaussian

SPEC = {
    "name": "on clinics",
    "federation": {"source": "table", "client_key": "who", "target": "y"},
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "rounds": 2, "hypotheses": 1, "cohort": {"clients": 5}},
    "privacy": gaussian("local", 2.0, noise="release"),
    "fairness": {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 3}, "intervals": None},
}
ROWS = [f"clinic-{row % 40},{'FM'[row % 2]},{row % 5},{row % 7}" for row in range(160)]

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def service(own_service: Any) -> Any:
    """One whose sweeper is killed and whose keys are exchanged."""
    return own_service


@pytest.fixture
def call(command: Call, service: Any) -> Call:
    """Runs a command against the module's service; gives its standard output."""

    def run(*arguments: object, stdin: str = "", **env: str) -> str:
        environment = {**service.environment, "FEDAUDIT_DATA_DIR": str(service.data_dir), **env}
        done = command(*arguments, stdin=stdin, env=environment)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    return run


def test_an_erasure_survives_the_death_of_its_sweeper_and_gives_a_signed_receipt(
    call: Call, service: Any, tmp_path: Path
) -> None:
    data, receipt = tmp_path / "clinics.csv", tmp_path / "receipt.json"
    data.write_text("\n".join(["who,sex,x,y", *ROWS, ""]))
    text = yaml.safe_dump(SPEC)
    added = call("federations", "add", data, "--spec", "-", "--wait", "--json", stdin=text)
    federation = json.loads(added)["id"]
    spec = {**SPEC, "federation": {**SPEC["federation"], "id": federation}}  # type: ignore[dict-item]
    experiment = json.loads(call("submit", "-", "--wait", "--json", stdin=yaml.safe_dump(spec)))
    service.child("workers.sweeper").kill()
    shown = call(
        "federations", "erase", federation, "--yes", "--reference", "2026-117", "--out", receipt
    )
    assert "remains: budgets: totals" in shown
    envelope = Envelope.from_dict(json.loads(receipt.read_text()))
    [key] = public_keys_in((service.data_dir / "signing-key.pem.pub").read_bytes())
    assert key.verifies(envelope.signature, envelope.message)
    assert "erased " in call("federations", "list")
    public = service.data_dir / "signing-key.pem.pub"
    assert "valid: experiment" in call("verify", experiment["id"], "--public-key", public)
    assert list((service.data_dir / "files").rglob("*/*/*")) == []


def test_a_key_is_rotated(call: Call, service: Any) -> None:
    made = json.loads(call("keys", "create", "--scopes", "reports:read", "--json"))
    path = f"api-keys/{made['id']}/rotate-secret?overlap_seconds=0"
    rotated = json.loads(call("api", "POST", path))
    answers = [
        httpx.get(
            f"{service.url}/v1/reports", headers={"Authorization": f"Bearer {one['key']}"}
        ).status_code
        for one in (made, rotated)
    ]
    assert answers == [401, 200]


def test_the_signing_key_is_exchanged_under_the_running_service_and_marked(call, service):
    def signing_keys():
        return json.loads(call("api", "GET", "signing-keys"))["items"]

    before, _ = signing_keys()
    retired = Path(call("signing-keys", "rotate").strip())
    assert retired.exists()
    made = json.loads(call("keys", "create", "--scopes", "reports:read", "--json"))
    assert made["id"]  # an entry of the audit log, which the sweeper signs with the new key
    deadline = time.monotonic() + 30
    while len(listed := signing_keys()) < 4:
        assert time.monotonic() < deadline, "no process took the new key up"
    assert [one["retired_at"] is None for one in listed] == [False, False, True, True]
    marked = call("signing-keys", "compromised", before["key_id"], "--note", "lost")
    assert "compromised since" in marked
    assert signing_keys()[0]["compromised_at"] is not None
