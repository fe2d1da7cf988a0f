"""The examples of the client's README run as they stand there."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from fedaudit_client import Client, GatesNotPassedError
from tests.api.service import SPEC, Api, finish, spec
from tests.house import PLACES

README = (PLACES["fedaudit_client"] / "README.md").read_text()


@contextmanager
def working(api: Api, url: str) -> Iterator[None]:
    """Something that ends what is queued, as a worker would."""
    done = threading.Event()

    def work() -> None:
        with Client(url, api.key) as client:
            while not done.is_set():
                for one in client.list(status="queued"):
                    finish(api, one["id"])
                sleep(0.05)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def test_the_examples_run(service, tmp_path, monkeypatch, capsys):
    api, url = service
    monkeypatch.setenv("FEDAUDIT_URL", url)
    monkeypatch.setenv("FEDAUDIT_API_KEY", api.key)
    monkeypatch.chdir(tmp_path)
    Path("experiment.json").write_text(json.dumps(SPEC))
    known: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.+?)```", README, re.DOTALL)
    assert len(blocks) == 2
    with working(api, url):
        for block in blocks:
            exec(compile(block, "README.md", "exec"), known)
    said = capsys.readouterr().out
    assert "status.changed {'status': 'succeeded'" in said
    assert known["report"]["verdict"] in said
    assert known["ended"]["gate_outcome"] == "pass"
    assert Path("ledger.parquet").read_bytes()[:4] == b"PAR1"


def test_a_pipeline_passes_only_with_gates_that_passed(service: tuple[Api, str]) -> None:
    api, url = service
    with Client(url, api.key) as client:
        id_ = client.submit(spec(name="gates"))["id"]
        finish(api, id_)
        assert client.require_gates(id_)["outcome"] == "pass"
        gate = {"figure": "leakage_max", "op": "le", "value": 0.0}
        believed = {**gate, "allow_heuristic": True, "allow_simulation": True}
        for asked, outcome in (([believed], "fail"), ([gate], "insufficient_evidence")):
            with pytest.raises(GatesNotPassedError, match=f"leakage_max {outcome}") as caught:
                client.require_gates(id_, asked)
            assert caught.value.outcome == outcome
        bare = client.submit(spec(name="no gates", gates=[]))["id"]
        finish(api, bare)
        with pytest.raises(GatesNotPassedError, match="has no gates"):
            client.require_gates(bare)
