"""A small made-up federation in every format, with what it is registered as and trained by."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

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


def _csv() -> Sample:
    return _table("people.csv", csv_text().encode())


def _csv_gz() -> Sample:
    return _table("people.csv.gz", gzip.compress(csv_text(seed=2).encode()))


def _parquet() -> Sample:
    file = io.BytesIO()
    pq.write_table(pa.table(_people(seed=3)), file)
    return _table("people.parquet", file.getvalue())


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


def _leaf_json() -> Sample:
    return _images("leaf.json", _leaf(5, range(CLIENTS)), _LEAF, "rotated")


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive of these files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _leaf_zip() -> Sample:
    half = CLIENTS // 2
    shards = {"0.json": _leaf(6, range(half)), "1.json": _leaf(6, range(half, CLIENTS))}
    return _images("leaf.zip", zipped(shards), _LEAF, "rotated")


SAMPLES: dict[str, Callable[[], Sample]] = {
    "csv": _csv,
    "csv.gz": _csv_gz,
    "parquet": _parquet,
    "npz": _npz,
    "leaf json": _leaf_json,
    "leaf zip": _leaf_zip,
}
"""Each with content of its own: the same content would be the same federation."""
