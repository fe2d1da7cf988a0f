"""Rows in the order of their clients, scaled and checked; large features in a file that is mapped.

The file has people's data: it has the rights of its owner alone, and no name once it is written.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import (
    CELLS_BESIDE_FEATURES,
    Attribute,
    ClientRows,
    Features,
    Federation,
)
from fedaudit.federations.levels import Levels
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
    features: Features
    """[rows, features], scaled; in the order of the clients where `order` is given, as `ClientRows`
    always are."""
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
    features = rows.features
    if rows.order is None and not isinstance(features, ClientRows):
        features = features[order]
    return Federation(
        features=features,
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
        notes=rows.notes,
        record_budgets=None if rows.record_budgets is None else rows.record_budgets[order],
        row_numbers=None if rows.row_numbers is None else rows.row_numbers[order],
        record_keys=None if rows.record_keys is None else rows.record_keys[order],
        is_outline=rows.is_outline,
    )


FEATURES = "features"


def new_array(folder: Path, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    """A file for float32 numbers, mapped to be written. Raises OSError where the disk is full."""
    path = folder / f"{name}.npy"
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    with path.open("rb+") as file:
        # Otherwise a full disk would be met by a write to memory, which kills the process.
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)


@contextmanager
def loading_folder(below: Path | None) -> Iterator[Path]:
    """A folder that is removed when the block ends; files of it that are mapped can be used
    further. In the system's place for temporary files unless `below` can be written to."""
    writable = False
    if below is not None:
        with suppress(OSError):
            below.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(below, os.W_OK | os.X_OK)
    made = Path(tempfile.mkdtemp(dir=below if writable else None))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
