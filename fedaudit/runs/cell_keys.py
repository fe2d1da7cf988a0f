"""A person's row by its own cells: the same in every file, whatever else the file holds.

Reports on two files that differ in few rows give these rows away, as reports on one file do. So
what was disclosed is remembered by keys of rows too, and not only by a file's hash, which one
newline changes. A key is made of what puts a row into a group and a set of people: the client's
name and the attribute's own value, before it is cut; where single records are held out, also of the
record's key, which decides who is. Nothing else is in it: not the columns' names or order, nor
features, classes, edges, rules or the target, so none of these makes known people new ones. Rows
that are alike in these cells are counted through in the order of their targets: how many of them a
set has counts, and which have the favourable outcome, wherever they are in the file.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.levels import number_in
from fedaudit.federations.record_keys import record_keys
from fedaudit.training.base.cell import Cell

Keys = NDArray[np.uint64]

_PERSON = b"fedaudit-rows-1"  # the secret has other uses
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def cell_keys(cell: Cell, attribute: str, *, secret: bytes) -> Keys:
    """The keys of all rows under an attribute, or an intersection: uint64 [rows].

    `secret`: 16 to 64 bytes, without which keys say nothing of people.
    """
    federation = cell.federation
    names = _hashes(federation.client_names, secret)
    found = names[federation.client_of]
    for part in cell.spec.fairness.combinations.get(attribute, (attribute,)):
        found = _mixed(found, _values(federation.attribute(part), secret))
    if cell.spec.federation.validation_unit == "record":
        found = _mixed(found, record_keys(federation))
    return _counted_through(found, federation.raw_target)


def contribution_keys(federation: Federation) -> NDArray[np.int64]:
    """What each row adds to counts, as a number [rows]: its client's name and its target.

    By these, whichever group it is in, a group of the same people has the same numbers.
    """
    texts: tuple[str, ...] = federation.classes
    codes = federation.raw_target.astype(np.int64)
    if not texts:
        distinct, codes = np.unique(federation.raw_target, return_inverse=True)
        texts = tuple(map(str, distinct.tolist()))
    names = _hashes(federation.client_names, b"")
    return _mixed(names[federation.client_of], _hashes(texts, b"")[codes]).view(np.int64)


def _values(attribute: Attribute, secret: bytes) -> Keys:
    """A hash of each row's own value, [rows]: numbers as numbers, however they are written."""
    if attribute.numbers is None:
        return _hashes((*attribute.values, ""), secret)[attribute.codes]  # -1 is the last
    distinct, codes = np.unique(attribute.numbers, return_inverse=True)
    texts = ("" if np.isnan(number) else str(number) for number in distinct.tolist())
    return _hashes(tuple(texts), secret)[codes]


def _hashes(texts: tuple[str, ...], secret: bytes) -> Keys:
    words = b"".join(
        blake2b(_plain(text).encode(), key=secret, person=_PERSON, digest_size=8).digest()
        for text in texts
    )
    return np.frombuffer(words, dtype="<u8").astype(np.uint64)


def _plain(text: str) -> str:
    number = number_in(text)
    return text if number is None else repr(number + 0.0)  # no minus before a zero


def _mixed(one: Keys, other: Keys) -> Keys:
    """Of two words one, by the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    found = one * _GOLDEN + other
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    mixed: Keys = found ^ (found >> np.uint64(31))
    return mixed


def _counted_through(keys: Keys, targets: NDArray[np.float64]) -> Keys:
    """Rows of one key apart, by how many come before them in the order of targets."""
    order = np.lexsort((targets, keys))
    ordered, place = keys[order], np.arange(len(keys))
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    turn = np.empty(len(keys), dtype=np.uint64)
    turn[order] = place - np.maximum.accumulate(np.where(fresh, place, 0))
    return _mixed(keys, turn)
