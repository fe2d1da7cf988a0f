"""Data of one's own over HTTP: uploaded, profiled by a real worker and trained on."""

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from fedaudit.federations.load import RegisteredData
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.parse import decode_text
from fedaudit.spec.registration import parse_registration, parse_uploaded
from fedaudit_client.client import Client
from tests.cli.service import Service
from tests.federations.image_files import zipped

CLIENTS = 12
ROWS = 20
"""Of a client."""
_SIDE = 6

Json = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A file, and the parts of a spec that describe it."""

    file_name: str
    content: bytes
    federation: Json
    fairness: Json
    model: Json

    @property
    def registration(self) -> Json:
        """What it is uploaded with."""
        return {
            "name": self.file_name,
            "federation": self.federation,
            "fairness": {**self.fairness, "minimum_group_size": 5},
        }

    def spec(self, federation_id: str, *, hypotheses: int) -> Json:
        """An experiment of three rounds on the uploaded file."""
        return {
            "spec_version": 1,
            "name": f"{self.file_name}, k = {hypotheses}",
            "seed": 4,
            "federation": {**self.federation, "id": federation_id, "validation_fraction": 0.5},
            "model": self.model,
            "training": {
                "loss": "cross-entropy",
                "hypotheses": hypotheses,
                "rounds": 3,
                "cohort": {"clients": 4},
            },
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
            "fairness": {**self.registration["fairness"], "intervals": None},
        }


def _people(seed: int) -> dict[str, list[Any]]:
    """Columns of a table; an income depends on the hours, and hours on the sex."""
    rng = np.random.default_rng(seed)
    count = CLIENTS * ROWS
    woman = rng.random(count) < 0.5
    hours = rng.integers(10, 60, count) - 8 * woman
    return {
        "town": [f"town {row // ROWS}" for row in range(count)],
        "sex": np.where(woman, "F", "M").tolist(),
        "hours": hours.tolist(),
        "work": rng.choice(["office", "field"], count).tolist(),
        "income": np.where(hours + rng.normal(0, 8, count) > 30, "high", "low").tolist(),
    }


_TABLE: Json = {
    "source": "table",
    "client_key": "town",
    "target": "income",
    "positive": "high",
    "features": [
        "hours",
        {"name": "work", "kind": "categorical", "categories": ["office", "field"]},
    ],
    "scale": {"hours": 60},
}


def _table(file_name: str, content: bytes) -> Sample:
    return Sample(file_name, content, _TABLE, {"sensitive": ["sex"]}, {"kind": "logistic"})


def csv_text(seed: int = 1) -> str:
    """The table as a CSV file, without quotes."""
    file = io.BytesIO()
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    pyarrow.csv.write_csv(pa.table(_people(seed)), file, options)
    return file.getvalue().decode()


def _csv_gz() -> Sample:
    return _table("people.csv.gz", gzip.compress(csv_text(seed=2).encode()))


def _marks(seed: int) -> tuple[Any, Any]:
    """Images, bytes [images, height, width], and their labels: 1 where the right is the darker."""
    rng = np.random.default_rng(seed)
    count = CLIENTS * ROWS
    images = rng.integers(0, 256, (count, _SIDE, _SIDE), dtype=np.uint8)
    right, left = images[:, :, _SIDE // 2 :].sum((1, 2)), images[:, :, : _SIDE // 2].sum((1, 2))
    return images, (right > left).astype(np.int64)


def _images(file_name: str, content: bytes, federation: Json, attribute: str) -> Sample:
    fairness = {"sensitive": [attribute], "favourable": {"op": "in", "value": [1]}}
    return Sample(
        file_name, content, {**federation, "classes": 2}, fairness, {"kind": "mlp", "hidden": [4]}
    )


def npz(**changes: Any) -> bytes:
    """The images as a NumPy archive, written with the left or the right hand; with changes."""
    images, labels = _marks(seed=4)
    writers = np.arange(len(images)) // ROWS
    arrays = {"x": images, "y": labels, "writer": writers, "hand": np.where(writers % 3, "R", "L")}
    file = io.BytesIO()
    np.savez_compressed(file, **{**arrays, **changes})
    return file.getvalue()


def _npz() -> Sample:
    return _images("marks.npz", npz(), {"source": "images"}, "hand")


def _leaf(seed: int, clients: range) -> bytes:
    images, labels = _marks(seed)
    users = {
        f"writer {client}": {
            "x": (images[client * ROWS : (client + 1) * ROWS].reshape(ROWS, -1) / 255).tolist(),
            "y": labels[client * ROWS : (client + 1) * ROWS].tolist(),
        }
        for client in clients
    }
    value = {"users": list(users), "num_samples": [ROWS] * len(users), "user_data": users}
    return json.dumps(value).encode()


_LEAF: Json = {"source": "femnist", "rotate": {"probability": 0.5}}


def _leaf_zip() -> Sample:
    half = CLIENTS // 2
    shards = {"0.json": _leaf(6, range(half)), "1.json": _leaf(6, range(half, CLIENTS))}
    return _images("leaf.zip", zipped(shards), _LEAF, "rotated")


SAMPLES: dict[str, Callable[[], Sample]] = {"csv.gz": _csv_gz, "npz": _npz, "leaf zip": _leaf_zip}
"""One of each reader; tests/federations reads the same data in every form of file."""


_GROUPS = {"sex": {"F", "M"}, "hand": {"L", "R"}, "rotated": {"no", "yes"}}


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    """A client of a running `fedaudit up`."""
    with Client(service.url, service.api_key) as client:
        yield client


def upload(client: Client, sample: Sample, content: bytes | None = None) -> Json:
    """The federation as it is once the worker has looked at it."""
    file = io.BytesIO(sample.content if content is None else content)
    federation = client.upload(file, sample.registration, file_name=sample.file_name)
    return client.profiled(federation["id"])


def train(client: Client, sample: Sample, federation_id: str) -> list[Json]:
    """The reports with one hypothesis and with two."""
    submitted = [
        client.submit(sample.spec(federation_id, hypotheses=hypotheses)) for hypotheses in (1, 2)
    ]
    ended = [client.wait(experiment["id"]) for experiment in submitted]
    assert [experiment["status"] for experiment in ended] == ["succeeded"] * 2, ended
    return [client.report(experiment["id"]) for experiment in ended]


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_format_is_profiled_and_trained_on(client: Client, kind: str) -> None:
    sample = SAMPLES[kind]()
    federation = upload(client, sample)
    assert federation["status"] == "ready", federation["reasons"]
    profile = federation["profile"]
    assert (profile["rows"], profile["clients"]) == (CLIENTS * ROWS, CLIENTS)
    [attribute] = sample.fairness["sensitive"]
    groups = profile["attributes"][attribute]["groups"]
    assert set(groups) == _GROUPS[attribute]
    assert sum(groups.values()) == CLIENTS * ROWS

    for hypotheses, report in enumerate(train(client, sample, federation["id"]), start=1):
        assert report["spec"]["training"]["hypotheses"] == hypotheses
        assert report["data"]["clients"] == CLIENTS
        assert report["privacy"]["leakage_max"] > 0
        [fairness] = report["fairness"]
        assert fairness["attribute"] == attribute
        assert {group["value"] for group in fairness["groups"]} == _GROUPS[attribute]
        for name, metric in fairness["metrics"].items():
            assert metric["value"] is not None or metric["reason"], name
        gap = fairness["metrics"]["equalized_odds_difference"]
        assert 0 <= gap["value"] <= 1


# -- what docs/data.md and examples/registrations show can be used as it is shown -----------------


REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
PAGE = (REPOSITORY / "docs" / "data.md").read_text("utf-8")
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
