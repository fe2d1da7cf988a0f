"""Federations of images, some of them rotated: NumPy archives, and handwriting in LEAF's format.

A file of LEAF (Caldas et al. 2018) is `{"users": [...], "num_samples": [...], "user_data": {user:
{"x": [[...]], "y": [...]}}}`; a data set is one such file, or a zip of several (its shards), each
with other users.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, FailFast, Field, ValidationError

from fedaudit.arrays import Bools, Floats32, Ints
from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.groups import read_sensitive
from fedaudit.federations.levels import MAX_CLASSES, Levels
from fedaudit.federations.mapped import check_size, client_order, first_rows, pack
from fedaudit.federations.reading.archives import (
    NumpyArchive,
    is_zip,
    open_archive,
    open_numpy,
    shown,
)
from fedaudit.federations.reading.source_files import SourceFile, open_source
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.federations.table.features import refuse_gaps
from fedaudit.randomness import CounterSource, Purpose, uniforms
from fedaudit.spec.errors import InvalidInputError, error_at, listed, pointer
from fedaudit.spec.fairness import Groups
from fedaudit.spec.federation import Femnist, Images

MAX_SHARD_BYTES = 512 * 2**20
"""Bytes of one JSON file."""
MAX_DATA_SET_BYTES = 8 * 2**30
"""Bytes of all shards; one at a time is in memory."""
MAX_VALUES = 2**25
"""Values of one JSON file; each takes about 70 bytes during parsing, regardless of its text."""
_BYTE = 255.0
MAX_IMAGES_BYTES = 2 * 2**30
"""Bytes of memory that the images of a federation may take."""
MAX_ROW_VALUES = 100_000
"""Pixels of an image."""


def square_image(width: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a flat row of `width` values; None if it is not square."""
    side = math.isqrt(width)
    return (side, side, 1) if side * side == width else None


def check_clients(counts: Ints, where: str) -> None:
    """Refuse a federation of one client, or one whose labels and groups would be too large."""
    if len(counts) < 2:
        raise error_at(
            where, "there are images of one client at most; a federation needs at least two clients"
        )
    check_size(
        rows=int(counts.sum()), features=0, where=where, remedy="leave out clients or images"
    )


def feature_names(rows: ClientRows) -> tuple[str, ...]:
    """A name for each pixel."""
    if rows.image is None:
        return tuple(f"feature {place}" for place in range(rows.values.shape[1]))
    height, width, channels = rows.image
    pixels = [f"pixel {row},{column}" for row in range(height) for column in range(width)]
    if channels == 1:
        return tuple(pixels)
    return tuple(f"{pixel},{channel}" for pixel in pixels for channel in range(channels))


ATTRIBUTE = "rotated"
VALUES = ("no", "yes")


def rotated_clients(clients: int, *, probability: float, seed: int) -> Bools:
    """[clients] whether a client's images are rotated, independently with `probability`.

    A client is identified by its index, so the draw depends only on the seed and the client names.
    """
    words = CounterSource(seed).words(
        purpose=Purpose.ROTATION, round_=0, counters=np.arange(clients), count=1
    )
    return uniforms(words[:, 0]) < probability


def rotate(federation: Federation, turned: Bools) -> Attribute:
    """Rotate the images of these clients by 90 degrees counter-clockwise, in place.

    `turned`: [clients]. The attribute that says so has both values, whatever was drawn. Raises
    InvalidInputError at /federation/rotate if rotation would change the shape of the images.
    """
    rows = federation.features
    if not isinstance(rows, ClientRows) or rows.image is None:
        raise error_at(
            "/federation/rotate",
            f"rows of {federation.width} features are no images that could be turned; leave it out",
        )
    height, width, _ = rows.image
    if height != width:
        raise error_at(
            "/federation/rotate",
            f"images of {height} by {width} pixels are not square and would change their shape; "
            "leave it out",
        )
    for client in np.flatnonzero(turned).tolist():
        images = rows.values[federation.own(client)].reshape(-1, *rows.image)
        images[...] = np.rot90(images, axes=(1, 2)).copy()
    return Attribute(ATTRIBUTE, VALUES, turned.astype(np.int16)[federation.client_of])


