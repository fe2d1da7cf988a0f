"""Arrays with one entry per image, read as names of clients, groups or classes."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at, listed, pointer
from fedaudit.federations.groups.sensitive import MAX_GROUPS, group_names
from fedaudit.federations.levels import Levels, levels_of, number_in
from fedaudit.federations.reading.npz import MAX_TEXT_LENGTH, NumpyArchive
from fedaudit.spec.fairness import Groups

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LAST_CHARACTER = 0x10FFFF


def column(archive: NumpyArchive, name: str, *, rows: int, where: str) -> NDArray[Any]:
    """An array [rows]. Raises InvalidInputError at `where` if there is no array of that shape."""
    if name not in archive.names:
        raise error_at(
            where,
            f"'{archive.file.label}' has no array {name!r}; it has {listed(archive.names)}",
        )
    shape = archive.header(name).shape
    if shape != (rows,):
        raise error_at(
            where,
            f"the array {name!r} of '{archive.file.label}' has the shape {list(shape)}; it needs "
            f"one entry for each of the {rows} images",
        )
    return archive.read(name)


def read_levels(
    archive: NumpyArchive, name: str, *, rows: int, where: str, numeric: bool = True
) -> Levels:
    """An array as codes into its distinct values, in the order of `levels_of`.

    Texts are trimmed; an empty text and NaN are missing. Raises InvalidInputError at `where` for an
    entry that cannot be a name.
    """
    entries = column(archive, name, rows=rows, where=where)
    return levels_in(archive, name, entries, where=where, numeric=numeric)


def levels_in(
    archive: NumpyArchive, name: str, entries: NDArray[Any], *, where: str, numeric: bool
) -> Levels:
    """Like `read_levels`, for entries that have been read."""
    if entries.dtype.kind == "U":
        _check_characters(archive, name, entries, where)
    distinct, codes = np.unique(entries, return_inverse=True)
    names = _names(distinct)
    for position, text in enumerate(names):
        if text is None or len(text) > MAX_TEXT_LENGTH or _UNPRINTABLE.search(text):
            raise archive.fault(
                name,
                int(np.argmax(codes == position)),
                where,
                "could not serve as a name: it is infinite, not in UTF-8 or has control characters",
                "correct it",
            )
    merged = {text: place for place, text in enumerate(dict.fromkeys(names)) if text is not None}
    place_of = np.array([merged[text] for text in names if text is not None], dtype=np.int64)
    return levels_of(list(merged), place_of[codes], numeric=numeric)


def groups_of(
    archive: NumpyArchive, name: str, fairness: Groups, *, rows: int, where: str
) -> Levels:
    """A sensitive attribute: the distinct values of an array, or its numbers cut at `edges`.

    Raises InvalidInputError at `where`, or below /fairness/edges.
    """
    levels = read_levels(archive, name, rows=rows, where=where)
    if levels.missing == rows:
        raise error_at(where, f"{name!r} is empty for every image; name another array")
    if name in fairness.edges:
        return _cut(archive, name, levels, fairness.edges[name])
    if len(levels.values) > MAX_GROUPS:
        raise error_at(
            where,
            f"{name!r} has {len(levels.values)} distinct values, and {MAX_GROUPS} groups are "
            "allowed; bring them into fewer groups, numbers by `edges`",
        )
    return levels


def _cut(archive: NumpyArchive, name: str, levels: Levels, edges: Sequence[float]) -> Levels:
    """The groups between ascending edges, including those without an image, since they are
    declared."""
    numbers = [number_in(value) for value in levels.values]
    if None in numbers:
        raise archive.fault(
            name,
            int(np.argmax(levels.codes == numbers.index(None))),
            pointer("fairness", "edges", name),
            "is not a number",
            "correct it, or leave out the edges",
        )
    cut = np.append(np.array(numbers, dtype=np.float64), np.nan)[levels.codes]  # -1 is the last
    group = np.searchsorted(np.array(edges), cut, side="right")
    codes = np.where(levels.codes < 0, -1, group).astype(np.int64)
    return Levels(group_names(edges), codes, cut)


def _check_characters(
    archive: NumpyArchive, name: str, entries: NDArray[np.str_], where: str
) -> None:
    """Refuse character codes that are not valid, which Python cannot convert to text."""
    points = np.ascontiguousarray(entries).view(np.uint32).reshape(len(entries), -1)
    wrong = (points > _LAST_CHARACTER).any(axis=1)
    if wrong.any():
        raise archive.fault(
            name, int(np.argmax(wrong)), where, "is no text", "save the array again"
        )


def _names(distinct: NDArray[Any]) -> list[str | None]:
    """The text of each entry: '' where it is missing, None where it cannot be a name."""
    match distinct.dtype.kind:
        case "b":
            return ["true" if value else "false" for value in distinct]
        case "f":
            return [_number_name(value) for value in distinct]
        case "S":
            return [_decoded(value) for value in distinct.tolist()]
    return [str(value).strip() for value in distinct.tolist()]


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return None


def _number_name(value: np.floating[Any]) -> str | None:
    """The shortest text of a number of that precision; a whole number without a fraction."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return None
    return str(value).removesuffix(".0")
