"""From a list of rows to padded arrays, client by client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.faults import invalid, pointer
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.levels import Levels

LARGEST_FEDERATION = 2**26
"""Cells of four bytes that the padded arrays may have: 256 MiB."""
CELLS_BESIDE_FEATURES = 5
"""A row's target, raw target, mask and attribute codes, in cells of four bytes."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A data set as it came: one entry per row, in the order of the file."""

    clients: Levels
    features: NDArray[np.float64]
    """[rows, features], unscaled."""
    feature_names: tuple[str, ...]
    target: NDArray[np.float64]
    """[rows], unscaled; class indices for classification."""
    target_name: str
    fingerprint: str
    classes: tuple[str, ...] = ()
    attributes: Mapping[str, Levels] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def check_size(*, clients: int, rows: int, features: int, where: str, remedy: str) -> None:
    """Refuse arrays [clients, rows, features] that would not fit into memory."""
    cells = clients * rows * (features + CELLS_BESIDE_FEATURES)
    if cells > LARGEST_FEDERATION:
        raise invalid(
            where,
            f"{clients} clients padded to {rows} rows of {features} features take {cells} cells, "
            f"and {LARGEST_FEDERATION} are allowed; {remedy}",
        )


def pack(rows: Rows, scale: Mapping[str, float]) -> Federation:
    """Group rows by client, divide by the public scales and pad.

    A client's rows keep the order of the file. Raises InvalidInputError below /federation where
    there is one client only, the padded arrays would be too large, or a scale names no column.
    """
    _check_scale(rows, scale)
    clients = len(rows.clients.values)
    if clients < 2:
        raise invalid(
            "/federation/client_key",
            "every row belongs to one client; a federation needs at least two, so name a column "
            "that tells clients apart",
        )
    counts = np.bincount(rows.clients.codes, minlength=clients)
    longest = int(counts.max())
    check_size(
        clients=clients,
        rows=longest,
        features=len(rows.feature_names),
        where="/federation/client_key",
        remedy="use fewer features, or a client key that splits the largest client",
    )
    place = _places(rows.clients.codes, counts)
    divisors = np.array([scale.get(name, 1.0) for name in rows.feature_names])
    target_scale = scale.get(rows.target_name, 1.0)
    scaled = _scaled(rows.features, divisors, rows.feature_names)
    target = _scaled(rows.target[:, None], np.array([target_scale]), (rows.target_name,))[:, 0]
    shape = (clients, longest)
    return Federation(
        features=_scatter(scaled, place, (*shape, len(divisors)), fill=0),
        target=_scatter(target, place, shape, fill=0),
        raw_target=_scatter(rows.target, place, shape, fill=0),
        mask=np.arange(longest) < counts[:, None],
        client_names=rows.clients.values,
        feature_names=rows.feature_names,
        target_name=rows.target_name,
        target_scale=target_scale,
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
    )


Cell = TypeVar("Cell", bound=np.generic)
_Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def _places(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> _Places:
    """Each row's client, and its position among that client's rows."""
    order = np.argsort(codes, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    position = np.empty(len(codes), dtype=np.int64)
    position[order] = np.arange(len(codes)) - first
    return codes, position


def _scatter(
    values: NDArray[Cell], place: _Places, shape: tuple[int, ...], *, fill: int
) -> NDArray[Cell]:
    padded = np.full(shape, fill, dtype=values.dtype)
    padded[place] = values
    return padded


def _check_scale(rows: Rows, scale: Mapping[str, float]) -> None:
    columns = {*rows.feature_names, *(() if rows.classes else (rows.target_name,))}
    for name in scale:
        if rows.classes and name == rows.target_name:
            raise invalid(
                pointer("federation", "scale", name),
                "the target is a class and has no scale; leave it out",
            )
        if name not in columns:
            raise invalid(
                pointer("federation", "scale", name),
                f"{name!r} is neither a feature nor the target; leave it out or correct the name",
            )


def _scaled(
    values: NDArray[np.float64], divisors: NDArray[np.float64], names: tuple[str, ...]
) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        scaled = (values / divisors).astype(np.float32)
    finite = np.isfinite(scaled).all(axis=0)
    if not finite.all():
        name = names[int(np.argmin(finite))]
        raise invalid(
            pointer("federation", "scale", name),
            f"{name!r} divided by its scale does not fit a 32-bit number; give a larger scale",
        )
    return scaled
