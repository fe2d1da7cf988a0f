"""Rows in the order of their clients, scaled and checked; large features in a file that is mapped.

The file has people's data: it has the rights of its owner alone, and no name once it is written.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats, Floats32, Ints
from fedaudit.federations.federation import (
    CELLS_BESIDE_FEATURES,
    Attribute,
    ClientRows,
    Features,
    Federation,
    taken,
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
        elif name == target and isinstance(scale, Range):
            problem = (
                "the target takes {mean, deviation} or a divisor: values brought to the ends of a "
                "range could not be distinguished; give a number near its middle as `mean`, and "
                "how far from it values usually are as `deviation`, by what is publicly known"
            )
        elif name not in (*features, target, EVERY_NUMBER):
            problem = (
                f"{name!r} is neither a feature nor the target; leave it out or correct the name"
            )
        if problem is not None:
            faults.append(FieldError(scale_pointer(name), problem))
    raise_errors(faults)


def scaled(values: Floats, scale: Scale) -> tuple[Floats, int]:
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


def as_float32(values: Floats, name: str) -> Floats32:
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


def check_size(*, rows: int, features: int, where: str, remedy: str) -> None:
    """Refuse arrays [rows, features] that would not fit into memory."""
    cells = rows * (features + CELLS_BESIDE_FEATURES)
    if cells > MAX_FEDERATION_CELLS:
        raise error_at(
            where,
            f"{rows} rows of {features} features take {cells} cells, and {MAX_FEDERATION_CELLS} "
            f"are allowed; {remedy}",
        )


def first_rows(counts: Ints) -> Ints:
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


def client_order(clients: Levels) -> Ints:
    """[rows]: which row comes when, client after client; a client's keep the order of the file."""
    return np.argsort(clients.codes, kind="stable")


def pack(
    clients: Levels,
    *,
    features: Features,
    target: Floats,
    target_name: str,
    target_scale: float | Centre = 1.0,
    attributes: Sequence[Attribute] = (),
    row_numbers: Ints | None = None,
    record_budgets: Floats | None = None,
    record_keys: NDArray[np.uint64] | None = None,
    order: Ints | None = None,
    **more: Any,
) -> Federation:
    """Group rows, which come in the order of the file, by client.

    A client's rows keep that order. `features` are scaled, and in the order of the clients where
    that `order` is given, as `ClientRows` always are; `target` [rows] is not scaled. `more` is as
    `Federation` has it. Raises InvalidInputError if there is only one client, and at the target's
    scale if it is too small.
    """
    check_clients(clients, where="/federation/client_key")
    place = client_order(clients) if order is None else order
    if order is None and not isinstance(features, ClientRows):
        features = features[place]
    centre = target_scale
    if not isinstance(centre, Centre):
        centre = Centre(mean=0.0, deviation=centre)
    divided, _ = scaled(target, centre)
    return Federation(
        features=features,
        target=as_float32(divided, target_name)[place],
        raw_target=target[place],
        first=first_rows(np.bincount(clients.codes, minlength=len(clients.values))),
        client_names=clients.values,
        target_name=target_name,
        target_scale=centre.deviation,
        target_mean=centre.mean,
        attributes=tuple(one.of_rows(place) for one in attributes),
        row_numbers=taken(row_numbers, place),
        record_budgets=taken(record_budgets, place),
        record_keys=taken(record_keys, place),
        **more,
    )


def new_array(folder: Path, shape: tuple[int, int]) -> Floats32:
    """A file for features, mapped to be written. Raises OSError where the disk is full."""
    path = folder / "features.npy"
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