Pixels = NDArray[np.uint8] | Floats32


@dataclass(frozen=True, eq=False)
class _Writer:
    """A user's images, as bytes if these, divided by 255, are exactly the numbers of the file."""

    shard: "_Shard"
    pixels: Pixels
    labels: Ints


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
    for shard, users in _shards(file):
        for user in [*users]:  # each gone once it is read, for memory's sake
            written = _written(shard, user, users.pop(user), classes)
            if user in writers:
                other = shown(writers[user].shard.name)
                raise shard.fault(
                    f"has a user {shown(user)}, whom {other} has too; give every user in one file"
                )
            writers[user] = written
        exact = all(writer.pixels.dtype == np.uint8 for writer in writers.values())
        values = sum(writer.pixels.size for writer in writers.values())
        if values * (1 if exact else 4) > MAX_IMAGES_BYTES:
            raise file.fault(
                f"holds images of more than {MAX_IMAGES_BYTES // 2**20} MiB; take fewer users"
            )
    return _joined(file, writers, classes)


def _shards(file: SourceFile) -> Iterator[tuple[_Shard, dict[str, "_UserData"]]]:
    """The JSON files in the order of their names."""
    if not is_zip(file):
        shard = _Shard(file, "")
        yield shard, _users(shard, file.read_all(MAX_SHARD_BYTES))
        return
    with open_archive(
        file, suffix=".json", largest_member=MAX_SHARD_BYTES, largest=MAX_DATA_SET_BYTES
    ) as archive:
        for name in sorted(archive.names):
            shard = _Shard(file, name)
            [content] = archive.pieces(name, [archive.size(name)])
            yield shard, _users(shard, content)


_Number = Annotated[float, Field(ge=0, le=1)]
# Without the end at the first fault, a file of other numbers would have as many faults.
_Image = Annotated[list[_Number], Field(min_length=1, max_length=MAX_ROW_VALUES), FailFast()]
_Name = Annotated[str, Field(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]{1,200}$")]
"""A user's name: printable characters."""


class _UserData(BaseModel, strict=True):
    x: Annotated[list[_Image], FailFast()]
    y: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast()]


class _LeafFile(BaseModel, strict=True):
    users: list[str]
    num_samples: list[int]
    user_data: dict[_Name, _UserData]


def _users(shard: _Shard, content: bytes | bytearray) -> dict[str, _UserData]:
    """The data of each user."""
    if content.count(b",") > MAX_VALUES:
        raise shard.fault(
            f"holds more than {MAX_VALUES} values; split it into several files with different "
            "users, in one zip"
        )
    try:
        found = _LeafFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = shown(".".join(map(str, first["loc"]))) if first["loc"] else "its beginning"
        raise shard.fault(
            f"is not as LEAF writes it, at {place}: {first['msg']}; correct it (pixels are numbers "
            "from 0 to 1, labels whole numbers from 0)"
        ) from None
    listed = zip_longest(found.users, found.num_samples)
    of_data = [(user, len(data.y)) for user, data in found.user_data.items()]
    wrong = Counter(listed)
    wrong.subtract(of_data)
    for (user, _), times in wrong.items():
        if times:
            raise shard.fault(
                f"has user {shown(str(user))} not once in each of users, num_samples and "
                "user_data, with as many labels; make these agree"
            )
    return found.user_data


