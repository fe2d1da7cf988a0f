"""Convert a list of rows to padded arrays, client by client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.levels import Levels
from fedaudit.federations.scaling import as_float32, scaled

MAX_FEDERATION_CELLS = 2**26
"""Cells of four bytes that the padded arrays may have: 256 MiB."""
CELLS_BESIDE_FEATURES = 5
"""A row's target, raw target, mask and attribute codes, in cells of four bytes."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A data set in its original order: one entry per row, in the order of the file."""

    clients: Levels
    features: NDArray[np.float32]
    """[rows, features], scaled."""
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


def check_size(*, clients: int, rows: int, features: int, where: str, remedy: str) -> None:
    """Refuse arrays [clients, rows, features] that would not fit into memory."""
    cells = clients * rows * (features + CELLS_BESIDE_FEATURES)
    if cells > MAX_FEDERATION_CELLS:
        raise error_at(
            where,
            f"{clients} clients padded to {rows} rows of {features} features take {cells} cells, "
            f"and {MAX_FEDERATION_CELLS} are allowed; {remedy}",
        )


def check_clients(clients: Levels, *, where: str) -> None:
    """Refuse a federation of one client, which could not be split."""
    if len(clients.values) < 2:
        raise error_at(
            where,
            "every row belongs to one client; a federation needs at least two, so name a column "
            "that identifies clients",
        )


def pack(rows: Rows, *, where: str = "/federation/client_key") -> Federation:
    """Group rows by client and pad.

    A client's rows keep the order of the file. Raises InvalidInputError at `where`, the field that
    says how clients are identified, if there is only one client or the padded arrays would be too
    large, and at the target's scale if it is too small.
    """
    check_clients(rows.clients, where=where)
    clients = len(rows.clients.values)
    counts = np.bincount(rows.clients.codes, minlength=clients)
    longest = int(counts.max())
    check_size(
        clients=clients,
        rows=longest,
        features=len(rows.feature_names),
        where=where,
        remedy="use fewer features, or clients of more even sizes",
    )
    place = places(rows.clients.codes, counts)
    target, _ = scaled(rows.target, rows.target_scale)
    shape = (clients, longest)
    return Federation(
        features=_scatter(rows.features, place, (*shape, len(rows.feature_names)), fill=0),
        target=_scatter(as_float32(target, rows.target_name), place, shape, fill=0),
        raw_target=_scatter(rows.target, place, shape, fill=0),
        mask=np.arange(longest) < counts[:, None],
        client_names=rows.clients.values,
        feature_names=rows.feature_names,
        target_name=rows.target_name,
        target_scale=rows.target_scale,
        classes=rows.classes,
        attributes=tuple(
            Attribute(
                name,
                levels.values,
                _scatter(levels.codes.astype(np.int16), place, shape, fill=-1),
            )
            for name, levels in rows.attributes.items()
        ),
        fingerprint=rows.fingerprint,
        truth=None,
        notes=rows.notes,
        record_budgets=None
        if rows.record_budgets is None
        else _scatter(rows.record_budgets, place, shape, fill=np.nan),
        row_numbers=None
        if rows.row_numbers is None
        else _scatter(rows.row_numbers, place, shape, fill=-1),
        record_keys=None
        if rows.record_keys is None
        else _scatter(rows.record_keys, place, shape, fill=0),
    )


Cell = TypeVar("Cell", bound=np.generic)
Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def places(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Places:
    """Each row's client, and its position among that client's rows, in the order of the file."""
    order = np.argsort(codes, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    position = np.empty(len(codes), dtype=np.int64)
    position[order] = np.arange(len(codes)) - first
    return codes, position


def _scatter(
    values: NDArray[Cell], place: Places, shape: tuple[int, ...], *, fill: float
) -> NDArray[Cell]:
    padded = np.full(shape, fill, dtype=values.dtype)
    padded[place] = values
    return padded
