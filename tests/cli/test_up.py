"""`fedaudit up`: its start, its stop, and what is done to it in between.

One service is looked at, loses its processes, exchanges its keys, is killed and started again.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from fedaudit.cli import up
from fedaudit.cli.output import CommandError
from fedaudit.ledger.statements import Envelope, SigningKey, public_keys_in
from tests.api.uploads import CONTENT, REGISTRATION, spec_of
from tests.cli.conftest import assert_refused
from tests.cli.service import Up, clean_environment, running, start, status
from tests.spec.documents import gaussian
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """In a folder that others may read, with a database that they may."""
    data_dir = tmp_path_factory.mktemp("service") / "data"
    data_dir.mkdir(mode=0o755)
    (data_dir / "fedaudit.db").touch(0o644)
    with running(data_dir=data_dir) as found:
        yield found


def test_what_it_keeps_is_its_owners_alone(service: Up) -> None:
    files = [path for path in service.data_dir.rglob("*") if path.is_file()]
    assert {"fedaudit.db", "api.log", "worker.log", "sweeper.log"} <= {one.name for one in files}
    open_to_others = {one.name for one in files if one.stat().st_mode & 0o077}
    assert open_to_others <= {"signing-key.pem.pub"}
    assert (service.data_dir / "api-key").read_text() == f"{service.api_key}\n"
    assert status(f"{service.url}/v1/experiments") == 401
    keys = httpx.get(f"{service.url}/v1/api-keys", headers=service.bearer).json()["items"]
    assert keys[0]["person"]["name"], "so that sign-offs have a name"


def test_what_cannot_be_served_is_refused_at_once(command, service, tmp_path):
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "up.lock").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option, value, why in (
            ("--data-dir", service.data_dir, "another `fedaudit up` runs on"),
            ("--data-dir", tmp_path / "locked", f"cannot write in {tmp_path / 'locked'}"),
            ("--port", port, f"127.0.0.1 port {port}: it is taken; name another --host or --port"),
            ("--device", "cuda:0,1", "one worker"),
            ("--device", "gpu", "neither cpu"),
            ("--device", "cuda:99", "no CUDA device"),
        ):
            folder = {"FEDAUDIT_DATA_DIR": str(tmp_path / "data")}
            done = command("up", "--json", option, value, env=folder)
            assert_refused(done, why)
            assert done.stdout == ""
    assert status(f"{service.url}/health/ready") == 200


def test_a_dead_api_comes_back_at_the_same_address(service: Up) -> None:
    first = service.child("api")
    first.kill()

    def is_another() -> bool:
        live = status(f"{service.url}/health/live") == 200
        return live and service.child("api").pid != first.pid

    wait_until(is_another, "the API to come back", pause=0.1)
    assert status(f"{service.url}/health/ready") == 200


def test_an_erasure_survives_the_death_of_its_sweeper_and_gives_a_signed_receipt(
    said, json_of, service, tmp_path
):
    data, receipt = tmp_path / "incomes.csv", tmp_path / "receipt.json"
    data.write_bytes(CONTENT)
    text = yaml.safe_dump(REGISTRATION)
    add = ("federations", "add", data, "--registration", "-", "--wait", "--json")
    id_ = json_of(*add, stdin=text)["id"]
    privacy = gaussian("local", 2.0, noise="release")
    spec = spec_of({"id": id_}, training={"hypotheses": 1}, privacy=privacy, gates=[])
    experiment = json_of("submit", "-", "--wait", "--json", stdin=yaml.safe_dump(spec))["id"]
    service.child("workers.sweeper").kill()
    erased = ("federations", "erase", id_, "--yes", "--reference", "2026-117", "--out", receipt)
    assert "remains: budgets: totals" in said(*erased)
    envelope = Envelope.from_dict(json.loads(receipt.read_text()))
    public = service.data_dir / "signing-key.pem.pub"
    [key] = public_keys_in(public.read_bytes())
    assert key.verifies(envelope.signature, envelope.message)
    assert "erased " in said("federations", "list")
    assert "valid: experiment" in said("verify", experiment, "--public-key", public)
    assert list((service.data_dir / "files").rglob("*/*/*")) == []


def test_keys_are_exchanged_under_the_running_service_and_marked(said, json_of, service):
    """First an API key, which is an entry of the audit log: the sweeper signs it with the new
    signing key."""

    def signing_keys() -> Any:
        return json_of("api", "GET", "signing-keys")["items"]

    folder = {"FEDAUDIT_DATA_DIR": str(service.data_dir)}
    before, _ = signing_keys()
    assert Path(said("signing-keys", "rotate", **folder).strip()).exists()
    made = json_of("keys", "create", "--scopes", "reports:read", "--json", **folder)
    rotated = json_of("api", "POST", f"api-keys/{made['id']}/rotate-secret?overlap_seconds=0")
    answers = [
        status(f"{service.url}/v1/reports", Authorization=f"Bearer {one['key']}")
        for one in (made, rotated)
    ]
    assert answers == [401, 200]
    wait_until(lambda: len(signing_keys()) == 4, "a process to take the new key up", pause=0.2)
    retired = [one["retired_at"] is not None for one in signing_keys()]
    assert retired == [True, True, False, False]
    compromised = ("signing-keys", "compromised", before["key_id"], "--note", "lost")
    assert "compromised since" in said(*compromised, **folder)
    assert signing_keys()[0]["compromised_at"] is not None


def ends_every_process(service: Up, number: signal.Signals) -> None:
    children = service.processes
    assert len(children) == 3
    service.process.send_signal(number)
    service.process.communicate(timeout=15)
    assert service.process.returncode == 0
    assert not any(child.is_running() for child in children)


def test_killing_it_leaves_no_process_and_the_next_start_goes_on_until_it_is_stopped(service):
    children = service.processes
    service.process.kill()
    service.process.wait(timeout=15)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    with running(data_dir=service.data_dir) as again:
        assert again.api_key == service.api_key
        assert status(f"{again.url}/v1/experiments", **again.bearer) == 200
        ends_every_process(again, signal.SIGTERM)


def test_it_runs_on_a_database_and_a_broker_of_ones_own_until_ctrl_c(
    tmp_path, empty_postgres_url, broker_url
):
    environment = clean_environment(
        FEDAUDIT_DATABASE_URL=empty_postgres_url, FEDAUDIT_BROKER_URL=broker_url
    )
    with running(data_dir=tmp_path / "data", environment=environment) as found:
        assert status(f"{found.url}/health/ready") == 200
        assert not (found.data_dir / "fedaudit.db").exists()
        ends_every_process(found, signal.SIGINT)


def test_ctrl_c_while_it_starts_is_no_fault_of_the_database(tmp_path: Path) -> None:
    process = start(data_dir=tmp_path / "data", process_group=0)
    wait_until(lambda: psutil.Process(process.pid).children(), "the migration", pause=0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, complaint = process.communicate(timeout=60)
    stopped = "fedaudit: stopped before the service was ready\n"
    assert (process.returncode, complaint) == (1, stopped)


@pytest.mark.parametrize(
    ("setting", "key", "code", "why"),
    [
        ("never", None, 1, r"the API ended with exit code(.|\n)*FEDAUDIT_LEASE_SECONDS"),
        ("30", "fa_unknown\n", 2, "remove that file"),
    ],
)
def test_a_start_that_fails_says_why(tmp_path, monkeypatch, setting, key, code, why):
    """Of a setting that the API refuses, and of a key that another database knows."""
    module = up.python_module
    idle = (sys.executable, "-c", "import time; time.sleep(600)")
    monkeypatch.setattr(
        up, "python_module", lambda name, *rest: module(name, *rest) if name == "api" else idle
    )
    monkeypatch.setenv("FEDAUDIT_LEASE_SECONDS", setting)
    if key:
        (tmp_path / "api-key").write_text(key)
    with pytest.raises(CommandError, match=why) as refused:
        up.up(data_dir=tmp_path, as_json=True)
    assert refused.value.code == code


def test_the_key_is_named_that_signs_whatever_is_beside_it(tmp_path: Path) -> None:
    key, other = SigningKey.generate(), SigningKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "key.pem.pub"
    private.write_bytes(key.pem())
    for listed in (None, [other], [key, other]):
        if listed is not None:
            public.write_text("".join(one.public.pem for one in listed))
        words = up.signing_key_words(private)
        assert words.startswith(key.key_id)
        assert ("its public half is not in" in words) == (key not in (listed or []))


def test_the_pages_are_opened_or_their_address_is_said(monkeypatch, capsys):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or len(opened) == 1)
    for complaint in ("", "no browser was found; open http://127.0.0.1:8765 in one\n"):
        up.open_pages("http://127.0.0.1:8765")
        assert capsys.readouterr().err == complaint
    assert opened == ["http://127.0.0.1:8765"] * 2
