"""Offline runs of Weights & Biases, read back record by record with its own classes."""

import json
import socket
import struct
from pathlib import Path

import pytest

pytest.importorskip("wandb", reason="needs the extra `integrations`: Weights & Biases")

from wandb.proto import wandb_internal_pb2

pytestmark = pytest.mark.integrations

_HEADER, _BLOCK, _CHUNK = 7, 32768, struct.Struct("<IHB")
_FULL, _FIRST, _LAST = 1, 2, 4


def records(path):
    """The records of a run file, which is a LevelDB log behind seven bytes."""
    content, place, record = path.read_bytes(), _HEADER, b""
    assert content.startswith(b":W&B")
    while place + _CHUNK.size <= len(content):
        left = _BLOCK - place % _BLOCK
        if left < _CHUNK.size:
            place += left
            continue
        _, length, kind = _CHUNK.unpack_from(content, place)
        place += _CHUNK.size
        record = b"" if kind in (_FULL, _FIRST) else record
        record += content[place : place + length]
        place += length
        if kind in (_FULL, _LAST):
            yield wandb_internal_pb2.Record.FromString(record)


def test_a_run_is_written_once_and_read_back(there, publish, tmp_path):
    printed = publish("wandb", there.simulated, "--out", tmp_path)
    folder = Path(printed["folder"])
    [file] = folder.glob("run-*.wandb")
    found = list(records(file))
    by_kind = {}
    for one in found:
        by_kind.setdefault(one.WhichOneof("record_type"), []).append(one)
    [run] = by_kind["run"]
    assert (run.run.run_id, run.run.display_name) == (there.simulated, "small")
    config = {one.key: json.loads(one.value_json) for one in run.run.config.update}
    assert config["fedaudit"]["guarantee"] == "heuristic, not in force"
    assert "utility/accuracy" in config["missing"]
    [steps] = [one.metric for one in by_kind["metric"] if one.metric.glob_name]
    assert (steps.glob_name, steps.step_metric) == ("rounds/*", "round")
    history = [
        {one.key or one.nested_key[0]: json.loads(one.value_json) for one in line.history.item}
        for line in by_kind["history"]
    ]
    rounds = list(there.client.rows(there.simulated, "rounds"))
    assert [(one["round"], one["rounds/utility/validation_loss"]) for one in history] == [
        (line["round"], line["validation_loss"]) for line in rounds
    ]
    summary = {
        one.key or one.nested_key[0]: json.loads(one.value_json)
        for line in by_kind["summary"]
        for one in line.summary.update
    }
    document = there.client.report(there.simulated)
    loss = document["utility"]["validation_loss"]
    assert summary["utility/validation_loss"] == pytest.approx(loss)
    [artifact] = by_kind["artifact"]
    names = {one.path for one in artifact.artifact.manifest.contents}
    assert {"report.json", "report.html", "readings/model-card.md"} <= names
    assert "ledger.ndjson" not in names
    # Nothing of this machine is told.
    assert socket.gethostname().encode() not in file.read_bytes()
    assert b"requirements" not in file.read_bytes()
    again = publish("wandb", there.simulated, "--out", tmp_path)
    assert again == {"folder": str(folder), "created": False}
