"""Rows in the order of their clients, and federations as files of arrays in a folder, mapped and
not read.

Each is made once, found by its content, and removed in time. A map is named by the fingerprint of
its file and a digest of how the file is read. It is written under another name and renamed when it
is complete, so nobody sees half of one. It holds people's data: it has the rights of its owner
only, and goes when nobody keeps its content any longer.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import CELLS_BESIDE_FEATURES, Attribute, Federation
from fedaudit.federations.levels import Levels
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import FieldError, error_at, pointer, raise_errors
from fedaudit.spec.sources import Centre, CentredRange, Range, Scale

Scales = Mapping[str, Scale]
EVERY_NUMBER = "*"
"""Names, under `scale`, every numeric feature that is not named itself."""


def scale_pointer(name: str) -> str:
    """The field of the spec that scales a column."""
    return pointer("federation", "scale", name)


def check_scales(
    scales: Scales, *, features: Sequence[str], one_hot: Sequence[str], target: str, classes: bool
) -> None:
    """Refuse scales without a column to scale.

    `features` are the columns that may be scaled, `one_hot` those encoded as one column per
    category; `classes` means that the target is one. Raises InvalidInputError below
    /federation/scale.
    """
    faults: list[FieldError] = []
    for name, scale in scales.items():
        problem = None
        if name in one_hot:
            problem = (
                f"{name!r} becomes a column of 0 and 1 per category and has no scale; leave it out"
            )
        elif name == target and classes:
            problem = "the target is a class and has no scale; leave it out"
        elif name == target and isinstance(scale, Range | Centre):
            problem = (
                "the target takes a divisor: values brought to the ends of a range could not be "
                "distinguished, and rules of fairness are in its own units; give a number"
            )
        elif name not in (*features, target, EVERY_NUMBER):
            problem = (
                f"{name!r} is neither a feature nor the target; leave it out or correct the name"
            )
        if problem is not None:
            faults.append(FieldError(scale_pointer(name), problem))
    raise_errors(faults)


def scaled(values: NDArray[np.float64], scale: Scale) -> tuple[NDArray[np.float64], int]:
    """Values on their scale, and how many of them were clamped to its range. Each by itself: a spec
    declares the constants, which are never statistics of the data."""
    with np.errstate(over="ignore"):
        match scale:
            case Centre():
                return (values - scale.mean) / scale.deviation, 0
            case Range():
                outside = int(np.count_nonzero((values < scale.low) | (values > scale.high)))
                kept = np.clip(values, scale.low, scale.high)
                share = (kept - scale.low) / (scale.high - scale.low)
                return (4 * share - 2 if isinstance(scale, CentredRange) else share), outside
            case _:  # a number: by any other class mypy lets nothing be divided
                return values / scale, 0


def as_float32(values: NDArray[np.float64], name: str) -> NDArray[np.float32]:
    """Scaled values as float32 for training.

    Raises InvalidInputError at the column's scale where a value is too large for 32 bits.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise error_at(
            scale_pointer(name),
            f"{name!r} divided by its scale does not fit a 32-bit number; give a larger scale",
        )
    return narrow


MAX_FEDERATION_CELLS = 2**26
"""Cells of four bytes that a federation may have: 256 MiB."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A data set in its original order: one entry per row, in the order of the file."""

    clients: Levels
    features: NDArray[np.float32]
    """[rows, features], scaled; in the order of the clients where `order` is given."""
    feature_names: tuple[str, ...]
    target: NDArray[np.float64]
    """[rows], unscaled; class indices for classification."""
    target_name: str
    target_scale: float
    """1 for classification."""
    fingerprint: str
    classes: tuple[str, ...] = ()
    attributes: Mapping[str, Levels] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    record_budgets: NDArray[np.float64] | None = None
    """[rows]: the privacy budget of each row."""
    row_numbers: NDArray[np.int64] | None = None
    """[rows]: the number of each row in the file."""
    record_keys: NDArray[np.uint64] | None = None
    """[rows]: the key of each row."""
    order: NDArray[np.int64] | None = None
    """[rows]: `client_order`, where the features lie in it already."""
    is_outline: bool = False
    """Whether the features were left out."""


