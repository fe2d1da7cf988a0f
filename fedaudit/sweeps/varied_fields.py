"""What varies between the cells of a sweep, as columns: a field of a spec each, and its values."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

ABSENT = ""
"""In the place of a field that a row does not have."""


def varied_fields(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """By path the value of every row.

    An object, as `privacy: {mechanism: none}`, is a column for each of its fields; rows whose
    object has no such field have ABSENT there.
    """
    flat = [dict(_flat(row)) for row in rows]
    tops = dict.fromkeys(path for row in rows for path in row)
    paths = dict.fromkeys(
        path for top in tops for row in rows if top in row for path, _ in _below(top, row[top])
    )
    return {path: [row.get(path, ABSENT) for row in flat] for path in paths}


def value_words(value: Any) -> str:
    """As a spec would say it: `k-means`, `3`, `null`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def short_names(paths: Sequence[str], *, taken: Collection[str] = ()) -> list[str]:
    """`noise_multiplier` for `privacy.noise_multiplier`: the shortest end of each path that is
    neither the end of another one nor a name that is taken."""
    return [_shortest(path, [one for one in paths if one != path], taken) for path in paths]


def _shortest(path: str, others: Sequence[str], taken: Collection[str]) -> str:
    parts = path.split(".")
    for start in range(len(parts) - 1, 0, -1):
        end = ".".join(parts[start:])
        # The place of an item in a list says nothing by itself.
        is_plain = end not in taken and not end.isdigit()
        if is_plain and not any(one == end or one.endswith(f".{end}") for one in others):
            return end
    return path


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, value in row.items():
        yield from _below(path, value)


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _below(f"{path}.{name}", inner)
    else:
        yield path, value
