"""A federation's arrays as files of a folder, and the federation over these files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Attribute, Federation

FEATURES = "features"
_ABOUT = "about.json"
_ARRAYS = ("target", "raw_target", "first", "record_budgets", "row_numbers", "record_keys")
_TEXTS = (
    "client_names",
    "feature_names",
    "target_name",
    "target_scale",
    "classes",
    "fingerprint",
    "notes",
)


def new_array(folder: Path, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    """A file for float32 numbers, mapped to be written. Raises OSError where the disk is full."""
    path = _file(folder, name)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    with path.open("rb+") as file:
        # Otherwise a full disk would be met by a write to memory, which kills the process.
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)


def write_federation(federation: Federation, folder: Path) -> None:
    """Everything that a loader of tables finds, to stay after a power failure; features that lie
    in the folder already are left there. Raises OSError."""
    arrays = {name: getattr(federation, name) for name in _ARRAYS}
    arrays |= {_codes(place): one.codes for place, one in enumerate(federation.attributes)}
    arrays |= {_numbers(place): one.numbers for place, one in enumerate(federation.attributes)}
    if not _file(folder, FEATURES).exists():
        arrays[FEATURES] = federation.side_by_side
    for name, array in arrays.items():
        if array is not None:
            np.save(_file(folder, name), array, allow_pickle=False)
    about = {name: getattr(federation, name) for name in _TEXTS}
    about["attributes"] = [[one.name, list(one.values)] for one in federation.attributes]
    about["bytes"] = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
    (folder / _ABOUT).write_text(json.dumps(about), "utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def read_federation(folder: Path) -> Federation | None:
    """The federation of a folder, mapped and not read; None where a file is missing or shorter
    than it was."""
    try:
        about = json.loads((folder / _ABOUT).read_text("utf-8"))
        if about["bytes"] != {path.name: path.stat().st_size for path in folder.glob("*.npy")}:
            return None
        arrays = {name.removesuffix(".npy"): _mapped(folder / name) for name in about["bytes"]}
        return _federation(about, arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take on disk."""
    return sum(path.stat().st_size for path in folder.iterdir())


def _federation(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Federation:
    return Federation(
        features=arrays[FEATURES],
        target=arrays["target"],
        raw_target=arrays["raw_target"],
        first=arrays["first"],
        client_names=tuple(about["client_names"]),
        feature_names=tuple(about["feature_names"]),
        target_name=about["target_name"],
        target_scale=about["target_scale"],
        classes=tuple(about["classes"]),
        attributes=tuple(
            Attribute(name, tuple(values), arrays[_codes(place)], arrays.get(_numbers(place)))
            for place, (name, values) in enumerate(about["attributes"])
        ),
        fingerprint=about["fingerprint"],
        truth=None,
        notes=tuple(about["notes"]),
        record_budgets=arrays.get("record_budgets"),
        row_numbers=arrays.get("row_numbers"),
        record_keys=arrays.get("record_keys"),
    )


def _mapped(path: Path) -> NDArray[Any]:
    # A plain array over the map: the class of maps is slow, and adds nothing.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _codes(place: int) -> str:
    return f"attribute_{place}"


def _numbers(place: int) -> str:
    return f"numbers_{place}"
