"""Data of one's own over HTTP: uploaded, profiled by a real worker and trained on."""

import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedaudit.federations.load import RegisteredData
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.parse import decode_text
from fedaudit.spec.registration import parse_registration, parse_uploaded
from fedaudit_client.client import Client
from tests.cli.service import Service
from tests.federations.image_files import npz, zipped
from tests.house import ROOT

CLIENTS, ROWS, SIDE = 12, 20, 6
"""Rows are of each client, and a side of each image."""
CLIENT = np.arange(CLIENTS * ROWS) // ROWS


@dataclass(frozen=True)
class Sample:
    """A file, the parts of a spec that describe it, and the groups of its attribute."""

    file_name: str
    content: bytes
    federation: dict[str, Any]
    attribute: str
    groups: set[str]
    hypotheses: int

    @property
    def fairness(self) -> dict[str, Any]:
        of_images = {"favourable": {"op": "in", "value": [1]}} if self.hypotheses > 1 else {}
        return {"sensitive": [self.attribute], "minimum_group_size": 5, **of_images}

    def spec(self, federation_id: str) -> dict[str, Any]:
        """An experiment of three rounds on the uploaded file."""
        source = {**self.federation, "id": federation_id, "validation_fraction": 0.5}
        network = {"kind": "mlp", "hidden": [4]}
        return {
            "name": self.file_name,
            "seed": 4,
            "federation": source,
            "model": network if self.hypotheses > 1 else {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": self.hypotheses,
                "rounds": 3,
                "cohort": {"clients": 4},
            },
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
            "fairness": {**self.fairness, "intervals": None},
        }


def _csv_gz() -> Sample:
    """An income depends on the hours, and hours on the sex."""
    rng, count = np.random.default_rng(2), len(CLIENT)
    woman = rng.random(count) < 0.5
    hours = rng.integers(10, 60, count) - 8 * woman
    work = rng.choice(["office", "field"], count)
    income = np.where(hours + rng.normal(0, 8, count) > 30, "high", "low")
    rows = zip(CLIENT, np.where(woman, "F", "M"), hours, work, income, strict=True)
    lines = ["town,sex,hours,work,income", *(",".join(map(str, row)) for row in rows), ""]
    categories = {"name": "work", "kind": "categorical", "categories": ["office", "field"]}
    columns = {"client_key": "town", "target": "income", "positive": "high"}
    more = {"features": ["hours", categories], "scale": {"hours": 60}}
    federation = {"source": "table", **columns, **more}
    content = gzip.compress("\n".join(lines).encode())
    return Sample("people.csv.gz", content, federation, "sex", {"F", "M"}, 1)


def _marks(seed: int) -> tuple[Any, Any]:
    """Images, bytes [images, height, width], and their labels: 1 where the right is the darker."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (len(CLIENT), SIDE, SIDE), dtype=np.uint8)
    right, left = images[:, :, SIDE // 2 :].sum((1, 2)), images[:, :, : SIDE // 2].sum((1, 2))
    return images, (right > left).astype(np.int64)


def _npz() -> Sample:
    """Written with the left or the right hand."""
    images, labels = _marks(seed=4)
    content = npz(x=images, y=labels, writer=CLIENT, hand=np.where(CLIENT % 3, "R", "L"))
    return Sample("marks.npz", content, {"source": "images", "classes": 2}, "hand", {"L", "R"}, 2)


def _leaf_zip() -> Sample:
    """In two shards."""
    images, labels = _marks(seed=6)
    shards = {}
    for shard in (0, 1):
        users = {
            f"writer {client}": {
                "x": (images[client == CLIENT].reshape(ROWS, -1) / 255).tolist(),
                "y": labels[client == CLIENT].tolist(),
            }
            for client in range(shard, CLIENTS, 2)
        }
        sizes = {"users": list(users), "num_samples": [ROWS] * len(users)}
        shards[f"{shard}.json"] = json.dumps({**sizes, "user_data": users}).encode()
    federation = {"source": "femnist", "rotate": {"probability": 0.5}, "classes": 2}
    return Sample("leaf.zip", zipped(shards), federation, "rotated", {"no", "yes"}, 2)


SAMPLES: dict[str, Callable[[], Sample]] = {"csv.gz": _csv_gz, "npz": _npz, "leaf zip": _leaf_zip}
"""One of each reader; tests/federations reads the same data in every form of file."""


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_format_is_profiled_and_trained_on(service: Service, kind: str) -> None:
    sample = SAMPLES[kind]()
    registration = {
        "name": sample.file_name,
        "federation": sample.federation,
        "fairness": sample.fairness,
    }
    with Client(service.url, service.api_key) as client:
        file = io.BytesIO(sample.content)
        uploaded = client.upload(file, registration, file_name=sample.file_name)
        federation = client.profiled(uploaded["id"])
        assert federation["status"] == "ready", federation["reasons"]
        profile = federation["profile"]
        assert (profile["rows"], profile["clients"]) == (CLIENTS * ROWS, CLIENTS)
        groups = profile["attributes"][sample.attribute]["groups"]
        assert set(groups) == sample.groups
        assert sum(groups.values()) == CLIENTS * ROWS
        ended = client.wait(client.submit(sample.spec(federation["id"]))["id"])
        assert ended["status"] == "succeeded", ended
        report = client.report(ended["id"])
    assert report["data"]["clients"] == CLIENTS
    assert report["privacy"]["leakage_max"] > 0
    [fairness] = report["fairness"]
    assert fairness["attribute"] == sample.attribute
    assert {group["value"] for group in fairness["groups"]} == sample.groups
    for name, metric in fairness["metrics"].items():
        assert metric["value"] is not None or metric["reason"], name
    assert 0 <= fairness["metrics"]["equalized_odds_difference"]["value"] <= 1


# -- what docs/data.md and examples/registrations show can be used as it is shown -----------------


EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "data.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SENT = re.findall(r"(?:registration=|-d ')(\{.*\})'", PAGE)
REGISTRATIONS = sorted((EXAMPLES / "registrations").glob("*.yaml"))


@pytest.mark.parametrize("block", BLOCKS)
def test_registrations_of_the_page(block: str) -> None:
    value = decode_text(block)
    # One that shows how groups are compared is a part of the first.
    whole = decode_text(BLOCKS[0]) | value if value.keys() == {"fairness"} else value
    assert parse_uploaded(whole, file_name="any.csv").name


@pytest.mark.parametrize("path", REGISTRATIONS, ids=lambda path: path.stem)
def test_registrations_among_the_examples(path: Path) -> None:
    assert parse_uploaded(decode_text(path.read_text("utf-8")), file_name="any.csv").name


def test_what_the_page_sends_is_profiled() -> None:
    uploaded, below_sources = (yaml.safe_load(text) for text in SENT)
    for registration in (
        parse_uploaded(uploaded, file_name="people.csv"),
        parse_registration(below_sources),
    ):
        profile = RegisteredData(registration, Files(EXAMPLES)).profile()
        assert (profile["rows"], profile["clients"]) == (300, 20)
