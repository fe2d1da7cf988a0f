"""Documents of two trees, compared value by value without what differs from run to run."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EACH_RUN = re.compile(
    r"(?P<date>\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d UTC)|"
    r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?)"
    r"|(?P<place>/tmp/[\w./-]*|http://(127\.0\.0\.1|localhost):\d+)"
    r"|(?P<kernels>kernels (fallback|compiled))"
    r"|(?P<release>\d+\.\d+\.\d+\+[\w.]+)"
)
_KEYS = {
    *("created_at", "duration_seconds", "finished_at", "signed_at", "started_at"),
    *("key_id", "keyid", "payload", "public_key", "sig", "signature"),
    *("chain_head", "code_version", "declaration", "kernels", "link", "next_cursor", "url_slug"),
}
"""Fields that name a run, key, time or version of the code; all kernels give the same bits."""
_LOGGED = {
    frozenset(("run", "kind", "digest")): "digest",
    frozenset(("entries", "checkpoint")): "checkpoint",
}
"""Of a log of runs and its entries, by all fields of either, that which follows from identifiers.
"""
_SHOWN = 160
_LINES = {".csv", ".txt", ".md", ".html"}
_NAMES = re.compile(r"[0-9a-f]{64}|[A-Za-z0-9+/]{86}==")
"""Hashes, keys and signatures within texts: those that a document has under such a field are of one
run, and the others are compared."""


@dataclass(frozen=True)
class Difference:
    """A place where two documents differ."""

    path: str
    base: Any
    present: Any

    def __str__(self) -> str:
        base, present = (_shown(value) for value in (self.base, self.present))
        return f"  {self.path}\n    base:    {base}\n    present: {present}"


class Absent:
    """Stands for a value that one side does not have."""

    def __repr__(self) -> str:
        return "(absent)"


_ABSENT = Absent()


def differences(base: Path, present: Path, *, figures: bool) -> dict[str, list[Difference]]:
    """Where the files of two folders differ, by the file; `figures` leaves prose out."""
    names = sorted({str(one.relative_to(top)) for top in (base, present) for one in _files(top)})
    sides = [{name: _read(top / name) for name in names} for top in (base, present)]
    for side in sides:
        own = {one for document in side.values() for one in _of_this_run(document)}
        for name in names:
            side[name] = _plain(side[name], own)
    found = {name: list(compared(*(s[name] for s in sides), figures=figures)) for name in names}
    return {name: differing for name, differing in found.items() if differing}


def compared(base: Any, present: Any, path: str = "", *, figures: bool) -> Iterator[Difference]:
    """Where two parsed documents differ."""
    if isinstance(base, dict) and isinstance(present, dict):
        for key in sorted(base.keys() | present.keys()):
            pair = base.get(key, _ABSENT), present.get(key, _ABSENT)
            yield from compared(*pair, f"{path}/{key}", figures=figures)
    elif isinstance(base, list) and isinstance(present, list):
        for place in range(max(len(base), len(present))):
            pair = [one[place] if place < len(one) else _ABSENT for one in (base, present)]
            yield from compared(*pair, f"{path}/{place}", figures=figures)
    elif repr(base) != repr(present) and not (figures and _is_prose(base, present)):
        yield Difference(path or "/", base, present)


def _is_prose(*values: Any) -> bool:
    return all(isinstance(one, Absent) or (isinstance(one, str) and " " in one) for one in values)


def _of_this_run(value: Any, *, named: bool = False) -> Iterator[str]:
    """The hashes, keys and signatures that stand under fields of `_KEYS`."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _of_this_run(one, named=key in _KEYS)
    elif isinstance(value, list):
        for one in value:
            yield from _of_this_run(one, named=named)
    elif named and isinstance(value, str):
        yield from _NAMES.findall(value)


def _plain(value: Any, own: set[str]) -> Any:
    """A document without ids, times, addresses, and the keys and signatures of its run."""
    if isinstance(value, dict):
        left_out = {*_KEYS, _LOGGED.get(frozenset(value))}
        return {key: _plain(one, own) for key, one in value.items() if key not in left_out}
    if isinstance(value, list):
        return [_plain(one, own) for one in value]
    if isinstance(value, str):
        value = _NAMES.sub(lambda m: "<name>" if m.group() in own else m.group(), value)
        return _EACH_RUN.sub(lambda match: f"<{match.lastgroup}>", value)
    return value


def _files(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]


def _read(path: Path) -> Any:
    """What a file holds: JSON parsed, text as lines, anything else as its bytes."""
    if not path.exists():
        return _ABSENT
    content = path.read_bytes()
    try:
        if path.suffix == ".json":
            return json.loads(content)
        if path.suffix in (".ndjson", ".jsonl"):
            return [json.loads(line) for line in content.splitlines()]
        if path.suffix in _LINES:
            return content.decode().splitlines()
    except ValueError:
        pass  # compared by its bytes
    return content


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