def _written(shard: _Shard, user: str, data: _UserData, classes: int) -> _Writer:
    """A user's images, checked."""
    labels, widths = np.array(data.y, dtype=np.int64), [len(image) for image in data.x]
    if len(widths) != len(labels):
        raise shard.fault(
            f"gives user {shown(user)} {len(widths)} images in x and {len(labels)} labels in y; "
            "give as many"
        )
    for row, (width, label) in enumerate(zip(widths, data.y, strict=True)):
        if width != widths[0]:
            raise shard.fault(
                f"gives user {shown(user)} at x[{row}] {width} numbers, and {widths[0]} at x[0]; "
                "images need one size"
            )
        if label >= classes:
            raise shard.fault(
                f"gives user {shown(user)} at y[{row}] no whole number from 0 to {classes - 1}; "
                "correct it, or set `classes`"
            )
    pixels = np.array(data.x, dtype=np.float32).reshape(len(labels), max(widths, default=0))
    steps = np.rint(pixels * np.float32(_BYTE)).astype(np.uint8)
    exact = np.array_equal(np.divide(steps, _BYTE, dtype=np.float32), pixels)
    return _Writer(shard, steps if exact else pixels, labels)


def _joined(file: SourceFile, writers: dict[str, _Writer], classes: int) -> Federation:
    """The users' images end to end. `writers` is emptied meanwhile, so that memory holds images
    once."""
    names = tuple(sorted(user for user, writer in writers.items() if len(writer.labels)))
    empty = len(writers) - len(names)
    counts = np.array([len(writers[name].labels) for name in names], dtype=np.int64)
    check_clients(counts, file.pointer)
    width = writers[names[0]].pixels.shape[1]
    for name in names:
        if (other := writers[name].pixels.shape[1]) != width:
            raise writers[name].shard.fault(
                f"gives user {shown(name)} images of {other} numbers, and {shown(names[0])} has "
                f"images of {width}; images need one size"
            )
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
    return _packed(
        file,
        ClientRows(values, _BYTE if exact else 1.0, square_image(width)),
        labels,
        clients=Levels(names, np.repeat(np.arange(len(names)), counts)),
        classes=tuple(str(label) for label in range(classes)),
        notes=(f"users without images, left out: {empty}",) if empty else (),
    )


def _packed(
    file: SourceFile, images: ClientRows, labels: Ints, *, clients: Levels, **more: Any
) -> Federation:
    """The images, which lie client after client. `labels`, `clients` and `more`, as `pack` has it,
    are in the order of the file, or by user where that is LEAF's."""
    return pack(
        clients,
        features=images,
        feature_names=feature_names(images),
        target=labels.astype(np.float64),
        target_name="y",
        fingerprint=file.fingerprint,
        row_numbers=np.arange(1, len(labels) + 1),
        **more,
    )


def column(archive: NumpyArchive, name: str, *, rows: int, where: str) -> NDArray[Any]:
    """An array [rows]. Raises InvalidInputError at `where` if there is no array of that shape."""
    if name not in archive.names:
        raise error_at(
            where, f"'{archive.file.label}' has no array {name!r}; it has {listed(archive.names)}"
        )
    shape = archive.header(name).shape
    if shape != (rows,):
        raise error_at(
            where,
            f"the array {name!r} of '{archive.file.label}' has the shape {list(shape)}; it needs "
            f"one entry for each of the {rows} images",
        )
    return archive.read(name)


def as_table(archive: NumpyArchive, arrays: Mapping[str, NDArray[Any]]) -> TableRows:
    """Arrays of one length as the columns of a table: numbers in their shortest form, NaN as an
    empty cell."""
    columns = {}
    for name, entries in arrays.items():
        distinct, codes = np.unique(entries, return_inverse=True)
        names = pa.array([_text(distinct, place) for place in range(len(distinct))], pa.string())
        columns[name] = names.take(pa.array(codes))
    return TableRows(archive.file, columns, np.arange(1, len(codes) + 1))


_NO_TEXT = "\x7f"
"""No cell of a table may hold it."""