def check_size(*, rows: int, features: int, where: str, remedy: str) -> None:
    """Refuse arrays [rows, features] that would not fit into memory."""
    cells = rows * (features + CELLS_BESIDE_FEATURES)
    if cells > MAX_FEDERATION_CELLS:
        raise error_at(
            where,
            f"{rows} rows of {features} features take {cells} cells, and {MAX_FEDERATION_CELLS} "
            f"are allowed; {remedy}",
        )


def first_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[clients + 1] where each client's rows begin, for [clients] numbers of rows."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def check_clients(clients: Levels, *, where: str) -> None:
    """Refuse a federation of one client, which could not be split."""
    if len(clients.values) < 2:
        raise error_at(
            where,
            "every row belongs to one client; a federation needs at least two, so name a column "
            "that identifies clients",
        )


def attribute_of(name: str, levels: Levels) -> Attribute:
    """A sensitive attribute that has these levels."""
    return Attribute(name, levels.values, levels.codes.astype(np.int16), levels.numbers)


def client_order(clients: Levels) -> NDArray[np.int64]:
    """[rows]: which row comes when, client after client; a client's keep the order of the file."""
    return np.argsort(clients.codes, kind="stable")


def pack(rows: Rows, *, where: str = "/federation/client_key") -> Federation:
    """Group rows by client.

    A client's rows keep the order of the file. Raises InvalidInputError at `where`, the field that
    says how clients are identified, if there is only one client, and at the target's scale if it
    is too small.
    """
    check_clients(rows.clients, where=where)
    counts = np.bincount(rows.clients.codes, minlength=len(rows.clients.values))
    order = client_order(rows.clients) if rows.order is None else rows.order
    target, _ = scaled(rows.target, rows.target_scale)
    return Federation(
        features=rows.features[order] if rows.order is None else rows.features,
        target=as_float32(target, rows.target_name)[order],
        raw_target=rows.target[order],
        first=first_rows(counts),
        client_names=rows.clients.values,
        feature_names=rows.feature_names,
        target_name=rows.target_name,
        target_scale=rows.target_scale,
        classes=rows.classes,
        attributes=tuple(
            attribute_of(name, levels).of_rows(order) for name, levels in rows.attributes.items()
        ),
        fingerprint=rows.fingerprint,
        truth=None,
        notes=rows.notes,
        record_budgets=None if rows.record_budgets is None else rows.record_budgets[order],
        row_numbers=None if rows.row_numbers is None else rows.row_numbers[order],
        record_keys=None if rows.record_keys is None else rows.record_keys[order],
        is_outline=rows.is_outline,
    )


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
        arrays = {
            # A plain array over the map: the class of maps is slow, and adds nothing.
            name.removesuffix(".npy"): np.asarray(
                np.load(folder / name, mmap_mode="r", allow_pickle=False)
            )
            for name in about["bytes"]
        }
        return _federation(about, arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take on disk."""
    return sum(path.stat().st_size for path in folder.iterdir())


def _federation(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Federation:
    fields: dict[str, Any] = {name: arrays.get(name) for name in (FEATURES, *_ARRAYS)}
    for name in _TEXTS:
        fields[name] = tuple(about[name]) if isinstance(about[name], list) else about[name]
    fields["attributes"] = tuple(
        Attribute(name, tuple(values), arrays[_codes(place)], arrays.get(_numbers(place)))
        for place, (name, values) in enumerate(about["attributes"])
    )
    return Federation(truth=None, **fields)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _codes(place: int) -> str:
    return f"attribute_{place}"


def _numbers(place: int) -> str:
    return f"numbers_{place}"


WORTH_A_MAP = 16 * 2**20
"""Bytes on disk from which a file is mapped: smaller ones are read within a second."""
_MAP = re.compile(r"([0-9a-f]{64})-[0-9a-f]{32}")
_MAKING, _SEEN = ".making-", ".seen"
_SETTLED_SECONDS = 2.0
"""After its last change: until then a file may change again without a later time of change."""
_LEFT_SECONDS = 24 * 3600.0
"""After which nobody is writing a map any more."""
_UNUSED_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class MapFolder:
    """Safe to share between threads and processes of one machine."""

    folder: Path
    max_bytes: int
    """Of all maps together; those that were used last stay."""

    def fingerprint(self, file: SourceFile, progress: Callable[[], None]) -> str:
        """The file's, as it is now. It is read for it unless size, inode and times of change are
        what they were when it was read before. Raises InvalidInputError."""
        identity = file.identity
        note = self.folder / _SEEN / hashlib.sha256(repr(identity).encode()).hexdigest()
        with suppress(OSError, ValueError):
            return file.known_as(json.loads(note.read_text("utf-8"))["fingerprint"])
        settled = time.time() - file.changed_at > _SETTLED_SECONDS
        found = file.read_fingerprint(progress)
        if settled and file.identity == identity:
            with suppress(OSError):
                self._note(note, found)
        return found

    def find(self, fingerprint: str, key: str) -> Federation | None:
        """The federation of that content read in that way; None where there is no whole map."""
        place = self.folder / f"{fingerprint}-{key}"
        found = read_federation(place)
        if found is not None:
            with suppress(OSError):
                os.utime(place)
        return found

    @property
    def is_usable(self) -> bool:
        """Whether this process may write to the folder, which is made where it is missing."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.access(self.folder, os.W_OK | os.X_OK)

    @contextmanager
    def making(self) -> Iterator[Path]:
        """A new folder for a map, removed when the block ends unless it was kept."""
        self._remove_left_over()
        with making_folder(self.folder) as made:
            yield made

    def keep(self, federation: Federation, made: Path, key: str) -> Federation:
        """The federation mapped from a folder of `making`, to be found from now on.

        One that the bound has no room for is mapped and not kept. Raises OSError.
        """
        write_federation(federation, made)
        fingerprint, size = federation.fingerprint, folder_bytes(made)
        mapped = read_federation(made)
        if mapped is None:
            raise OSError("what was written is not what is there")
        if self._make_room(size):
            place = self.folder / f"{fingerprint}-{key}"
            if read_federation(place) is None:
                shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):  # another process was faster, with the same
                made.rename(place)
        return mapped

    def tidy(self, gone: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove maps that nobody used for long, and those of contents that nobody keeps: `gone` is
        asked which these are. Runs that use them go on: what is mapped stays until they end."""
        self._remove_left_over()
        maps = {path: path.name.partition("-")[0] for path in self._maps()}
        removed = set(gone(set(maps.values()))) if maps else set()
        for path, fingerprint in maps.items():
            with suppress(OSError):
                if fingerprint in removed or _age(path) > _UNUSED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)

    def _maps(self) -> list[Path]:
        """The maps, those first that were not used for longest."""
        times: dict[Path, float] = {}
        for path in self.folder.glob("*-*"):
            with suppress(OSError):
                if _MAP.fullmatch(path.name):
                    times[path] = path.stat().st_mtime
        return sorted(times, key=times.__getitem__)

    def _make_room(self, size: int) -> bool:
        """Whether so many bytes more are within the bound, after removing what is older."""
        if size > self.max_bytes:
            return False
        maps = self._maps()
        taken = sum(map(_bytes_of, maps))
        for path in maps:
            if taken + size <= self.max_bytes:
                break
            taken -= _bytes_of(path)
            shutil.rmtree(path, ignore_errors=True)
        return True

    def _remove_left_over(self) -> None:
        """What processes that were killed left, once nobody can be writing it any more."""
        for path in self.folder.glob(f"{_MAKING}*"):
            with suppress(OSError):
                if _age(path) > _LEFT_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)

    def _note(self, note: Path, fingerprint: str) -> None:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = note.with_name(f"{note.name}.{os.getpid()}")
        written.write_text(json.dumps({"fingerprint": fingerprint}), "utf-8")
        written.rename(note)


@contextmanager
def making_folder(below: Path | None) -> Iterator[Path]:
    """A folder that is removed when the block ends, unless it was renamed; files of it that are
    mapped can be used further. `below`: None for the system's place for temporary files."""
    made = Path(tempfile.mkdtemp(prefix=_MAKING, dir=below))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _age(path: Path) -> float:
    """Seconds since a folder was last changed, or used."""
    return time.time() - path.stat().st_mtime


def _bytes_of(path: Path) -> int:
    try:
        return folder_bytes(path)
    except OSError:
        return 0
