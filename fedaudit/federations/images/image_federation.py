"""Federations of images: NumPy archives, and handwriting in LEAF's format."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at, pointer
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.images.array_levels import column, groups_of, levels_in
from fedaudit.federations.images.client_rows import (
    MAX_IMAGES_BYTES,
    MAX_ROW_VALUES,
    LabelledRows,
    check_clients,
    federation_of,
    square_image,
)
from fedaudit.federations.images.label_classes import read_labels
from fedaudit.federations.images.leaf import read_leaf
from fedaudit.federations.images.rotation import ATTRIBUTE, rotate, rotated_clients, rotation_levels
from fedaudit.federations.levels import Levels
from fedaudit.federations.packing import first_rows
from fedaudit.federations.reading.npz import NumpyArchive, open_numpy
from fedaudit.federations.reading.source_files import Files, open_source
from fedaudit.federations.source_kind import FileKind, LoadRequest
from fedaudit.spec.fairness import Groups
from fedaudit.spec.images import Femnist, Images, Rotate

_CLIENT_KEY = "/federation/client_key"
_TURNED = "images are turned by each experiment; the groups of 'rotated' are those of seed 0"


class ImagesKind(FileKind):
    """Images of a NumPy archive."""

    def __init__(self, source: Images) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """Rotates some clients' images, chosen by the experiment's seed. Raises
        InvalidInputError."""
        return load_images(
            self._source, fairness=asked.fairness, seed=asked.seed, files=asked.files
        )

    def profile_notes(self) -> list[str]:
        return _turned(self._source.rotate)


class FemnistKind(FileKind):
    """Handwriting in the format of LEAF."""

    def __init__(self, source: Femnist) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """Rotates some clients' images, chosen by the experiment's seed. Raises
        InvalidInputError."""
        return load_femnist(
            self._source, fairness=asked.fairness, seed=asked.seed, files=asked.files
        )

    def profile_notes(self) -> list[str]:
        return _turned(self._source.rotate)


def _turned(rotation: Rotate | None) -> list[str]:
    return [] if rotation is None else [_TURNED]


def load_images(source: Images, *, fairness: Groups, seed: int, files: Files) -> Federation:
    """The images of a NumPy archive, one client per value of its array `client_key`.

    Raises InvalidInputError naming field, array and row.
    """
    with open_source(source, files=files) as file, open_numpy(file) as archive:
        images = _image_count(archive)
        clients = _clients(archive, source.client_key, images)
        codes, classes = read_labels(archive, source.classes, images)
        order = np.argsort(clients.codes, kind="stable")
        attributes, notes = _attributes(archive, source, fairness, images)
        rows = _rows(archive, clients, order)
        data = LabelledRows(
            clients=clients.values,
            rows=rows,
            first=first_rows(np.bincount(clients.codes)),
            labels=codes[order],
            numbers=order + 1,
            classes=classes,
            fingerprint=file.fingerprint,
            notes=(*notes, *_dark(rows)),
        )
    ordered = {
        name: Levels(
            levels.values,
            levels.codes[order],
            None if levels.numbers is None else levels.numbers[order],
        )
        for name, levels in attributes.items()
    }
    return _federation(data, ordered, source.rotate, fairness, seed)


def load_femnist(source: Femnist, *, fairness: Groups, seed: int, files: Files) -> Federation:
    """The images of a LEAF data set, one client per user.

    Raises InvalidInputError naming field, shard, user and row.
    """
    for place, name in enumerate(fairness.sensitive):
        if name != ATTRIBUTE or source.rotate is None:
            raise error_at(
                pointer("fairness", "sensitive", place),
                f"handwriting of LEAF has no attribute {name!r}; it has {ATTRIBUTE!r} where "
                "`rotate` is given",
            )
    with open_source(source, files=files) as file:
        data = read_leaf(file, classes=source.classes)
    return _federation(data, {}, source.rotate, fairness, seed)


def _federation(
    data: LabelledRows,
    attributes: Mapping[str, Levels],
    rotation: Rotate | None,
    fairness: Groups,
    seed: int,
) -> Federation:
    """The federation with some clients' images rotated; attributes in the order of the spec."""
    if rotation is None:
        return federation_of(data, attributes)
    positive_flipped = rotated_clients(
        len(data.clients), probability=rotation.probability, seed=seed
    )
    rotate(data.rows, positive_flipped, first=data.first)
    known = {**attributes, ATTRIBUTE: rotation_levels(positive_flipped, first=data.first)}
    return federation_of(data, {name: known[name] for name in fairness.sensitive})