def _text(entries: NDArray[Any], place: int) -> str:
    """An entry as a cell of a table holds it."""
    try:
        match entries[place]:
            case np.bool_() as answer:
                return "true" if answer else "false"
            case np.floating() as number if np.isnan(number):
                return ""
            case np.floating() as number:
                return str(number).removesuffix(".0") if np.isfinite(number) else _NO_TEXT
            case np.bytes_() as text:
                return text.decode("utf-8")
            case other:
                return str(other).encode("utf-8").decode()
    except (ValueError, SystemError):  # no such characters, or past the last one
        return _NO_TEXT


_CLASSES = "/federation/classes"


def read_labels(
    archive: NumpyArchive, rows: TableRows, classes: int | None
) -> tuple[Ints, tuple[str, ...]]:
    """Each image's class, and the classes; see `Images.classes` for the order of precedence.

    Raises InvalidInputError naming the row, or at /federation/classes.
    """
    where = archive.file.pointer
    labels = column(archive, "y", rows=len(rows), where=where)
    if labels.dtype.kind not in "iuUS":
        raise archive.file.fault(
            f"holds an array 'y' of type {labels.dtype}; labels are whole numbers or texts"
        )
    whole = labels.dtype.kind in "iu"
    if classes is not None and not whole:
        raise error_at(_CLASSES, "labels are texts; leave it out, so that the data's are counted")
    if classes is None and not (whole and "classes" in archive.names):
        texts = as_table(archive, {"y": labels})
        refuse_gaps(texts, "y", where, remedy="name the class or leave the image out")
        levels = texts.levels("y", where, numeric=True)
        _check_class_count(archive, len(levels.values))
        return levels.codes, levels.values
    numbered = tuple(str(label) for label in range(classes or 0))
    names = numbered or _class_names(archive, where)
    rows.refuse(
        (labels < 0) | (labels >= len(names)),
        "y",
        where,
        f"is no whole number from 0 to {len(names) - 1}",
        "correct it, or set `classes` to the number of classes",
    )
    return labels.astype(np.int64), names


def _class_names(archive: NumpyArchive, where: str) -> tuple[str, ...]:
    """The archive's own names of the classes, in the order of the labels."""
    count = (archive.header("classes").shape or (1,))[0]
    names = column(archive, "classes", rows=count, where=where)
    levels = as_table(archive, {"classes": names}).levels("classes", where)
    if (levels.codes < 0).any() or len(levels.values) != count:
        raise archive.file.fault(
            "holds an array 'classes' in which a name is empty or comes twice; name every class "
            "once, or set `classes` to their number"
        )
    _check_class_count(archive, count)
    return tuple(levels.values[code] for code in levels.codes)


def _check_class_count(archive: NumpyArchive, count: int) -> None:
    if not 2 <= count <= MAX_CLASSES:
        raise archive.file.fault(
            f"has {count} classes; a classifier needs from 2 to {MAX_CLASSES} of them"
        )


_CLIENT_KEY = "/federation/client_key"
_TURNED = "images are turned by each experiment; the groups of 'rotated' are those of seed 0"


Pictured = TypeVar("Pictured", Images, Femnist)


class _ImageKind(SourceKind[Pictured]):
    """Images, of which those of some clients are rotated by the experiment's seed."""

    def profile(self, asked: LoadRequest, fingerprint: str | None) -> dict[str, Any]:
        figures = super().profile(asked, fingerprint)
        figures["notes"] += [_TURNED] * (self._source.rotate is not None)
        return figures

    def rotated(self, federation: Federation, asked: LoadRequest) -> Federation:
        """Rotate some clients' images in place; attributes in the order of the spec."""
        if (rotation := self._source.rotate) is None:
            return federation
        turned = rotated_clients(
            federation.clients, probability=rotation.probability, seed=asked.seed
        )
        attribute = rotate(federation, turned)
        known = {one.name: one for one in (*federation.attributes, attribute)}
        attributes = tuple(known[name] for name in asked.fairness.sensitive)
        return replace(federation, attributes=attributes)


