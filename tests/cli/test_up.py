"""`fedaudit up`: start, stop, and what happens in between."""

import json
import os
import signal
import socket

import httpx
import psutil
import pytest

from fedaudit.cli.up import open_pages, signing_key_words
from fedaudit.ledger.statements import SigningKey
from tests.cli.service import Service, clean_environment, running, start
from tests.waiting import wait_until

MODULES = ("api", "workers", "workers.sweeper")


@pytest.fixture(scope="module")
def service(own_service):
    return own_service


def status(url, **headers):
    try:
        return httpx.get(url, headers=headers, timeout=5, trust_env=False).status_code
    except httpx.HTTPError:
        return None


def test_the_key_is_kept_for_its_owner_alone(service):
    path = service.data_dir / "api-key"
    assert path.read_text() == f"{service.api_key}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert status(f"{service.url}/v1/experiments") == 401
    assert status(f"{service.url}/v1/experiments", Authorization=f"Bearer {service.api_key}") == 200
    keys = httpx.get(
        f"{service.url}/v1/api-keys", headers={"Authorization": f"Bearer {service.api_key}"}
    ).json()["items"]
    assert keys[0]["person"]["name"], "so that sign-offs have a name"
    logs = {path.name for path in (service.data_dir / "logs").iterdir()}
    assert logs == {"api.log", "worker.log", "sweeper.log"}


def test_the_key_is_named_that_signs_whatever_is_beside_it(tmp_path):
    key, other = SigningKey.generate(), SigningKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "key.pem.pub"
    private.write_bytes(key.pem())
    for listed in (None, [other], [key], [key, other]):
        if listed is not None:
            public.write_text("".join(one.public.pem for one in listed))
        said = signing_key_words(private)
        assert said.startswith(key.key_id)
        assert ("its public half is not in" in said) == (key not in (listed or []))


def test_the_pages_are_opened_or_their_address_is_said(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    open_pages("http://127.0.0.1:8765")
    assert opened == ["http://127.0.0.1:8765"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("webbrowser.open", lambda _url: False)
    open_pages("http://127.0.0.1:8765")
    assert "open http://127.0.0.1:8765 in one" in capsys.readouterr().err


def test_a_second_one_on_the_same_data_is_refused(service):
    second = start(data_dir=service.data_dir)
    said, complaint = second.communicate(timeout=30)
    assert (second.returncode, said) == (2, "")
    assert "another `fedaudit up` runs on" in complaint
    assert status(f"{service.url}/health/ready") == 200


def test_a_dead_api_comes_back_at_the_same_address(service):
    first = service.child("api")
    first.kill()

    def is_another() -> bool:
        live = status(f"{service.url}/health/live") == 200
        return live and service.child("api").pid != first.pid

    wait_until(is_another, "the API to come back", pause=0.1)
    assert status(f"{service.url}/health/ready") == 200


def ends_every_process(service: Service, number: signal.Signals) -> None:
    children = psutil.Process(service.process.pid).children(recursive=True)
    assert len(children) == len(MODULES)
    service.process.send_signal(number)
    service.process.communicate(timeout=15)
    assert service.process.returncode == 0
    assert not any(child.is_running() for child in children)


def test_killing_it_leaves_no_process_and_the_next_start_goes_on_until_it_is_stopped(tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    data_dir.chmod(0o755)
    (data_dir / "fedaudit.db").touch(0o644)
    with running(data_dir=data_dir) as service:
        key = service.api_key
        modes = {
            path.name: path.stat().st_mode & 0o077 for path in data_dir.rglob("*") if path.is_file()
        }
        assert {name for name, mode in modes.items() if mode} <= {"signing-key.pem.pub"}
        assert "fedaudit.db" in modes
        children = psutil.Process(service.process.pid).children(recursive=True)
        service.process.kill()
        service.process.wait(timeout=15)
        _, alive = psutil.wait_procs(children, timeout=10)
        assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    with running(data_dir=data_dir) as service:
        assert service.api_key == key
        assert status(f"{service.url}/v1/experiments", Authorization=f"Bearer {key}") == 200
        ends_every_process(service, signal.SIGTERM)


def test_a_key_of_another_database_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "api-key").write_text("fa_unknown\n")
    process = start(data_dir=tmp_path / "data")
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "remove that file" in complaint


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "up.lock").mkdir()
    process = start(data_dir=tmp_path)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"cannot write in {tmp_path}" in complaint
    assert "Traceback" not in complaint


def test_ctrl_c_while_it_starts_is_no_fault_of_the_database(tmp_path):
    process = start(data_dir=tmp_path / "data", process_group=0)
    wait_until(lambda: psutil.Process(process.pid).children(), "the migration", pause=0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (
        1,
        "fedaudit: stopped before the service was ready\n",
    )


def test_an_address_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("--port", port, data_dir=tmp_path / "data")
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 2
    assert complaint == (
        f"fedaudit: cannot listen on 127.0.0.1 port {port}: it is taken; "
        "name another --host or --port, or take a free one with --port 0\n"
    )


def test_a_service_that_cannot_start_says_why(tmp_path):
    environment = clean_environment(FEDAUDIT_LEASE_SECONDS="never")
    process = start(data_dir=tmp_path / "data", environment=environment)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, "")
    assert "the API ended with exit code" in complaint
    assert "FEDAUDIT_LEASE_SECONDS" in complaint


def test_it_runs_on_a_database_and_a_broker_of_ones_own_until_ctrl_c(
    tmp_path, empty_postgres_url, broker_url
):
    environment = clean_environment(
        FEDAUDIT_DATABASE_URL=empty_postgres_url, FEDAUDIT_BROKER_URL=broker_url
    )
    with running(data_dir=tmp_path / "data", environment=environment) as service:
        answer = httpx.get(f"{service.url}/health/ready", trust_env=False)
        assert answer.status_code == 200, json.dumps(answer.json())
        assert not (service.data_dir / "fedaudit.db").exists()
        ends_every_process(service, signal.SIGINT)
