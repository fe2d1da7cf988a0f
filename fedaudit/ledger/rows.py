"""Entries of the ledger, what every subject of one round spent, and the rows that store them.

A stored row may have been tampered with, so its columns need not form a valid entry. Entries that
charge the held-out people for what is published of them are in the chain beside entries that charge
training, against a separate observer, `report`. Their one subject represents every held-out client,
or record, alike: noise covers each of them, and each spends the same. Its name follows from
the kind of subject and not from the run's list of subjects.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.privacy_events import REPORT, MechanismParameters, unbounded_inputs
from fedaudit.privacy.count_release import CountRelease
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.fairness import HeldOutUnit
from fedaudit.stored import Key, LedgerRow

OutcomeName = Literal["released", "refused", "withheld"]


class Outcome(IntEnum):
    """What became of a subject that a round was to charge: the code that entries hold."""

    RELEASED = 0
    REFUSED = 1
    """Its budget had no room; it took no part."""
    WITHHELD = 2
    """Its update was not finite; nothing left it."""


OUTCOMES: tuple[OutcomeName, ...] = ("released", "refused", "withheld")
"""The name of each outcome code."""

SUBJECT_KINDS: Mapping[HeldOutUnit, str] = {
    "client": "validation_client",
    "record": "validation_record",
}
"""Keyed by the unit that the noise covers."""
_NAMES = {
    "validation_client": ("every validation client",),
    "validation_record": ("every held-out record",),
}


def names_of_subjects(subject_kind: str, names: Sequence[str]) -> Sequence[str]:
    """The names that an entry's indices refer to: `names`, of the run's subjects, or those of a
    kind that represents held-out people."""
    return _NAMES.get(subject_kind, names)


def charges_report(observer: str) -> bool:
    """Whether an entry charges the held-out people, and not those who train."""
    return observer == REPORT


def report_inputs(release: CountRelease, *, counts: int, noise: str) -> MechanismParameters:
    """The parameters of such an entry. `counts`: how many counts of all attributes get noise.

    `clip` is how far one unit moves them: the sum for discrete Laplace noise, the Euclidean length
    for Gaussian noise.
    """
    return replace(
        unbounded_inputs(f"counts-{release.mechanism}", n=counts, noise=noise),
        noise_multiplier=release.noise_multiplier,
        clip=release.l2 if release.is_gaussian else release.l1,
        guarantee="formal",
        event=canonical_json(release.event.as_dict()).decode(),
        delta=release.delta,
        adjacency=release.adjacency,
        accountant=release.accountant,
    )


@dataclass(frozen=True)
class UnreadableRow:
    """A row that could not be read."""

    place: str
    reason: str


_ARRAYS = {
    "subjects": np.int32,
    "outcomes": np.int16,
    "radii": np.float64,
    "releases": np.int32,
    "clusters": np.int16,
    "epsilons": np.float64,
}
_FIELDS = tuple(LedgerRow.__dataclass_fields__)
_DECLARATION = _FIELDS[-1]
_HASHES = ("digest", "link", _DECLARATION)
_INPUTS = tuple(MechanismParameters.__dataclass_fields__)
_COMPONENTS = _INPUTS[-1]
_NO_INPUTS = (ValueError, TypeError, ArithmeticError, AttributeError)


def place_of(key: Key) -> str:
    """The position of the row with this key, for messages."""
    round_, release, subject_kind, observer = key
    return f"round {round_}, release {release} ({_plain(subject_kind)} against {_plain(observer)})"


def _plain(text: object) -> str:
    """A text from anywhere, without what a terminal would obey or no encoding can write."""
    found = str(text)
    return found if found.isprintable() else ascii(found)


def check_types(row: LedgerRow) -> None:
    """Raises TypeError where a value of a line, or of a column of SQLite, has another type."""
    if tuple(map(type, row.key)) != (int, int, str, str):
        raise TypeError("round, release, kind and observer must be (int, int, str, str)")
    if not isinstance(row.interrupted, bool):
        raise TypeError("interrupted must be a bool")


class InputsReader:
    """Reads the inputs of rows, of which many in a row share one object as theirs."""

    def __init__(self) -> None:
        self._fields: Mapping[str, Any] | None = None
        self._inputs: MechanismParameters | None = None

    def known(self, row: LedgerRow) -> MechanismParameters | None:
        """The row's inputs, the same object for the same fields; None where they are none."""
        if row.inputs is not self._fields:
            self._fields = row.inputs
            try:
                self._inputs = MechanismParameters.from_dict(row.inputs)
            except _NO_INPUTS:
                self._inputs = None
        return self._inputs


def to_line(row: LedgerRow) -> bytes:
    """The row as a line of JSON, with fields in a fixed order; an absent number is null.

    Components are written among the parameters only where there are any, and the declaration of a
    round only where it has one.
    """
    value = {name: getattr(row, name) for name in _FIELDS}
    value["inputs"] = {name: row.inputs.get(name) for name in _INPUTS}
    if value["inputs"][_COMPONENTS] is None:
        del value["inputs"][_COMPONENTS]
    value["digest"], value["link"] = row.digest.hex(), row.link.hex()
    if row.declaration is None:
        del value[_DECLARATION]
    else:
        value[_DECLARATION] = row.declaration.hex()
    for name in _ARRAYS:
        value[name] = None if value[name] is None else listed(value[name])
    return _as_json(value) + b"\n"


class LineReader:
    """Reads the lines of a ledger; rows with the same inputs share one object as theirs."""

    def __init__(self) -> None:
        self._text = b""
        self._inputs: Mapping[str, Any] = {}

    def row(self, line: bytes) -> LedgerRow:
        """The row of a line. Raises ValueError where the line differs in any byte from what
        `to_line` gives."""
        try:
            row = self._row(json.loads(line))
            check_types(row)
            same = to_line(row) == line
        except (*_NO_INPUTS, LookupError, RecursionError):
            same = False
        if not same:
            raise ValueError("is not in the form in which ledger lines are written")
        return row

    def _row(self, value: Any) -> LedgerRow:
        """What a value is taken for; of another type, it is written otherwise."""
        arrays = {
            name: np.array(value[name], dtype)
            for name, dtype in _ARRAYS.items()
            if name != "epsilons" or value[name] is not None
        }
        if any(column.ndim != 1 for column in arrays.values()):
            raise ValueError("a column is a list of numbers")
        hashes = {name: bytes.fromhex(value[name]) for name in _HASHES if name in value}
        return LedgerRow(**{**value, **arrays, **hashes, "inputs": self._shared(value["inputs"])})

    def _shared(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compared by their text: numbers of different types may be equal, with different bytes."""
        text = _as_json(inputs)
        if text != self._text:
            self._text, self._inputs = text, inputs
        return self._inputs


def listed(column: NDArray[Any]) -> list[Any]:
    """The numbers of a column; None for one that is not finite."""
    values: list[Any] = column.tolist()
    finite = np.isfinite(column)
    if finite.all():
        return values
    return [value if known else None for value, known in zip(values, finite.tolist(), strict=True)]


def _as_json(value: object) -> bytes:
    # Python writes the shortest digits that read back as the same number, on every version.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