class ImagesKind(_ImageKind[Images]):
    """The images of a NumPy archive, one client per value of its array `client_key`."""

    def load(self, asked: LoadRequest) -> Federation:
        """Raises InvalidInputError naming field, array and row."""
        source = self._source
        with open_source(source, files=asked.files) as file, open_numpy(file) as archive:
            images = _image_count(archive)
            rows = _named_rows(archive, source, asked.fairness, images)
            clients = rows.levels(source.client_key, _CLIENT_KEY)
            check_clients(np.bincount(clients.codes), _CLIENT_KEY)
            codes, classes = read_labels(archive, rows, source.classes)
            attributes, notes = read_sensitive(
                rows, asked.fairness.sensitive, edges=asked.fairness.edges
            )
            pixels = _pixels(archive, rows, client_order(clients))
            if pixels.divisor != 1 and pixels.values.max() <= 1:
                notes += ("pixels are bytes that stand for 0 to 255, but none is larger than 1",)
            more = {"classes": classes, "attributes": attributes, "notes": notes}
            federation = _packed(file, pixels, codes, clients=clients, **more)
        return self.rotated(federation, asked)


class FemnistKind(_ImageKind[Femnist]):
    """Handwriting in the format of LEAF, one client per user."""

    def load(self, asked: LoadRequest) -> Federation:
        """Raises InvalidInputError naming field, shard, user and row."""
        for place, name in enumerate(asked.fairness.sensitive):
            if name != ATTRIBUTE or self._source.rotate is None:
                raise error_at(
                    pointer("fairness", "sensitive", place),
                    f"handwriting of LEAF has no attribute {name!r}; it has {ATTRIBUTE!r} where "
                    "`rotate` is given",
                )
        with open_source(self._source, files=asked.files) as file:
            return self.rotated(read_leaf(file, classes=self._source.classes), asked)


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


def _named_rows(archive: NumpyArchive, source: Images, fairness: Groups, images: int) -> TableRows:
    """Each image's client, and its sensitive attributes that are arrays of the archive."""
    name = source.client_key
    arrays = {name: column(archive, name, rows=images, where=_CLIENT_KEY)}
    if (kind := arrays[name].dtype).kind not in "iuUS":
        raise error_at(
            _CLIENT_KEY,
            f"the array {name!r} is of type {kind}; clients are named by whole numbers or texts",
        )
    for place, attribute in enumerate(fairness.sensitive):
        if attribute != ATTRIBUTE or source.rotate is None:
            where = pointer("fairness", "sensitive", place)
            arrays[attribute] = column(archive, attribute, rows=images, where=where)
    rows = as_table(archive, arrays)
    refuse_gaps(rows, name, _CLIENT_KEY, remedy="name the image's client or leave the image out")
    return rows


def _pixels(archive: NumpyArchive, rows: TableRows, order: Ints) -> ClientRows:
    """The images client after client, read in chunks so that memory holds them only once."""
    images, *shape = archive.header("x").shape
    width = math.prod(shape)
    place = np.empty(images, dtype=np.int64)
    place[order] = np.arange(images)
    exact = archive.header("x").dtype == np.uint8
    values: Pixels = np.empty((images, width), np.dtype("u1" if exact else "f4"))
    for first, block in archive.blocks("x"):
        flat = block.reshape(len(block), width)
        if not exact:
            _check_pixels(rows, first, flat)
        values[place[first : first + len(flat)]] = flat
    image = square_image(width) if len(shape) == 1 else (shape[0], shape[1], (*shape, 1)[2])
    return ClientRows(values, 255.0 if exact else 1.0, image)


def _check_pixels(rows: TableRows, first: int, block: NDArray[np.floating]) -> None:
    outside = ~((block >= 0) & (block <= 1)).all(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        finite = np.isfinite(block[row]).all()
        raise rows.fault(
            "x",
            first + row,
            rows.source.pointer,
            "has a pixel outside 0 to 1" if finite else "has a pixel that is no finite number",
            "store bytes, or divide by the largest possible value" if finite else "correct it",
        )
