"""The paper's network takes images of its size and nothing else."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.federations.load import load_federation
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec


def faults_of(folder: Path, shape: tuple[int, ...], **model: Any) -> dict[str, str]:
    """What is wrong with 8 images of that shape by 4 writers."""
    buffer = io.BytesIO()
    images = np.ones((8, *shape), dtype=np.uint8)
    np.savez(buffer, x=images, y=np.arange(8) % 3, writer=np.arange(8) % 4)
    (folder / "images.npz").write_bytes(buffer.getvalue())
    spec = parse_spec(
        {
            "name": "images",
            "federation": {"source": "images", "path": "images.npz"},
            "model": model or {"kind": "cnn-femnist"},
            "training": {"loss": "cross-entropy", "rounds": 1, "cohort": {"clients": 2}},
            "privacy": {"mechanism": "none"},
        }
    )
    try:
        load_federation(spec, sources_dir=folder)
    except InvalidInputError as error:
        return {fault.pointer: fault.message for fault in error.errors}
    return {}


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 1), (784,)])
def test_images_of_its_size_are_taken(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert faults_of(tmp_path, shape) == {}


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((27, 28), "27 by 28 with 1 channel"),
        ((28, 28, 3), "28 by 28 with 3 channels"),
        ((785,), "no images"),
    ],
)
def test_others_are_refused_and_told_what_they_are(
    tmp_path: Path, shape: tuple[int, ...], found: str
) -> None:
    faults = faults_of(tmp_path, shape)
    assert list(faults) == ["/model/kind"]
    assert found in faults["/model/kind"]
    assert "28 by 28 with 1 channel" in faults["/model/kind"]


def test_dense_networks_take_any_rows(tmp_path: Path) -> None:
    assert faults_of(tmp_path, (3, 5, 2), kind="mlp", hidden=[4]) == {}