def _image_count(archive: NumpyArchive) -> int:
    """The length of `x`, whose shape is one of the three supported."""
    file = archive.file
    if "x" not in archive.names:
        raise file.fault("has no array 'x' of images; add it")
    header = archive.header("x")
    if not 2 <= len(header.shape) <= 4:
        raise file.fault(
            f"holds an array 'x' of shape {list(header.shape)}; store [images, height, width], "
            "[images, height, width, channels] or [images, features]"
        )
    if math.prod(header.shape[1:]) > MAX_ROW_VALUES:
        raise file.fault(
            f"holds images of more than {MAX_ROW_VALUES} values; store them in a lower resolution"
        )
    if header.dtype.kind != "f" and header.dtype != np.uint8:
        raise file.fault(
            f"holds an array 'x' of type {header.dtype}; store bytes (uint8, 0 to 255) or floats "
            "from 0 to 1"
        )
    if math.prod(header.shape) * (1 if header.dtype == np.uint8 else 4) > MAX_IMAGES_BYTES:
        raise file.fault(f"holds images of more than {MAX_IMAGES_BYTES // 2**20} MiB; store bytes")
    return header.shape[0]


def _clients(archive: NumpyArchive, name: str, images: int) -> Levels:
    """Each image's client, in the order of code points."""
    entries = column(archive, name, rows=images, where=_CLIENT_KEY)
    if entries.dtype.kind not in "iuUS":
        raise error_at(
            _CLIENT_KEY,
            f"the array {name!r} is of type {entries.dtype}; clients are named by whole numbers "
            "or texts",
        )
    clients = levels_in(archive, name, entries, where=_CLIENT_KEY, numeric=False)
    if clients.missing:
        raise archive.fault(
            name,
            int(np.argmax(clients.codes < 0)),
            _CLIENT_KEY,
            "is empty",
            "name the image's client or leave the image out",
        )
    check_clients(np.bincount(clients.codes), _CLIENT_KEY)
    return clients


def _rows(archive: NumpyArchive, clients: Levels, order: NDArray[np.int64]) -> ClientRows:
    """The images client after client, read in chunks so that memory holds them only once."""
    images, *shape = archive.header("x").shape
    width = math.prod(shape)
    place = np.empty(images, dtype=np.int64)
    place[order] = np.arange(images)
    exact = archive.header("x").dtype == np.uint8
    values: NDArray[np.uint8] | NDArray[np.float32] = (
        np.empty((images, width), dtype=np.uint8)
        if exact
        else np.empty((images, width), dtype=np.float32)
    )
    for first, block in archive.blocks("x"):
        flat = block.reshape(len(block), width)
        if not exact:
            _check_pixels(archive, first, flat)
        values[place[first : first + len(flat)]] = flat
    image = square_image(width) if len(shape) == 1 else (shape[0], shape[1], (*shape, 1)[2])
    return ClientRows(values, 255.0 if exact else 1.0, image)


def _check_pixels(archive: NumpyArchive, first: int, block: NDArray[np.floating]) -> None:
    outside = ~((block >= 0) & (block <= 1)).all(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        finite = np.isfinite(block[row]).all()
        raise archive.fault(
            "x",
            first + row,
            archive.file.pointer,
            "has a pixel outside 0 to 1" if finite else "has a pixel that is no finite number",
            "store bytes, or divide by the largest possible value" if finite else "correct it",
        )


def _dark(rows: ClientRows) -> tuple[str, ...]:
    if rows.divisor == 1 or rows.values.max() > 1:
        return ()
    return ("pixels are bytes that stand for 0 to 255, but none is larger than 1",)


def _attributes(
    archive: NumpyArchive, source: Images, fairness: Groups, images: int
) -> tuple[dict[str, Levels], tuple[str, ...]]:
    """Sensitive attributes that are arrays of the archive, and notes on what is missing."""
    attributes: dict[str, Levels] = {}
    notes: list[str] = []
    for place, name in enumerate(fairness.sensitive):
        if name == ATTRIBUTE and source.rotate is not None:
            continue
        where = pointer("fairness", "sensitive", place)
        levels = groups_of(archive, name, fairness, rows=images, where=where)
        if levels.missing:
            notes.append(f"rows without a value of {name!r}, in no group: {levels.missing}")
        attributes[name] = levels
    return attributes, tuple(notes)
