"""Small image files, and archives as nobody should make them."""

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.image_federation import FemnistKind, ImagesKind
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.federation import Femnist, Images

PATH = "/federation/path"


def npz(**arrays: Any) -> bytes:
    """The bytes of an NPZ file; object arrays are pickled into it."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def arrays(images: int = 12, side: int = 4, **changes: Any) -> dict[str, Any]:
    """Three writers' images, each different from all others; None takes an array away."""
    whole: dict[str, Any] = {
        "x": np.arange(images * side * side, dtype=np.uint8).reshape(images, side, side),
        "y": np.arange(images) % 4,
        "writer": np.arange(images) % 3,
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def npy(header: str, content: bytes, *, version: bytes = b"\x01\x00") -> bytes:
    """The bytes of a .npy file with a header of one's own."""
    text = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + content


def zipped(
    members: Mapping[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]],
    *,
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """The bytes of a zip archive; a list may hold a name twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            archive.writestr(name, content)
    return buffer.getvalue()


def leaf(users: Mapping[str, tuple[Any, Any]], /, **changes: Any) -> bytes:
    """The bytes of a LEAF file: each user's x and y."""
    value = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        **changes,
    }
    return json.dumps(value).encode()


def handwriting(seed: int, counts: Mapping[str, int], width: int = 784) -> dict[str, Any]:
    """Random users: float32 pixels [images, width], and labels of 62 classes."""
    rng = np.random.default_rng(seed)
    return {
        user: (rng.random((count, width), dtype=np.float32), rng.integers(0, 62, count))
        for user, count in counts.items()
    }


def as_lists(users: Mapping[str, Any]) -> dict[str, Any]:
    """The same users as JSON knows them."""
    return {user: (x.tolist(), y.tolist()) for user, (x, y) in users.items()}


def load_npz(
    folder: Path, content: bytes, *, seed: int = 0, fairness: Fairness | None = None, **fields: Any
) -> Federation:
    """The federation of an NPZ file's bytes."""
    (folder / "data.npz").write_bytes(content)
    source = Images.model_validate({"source": "images", "path": "data.npz", **fields})
    return ImagesKind(source).load(_asked(folder, fairness, seed))


def load_leaf(
    folder: Path,
    content: bytes,
    *,
    seed: int = 0,
    fairness: Fairness | None = None,
    name: str = "leaf.json",
    **fields: Any,
) -> Federation:
    """The federation of a LEAF data set's bytes."""
    (folder / name).write_bytes(content)
    source = Femnist.model_validate({"source": "femnist", "path": name, **fields})
    return FemnistKind(source).load(_asked(folder, fairness, seed))


def _asked(folder: Path, fairness: Fairness | None, seed: int) -> LoadRequest:
    return LoadRequest(fairness=fairness or Fairness(), files=Files(folder), seed=seed)


def rows_of(federation: Federation) -> ClientRows:
    """Its features, of rows computed client by client."""
    assert isinstance(federation.features, ClientRows)
    return federation.features


def pixels_of(federation: Federation, client: int) -> NDArray[np.float32]:
    """A client's images: float32 [rows, features]."""
    rows = rows_of(federation)
    own = rows.values[federation.own(client)]
    return np.divide(own, rows.divisor, dtype=np.float32)


def labels_of(federation: Federation, client: int) -> NDArray[np.float64]:
    """A client's labels."""
    return federation.raw_target[federation.own(client)]
