"""Handwriting in the format of LEAF (Caldas et al. 2018).

A file is `{"users": [...], "num_samples": [...], "user_data": {user: {"x": [[...]], "y": [...]}}}`;
a data set is one such file, or a zip of several (its shards), each with users of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.images.client_rows import (
    MAX_IMAGES_BYTES,
    MAX_ROW_VALUES,
    check_clients,
    federation_of,
    square_image,
)
from fedaudit.federations.mapped import first_rows
from fedaudit.federations.reading.archives import is_zip, open_archive, shown
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError

MAX_SHARD_BYTES = 512 * 2**20
"""Bytes of one JSON file."""
MAX_DATA_SET_BYTES = 8 * 2**30
"""Bytes of all shards; one at a time is in memory."""
MAX_VALUES = 2**25
"""Values of one JSON file; each takes about 70 bytes during parsing, regardless of its text."""
MAX_NAME_LENGTH = 200
_BYTE = 255.0

Pixels = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Writer:
    """A user's images, as bytes if these, divided by 255, are exactly the numbers of the file."""

    shard: str
    pixels: Pixels
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class _Shard:
    """The name of one JSON file, for messages."""

    file: SourceFile
    name: str
    """The name of the file in the zip; '' where there is no zip."""

    def fault(self, message: str) -> InvalidInputError:
        """An error about this file, to be raised."""
        return self.file.fault(f"({shown(self.name)}) {message}" if self.name else message)


def read_leaf(file: SourceFile, *, classes: int) -> Federation:
    """Every user's images and labels; users without images are left out and counted in a note.

    Pixels are numbers from 0 to 1, kept as float32, or as bytes where k / 255 in float32 is
    exactly the number of the file. Raises InvalidInputError naming shard, user and row.
    """
    writers: dict[str, _Writer] = {}
    empty = 0
    for shard, value in _shards(file):
        for user, (pixels, labels) in _users(shard, value, classes).items():
            if user in writers:
                raise shard.fault(
                    f"has a user {shown(user)}, whom {shown(writers[user].shard)} has too; give "
                    "every user in one file"
                )
            writers[user] = _Writer(shard.name, _compact(pixels), labels)
            empty += not len(labels)
        exact = all(writer.pixels.dtype == np.uint8 for writer in writers.values())
        values = sum(writer.pixels.size for writer in writers.values())
        if values * (1 if exact else 4) > MAX_IMAGES_BYTES:
            raise file.fault(
                f"holds images of more than {MAX_IMAGES_BYTES // 2**20} MiB; take fewer users"
            )
    return _joined(file, writers, classes, empty)


def _shards(file: SourceFile) -> Iterator[tuple[_Shard, Mapping[str, Any]]]:
    """The JSON files in the order of their names."""
    if not is_zip(file):
        shard = _Shard(file, "")
        yield shard, _parsed(shard, file.read_all(MAX_SHARD_BYTES))
        return
    with open_archive(
        file, suffix=".json", largest_member=MAX_SHARD_BYTES, largest=MAX_DATA_SET_BYTES
    ) as archive:
        for name in sorted(archive.names):
            shard = _Shard(file, name)
            yield shard, _parsed(shard, archive.read(name))


def _parsed(shard: _Shard, content: bytes | bytearray) -> Mapping[str, Any]:
    if content.count(b",") > MAX_VALUES:
        raise shard.fault(
            f"holds more than {MAX_VALUES} values; split it into several files with different "
            "users, in one zip"
        )
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise shard.fault(
            f"is no JSON at line {error.lineno}, column {error.colno} (NaN and infinities are "
            "none); write it again"
        ) from None
    if not isinstance(value, dict):
        raise shard.fault("holds no JSON object; LEAF's has users, num_samples and user_data")
    return value


def _users(
    shard: _Shard, value: Mapping[str, Any], classes: int
) -> dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Each user's pixels [images, features] and labels [images]."""
    users, samples, data = (value.get(key) for key in ("users", "num_samples", "user_data"))
    if not (isinstance(users, list) and isinstance(samples, list) and isinstance(data, dict)):
        raise shard.fault(
            "needs the lists users and num_samples and the object user_data, as LEAF writes them"
        )
    if len(users) != len(samples):
        raise shard.fault(
            f"has {len(users)} users and {len(samples)} entries in num_samples; give one for each"
        )
    _check_users(shard, users, data)
    return {
        user: _user(shard, user, data.pop(user), count, classes)
        for user, count in zip(users, samples, strict=True)
    }


def _check_users(shard: _Shard, users: list[Any], data: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for place, user in enumerate(users):
        is_name = isinstance(user, str) and 0 < len(user) <= MAX_NAME_LENGTH
        if not (is_name and user.isprintable()):
            raise shard.fault(
                f"has at users[{place}] no name of 1 to {MAX_NAME_LENGTH} printable characters; "
                "correct it"
            )
        if user in seen:
            raise shard.fault(f"lists the user {shown(user)} twice; give every user once")
        if user not in data:
            raise shard.fault(f"has no user_data for {shown(user)}; add it, or take the user off")
        seen.add(user)
    for user in data:
        if user not in seen:
            raise shard.fault(f"has user_data for {shown(user)}, not listed under users; list it")


def _user(
    shard: _Shard, user: str, data: Any, count: Any, classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    images, labels = (data.get("x"), data.get("y")) if isinstance(data, dict) else (None, None)
    if not (isinstance(images, list) and isinstance(labels, list)):
        raise shard.fault(f"has no lists x and y for the user {shown(user)}; add them")
    if len(images) != len(labels):
        raise shard.fault(
            f"gives user {shown(user)} {len(images)} images in x and {len(labels)} labels in y; "
            "give as many"
        )
    if len(images) != count:
        raise shard.fault(
            f"gives user {shown(user)} {len(images)} images, and another number in num_samples; "
            "make the two agree"
        )
    for row, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < classes:
            raise shard.fault(
                f"gives user {shown(user)} at y[{row}] no whole number from 0 to {classes - 1}; "
                "correct it, or set `classes`"
            )
    return _pixels(shard, user, images), np.array(labels, dtype=np.int64)


def _pixels(shard: _Shard, user: str, images: list[Any]) -> NDArray[np.float32]:
    """[images, features], each a number from 0 to 1."""
    width = len(images[0]) if images and isinstance(images[0], list) else 0
    for row, image in enumerate(images):
        if not isinstance(image, list) or not set(map(type, image)) <= {int, float}:
            raise shard.fault(f"gives user {shown(user)} at x[{row}] no list of numbers; mend it")
        if len(image) != width or not 0 < width <= MAX_ROW_VALUES:
            raise shard.fault(
                f"gives user {shown(user)} at x[{row}] {len(image)} numbers, and {width} at x[0]; "
                f"images need one size, of 1 to {MAX_ROW_VALUES} numbers"
            )
    with np.errstate(over="ignore"):
        pixels = np.array(images, dtype=np.float32).reshape(len(images), width)
    outside = ~((pixels >= 0) & (pixels <= 1)).all(axis=1)
    if outside.any():
        raise shard.fault(
            f"gives user {shown(user)} at x[{int(np.argmax(outside))}] a number outside 0 to 1; "
            "divide pixels by their largest possible value"
        )
    return pixels


def _compact(pixels: NDArray[np.float32]) -> Pixels:
    """The same numbers as bytes over 255, if float32 division reproduces them exactly."""
    steps = np.rint(pixels * np.float32(_BYTE)).astype(np.uint8)
    same = np.array_equal(np.divide(steps, _BYTE, dtype=np.float32), pixels)
    return steps if same else pixels


def _joined(file: SourceFile, writers: dict[str, _Writer], classes: int, empty: int) -> Federation:
    """The users' images end to end. `writers` is emptied meanwhile, so that memory holds images
    once."""
    names = tuple(sorted(user for user, writer in writers.items() if len(writer.labels)))
    counts = np.array([len(writers[name].labels) for name in names], dtype=np.int64)
    check_clients(counts, file.pointer)
    width = _one_width(file, {name: writers[name] for name in names})
    exact = all(writer.pixels.dtype == np.uint8 for writer in writers.values())
    labels = np.concatenate([writers[name].labels for name in names])
    first = first_rows(counts)
    values: Pixels = np.empty((len(labels), width), np.dtype("u1" if exact else "f4"))
    for client, name in enumerate(names):
        pixels = writers.pop(name).pixels
        own = values[first[client] : first[client + 1]]
        if pixels.dtype == values.dtype:
            own[...] = pixels
        else:
            np.divide(pixels, _BYTE, out=own, dtype=np.float32)
    return federation_of(
        ClientRows(values, _BYTE if exact else 1.0, square_image(width)),
        labels,
        clients=names,
        first=first,
        numbers=np.arange(1, len(labels) + 1),
        classes=tuple(str(label) for label in range(classes)),
        fingerprint=file.fingerprint,
        notes=(f"users without images, left out: {empty}",) if empty else (),
    )


def _one_width(file: SourceFile, writers: Mapping[str, _Writer]) -> int:
    """Numbers per image, the same for all users."""
    widths: dict[str, int] = {name: writer.pixels.shape[1] for name, writer in writers.items()}
    expected = next(iter(widths))
    for name, width in widths.items():
        if width != widths[expected]:
            raise _Shard(file, writers[name].shard).fault(
                f"gives user {shown(name)} images of {width} numbers, and {shown(expected)} has "
                f"images of {widths[expected]}; images need one size"
            )
    return widths[expected]
