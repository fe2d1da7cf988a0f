"""The binary encoding of a ledger entry, and the hashes that are taken over it.

`docs/ledger-encoding.md` specifies both field by field. Version 1 is for metric privacy, and for no
mechanism at all; version 2 for mechanisms that are counted as an epsilon with a delta; version 3
for metric privacy with a radius for each of several components, such as layers. Integers are
unsigned and little endian, a text has its length before it, and an absent number is one quiet NaN.

Positions in memory, ids, times, devices and the server's clusters are left out: the same run has
the same bytes wherever, whenever and beside whatever else it was computed.

The hash chain binds the entries of one experiment, and the clusters stored beside them, in the
order in which they were written; it shows that none was altered, removed from the middle or put in
between. It cannot show that the newest entries were cut off: signed checkpoints do. The ledger hash
names no experiment and no clusters, so two simulated runs of one spec and seed share it.

Entries can be guessed: who took part in a round of 4 of 32 clients, with public figures, is one of
35,960. Where the noise is secret, or declared, their digests are therefore keyed with a salt of the
ledger, and so is whatever is hashed from digests.
"""

import hashlib
import hmac
import os
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.rows import names_of_subjects
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.leakage import leakage, release_epsilons
from fedaudit.spec.privacy import Noise
from fedaudit.stored import KeyedDigest

METRIC_VERSION = 1
EPSILON_VERSION = 2
COMPONENT_VERSION = 3
MAGIC = b"fedaudit-ledger"

_ABSENT = np.array([0x7FF8000000000000], dtype="<u8").view("<f8")[0]
_SUBJECT = np.dtype(
    [
        ("key", "V32"),
        ("outcome", "u1"),
        ("radius", "<f8"),
        ("epsilon", "<f8"),
        ("leakage", "<f8"),
        ("releases", "<u4"),
    ]
)
_EPSILON_SUBJECT = np.dtype(
    [("key", "V32"), ("outcome", "u1"), ("epsilon", "<f8"), ("releases", "<u4")]
)
_COMPONENT = np.dtype([("radius", "<f8"), ("epsilon", "<f8"), ("leakage", "<f8")])


class EntryEncoder:
    """Encodes the entries of one experiment; whatever depends on names alone is computed once."""

    def __init__(self, names: Sequence[str], *, salt: bytes | None = None) -> None:
        """`names`: the subjects' keys by index, distinct. `salt`: of a ledger whose digests are
        keyed (`fedaudit.ledger.encoding`). Raises ValueError where two names are equal."""
        self._keys, self._rank = _keys_and_ranks(tuple(names))
        self._inputs: tuple[MechanismParameters, bytes] | None = None
        self._names = names
        self._salt = salt
        self._others: dict[str, EntryEncoder] = {}

    def encode(self, entries: EntryColumns) -> list[bytes]:
        """The bytes of each entry. Raises ValueError for subjects that repeat or have no name, and
        struct.error for a negative round or release."""
        kind, inputs = entries.subject_kind, entries.inputs
        names = names_of_subjects(kind, self._names)
        if names is not self._names:
            return self._others.setdefault(kind, EntryEncoder(names)).encode(entries)
        # The same object: a zero of the other sign is equal, and has other bytes.
        if self._inputs is None or self._inputs[0] is not inputs:
            self._inputs = inputs, _encode_inputs(inputs)
        encoded, (version, form) = self._inputs[1], _form(inputs)
        subjects = self._subjects(entries, form)
        width, charged = subjects.itemsize, subjects.tobytes()
        who = {observer: _text(kind) + _text(observer) for *_, observer in entries.keys}
        return [
            b"".join(
                (
                    MAGIC,
                    struct.pack("<HQQ", version, round_, release),
                    who[observer],
                    bytes([interrupted]),
                    encoded,
                    struct.pack("<I", span.stop - span.start),
                    charged[width * span.start : width * span.stop],
                )
            )
            for (round_, release, _, observer), interrupted, span in zip(
                entries.keys, entries.interrupted, entries.spans, strict=True
            )
        ]

    def renamed(self, names: Sequence[str]) -> "EntryEncoder":
        """That of the same ledger with other names."""
        return EntryEncoder(names, salt=self._salt)

    def digests(self, entries: EntryColumns) -> list[bytes]:
        """The digest of each entry's bytes. Raises as `encode`, and ValueError for a salt of
        another length."""
        return [digest_of(encoded, self._salt) for encoded in self.encode(entries)]

    def _subjects(self, entries: EntryColumns, form: np.dtype[np.void]) -> NDArray[np.void]:
        """The subjects, within each entry in the order of their names: [charged]."""
        inputs, outcomes, released = entries.inputs, entries.outcomes, entries.released
        table = np.empty(len(outcomes), dtype=form)
        order = self._order(entries)
        table["key"] = self._keys[entries.subjects]
        table["outcome"] = outcomes
        table["releases"] = entries.releases
        if entries.epsilons is not None:
            table["epsilon"] = _or_absent(entries.epsilons)
        elif inputs.components is None:
            _fill_metric(table, inputs, inputs.n, released, entries.radii)
        else:
            for place, part in enumerate(inputs.components):
                radii = entries.radii[:, place]
                _fill_metric(table["components"][:, place], inputs, part.n, released, radii)
        return table if order is None else table[order]

    def _order(self, entries: EntryColumns) -> Ints | None:
        """The places of each entry's subjects in the order of their names; None where they are in
        that order already, which is usual."""
        subjects = entries.subjects
        if subjects.size and not 0 <= subjects.min() <= subjects.max() < len(self._rank):
            raise ValueError(f"subjects must lie between 0 and {len(self._rank) - 1}")
        ranks = entries.places * len(self._rank) + self._rank[subjects]
        if (ranks[1:] > ranks[:-1]).all():
            return None
        order = np.argsort(ranks, kind="stable")
        if (np.diff(ranks[order]) == 0).any():
            raise ValueError("a subject is twice in one entry; merge or remove it")
        return order


def _form(inputs: MechanismParameters) -> tuple[int, np.dtype[np.void]]:
    """The version of the encoding, and the form of a subject in it."""
    if inputs.components is not None:
        parts = ("components", _COMPONENT, (len(inputs.components),))
        subject = np.dtype([("key", "V32"), ("outcome", "u1"), ("releases", "<u4"), parts])
        return COMPONENT_VERSION, subject
    if inputs.counts_epsilon:
        return EPSILON_VERSION, _EPSILON_SUBJECT
    return METRIC_VERSION, _SUBJECT


def _fill_metric(
    table: NDArray[np.void], inputs: MechanismParameters, n: int, released: Bools, radii: Floats
) -> None:
    """The figures of metric privacy for `n` parameters, all or a component's: views of a table."""
    radii = radii.astype(np.float64, copy=False)
    table["radius"] = _or_absent(radii)
    nu = inputs.noise_multiplier
    if nu is None:
        table["epsilon"] = table["leakage"] = _ABSENT
        return
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        epsilons = release_epsilons(n, noise_multiplier=nu, radii=radii)
    table["epsilon"] = _or_absent(epsilons)
    table["leakage"] = np.where(released, leakage(1, n=n, noise_multiplier=nu), 0.0)


def _or_absent(values: Floats) -> Floats:
    """The values, with every NaN replaced by a single one."""
    absent = np.isnan(values)
    return np.where(absent, _ABSENT, values) if absent.any() else values


@lru_cache(maxsize=2)
def _keys_and_ranks(names: tuple[str, ...]) -> tuple[NDArray[np.void], Ints]:
    """The digest of each name, and its rank among them: [names] each. Cached for experiments on the
    same data that run together."""
    keys = [name.encode("utf-8") for name in names]
    if len(set(keys)) != len(keys):
        raise ValueError("subject names must be distinct; two subjects share one")
    digests = b"".join(hashlib.sha256(key).digest() for key in keys)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    rank.flags.writeable = False
    return np.frombuffer(digests, dtype="V32"), rank


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8")
    return struct.pack("<I", len(encoded)) + encoded


def _encode_inputs(inputs: MechanismParameters) -> bytes:
    named = _text(inputs.mechanism) + struct.pack("<Q", inputs.n)
    words = _text(inputs.noise) + _text(inputs.guarantee)
    if not inputs.counts_epsilon:
        numbers = (inputs.noise_multiplier, inputs.radius, inputs.radius_floor, inputs.clip)
        metric = named + _numbers(*numbers) + words
        if inputs.components is None:
            return metric
        parts = [_text(part.name) + struct.pack("<Q", part.n) for part in inputs.components]
        return metric + struct.pack("<I", len(parts)) + b"".join(parts)
    noise = _numbers(inputs.noise_multiplier, inputs.clip)
    counted = _text(inputs.event or "") + _numbers(inputs.delta)
    terms = _text(inputs.adjacency or "") + _text(inputs.accountant or "")
    return named + noise + words + counted + terms


def _numbers(*numbers: float | None) -> bytes:
    present = [_ABSENT if number is None else number for number in numbers]
    return np.array(present, dtype="<f8").tobytes()


_GENESIS = b"fedaudit-ledger-genesis-1\x00"
_LINK = b"fedaudit-ledger-link-2\x00"
_LINK_OF_DECLARED = b"fedaudit-ledger-link-3\x00"
_LEDGER = b"fedaudit-ledger-hash-1\x00"
_SALT = b"fedaudit-ledger-salt-1\x00"
_DIGEST_BYTES = 32
SALT_BYTES = 32
CLUSTER_BYTES = 2


def new_salt(noise: Noise | Literal["declared"]) -> bytes | None:
    """The salt of a new ledger, from the operating system. None where noise is simulated: who took
    part follows from the seed, and two runs of one spec have one ledger hash."""
    match noise:
        case "release" | "declared":
            return os.urandom(SALT_BYTES)
        case "simulation":
            return None
        case _:
            assert_never(noise)


def salt_hash(salt: bytes) -> str:
    """What checkpoints state of a salt, in hexadecimal: it opens nothing."""
    return hashlib.sha256(_SALT + salt).hexdigest()


def digest_of(encoded: bytes, salt: bytes | None) -> bytes:
    """The digest of an entry's bytes: SHA-256, or HMAC-SHA-256 under the ledger's salt.

    Raises ValueError for a salt of another length, since keys of other lengths may collide.
    """
    if salt is None:
        return hashlib.sha256(encoded).digest()
    if len(salt) != SALT_BYTES:
        raise ValueError(f"the ledger's salt has {len(salt)} bytes; it has {SALT_BYTES}")
    return hmac.digest(salt, encoded, hashlib.sha256)


def genesis(experiment_id: str) -> bytes:
    """The link before the first entry of an experiment."""
    return hashlib.sha256(_GENESIS + experiment_id.encode("utf-8")).digest()


def placements(clusters: NDArray[np.integer]) -> bytes:
    """The clusters as links hash them, `CLUSTER_BYTES` each."""
    return clusters.astype("<i2").tobytes()


def placed_of(entries: EntryColumns) -> list[bytes]:
    """The same of each entry."""
    placed = placements(entries.clusters)
    return [placed[CLUSTER_BYTES * one.start : CLUSTER_BYTES * one.stop] for one in entries.spans]


def link(
    previous: bytes, digest: bytes, placed: bytes, *, declaration: bytes | None = None
) -> bytes:
    """The link of an entry: the previous link, its digest and its clusters, hashed together.

    `placed`: the clusters in the form of `placements`, in the order in which the row holds them.
    They are not part of the digest, since they cost nothing, but must not change in the row either.
    `declaration`: of a declared round, the keyed hash of what it declared beside its entries
    (`fedaudit.ledger.declared`); None where there is none, as in every run and in rounds that
    were declared before it was introduced. Raises ValueError where `previous`, `digest` or
    `declaration` is not 32 bytes.
    """
    version = _LINK if declaration is None else _LINK_OF_DECLARED
    hashed = {"previous": previous, "digest": digest}
    if declaration is not None:
        hashed["declaration"] = declaration
    for name, value in hashed.items():
        if len(value) != _DIGEST_BYTES:
            raise ValueError(f"{name} has {len(value)} bytes; a SHA-256 digest has 32")
    return hashlib.sha256(version + b"".join(hashed.values()) + placed).digest()


def links_of(
    entries: EntryColumns,
    digests: Sequence[bytes],
    *,
    before: bytes,
    declaration: bytes | None = None,
) -> list[bytes]:
    """The links of entries with these digests, behind the link `before` them."""
    links = [before]
    for digest, placed in zip(digests, placed_of(entries), strict=True):
        links.append(link(links[-1], digest, placed, declaration=declaration))
    return links[1:]


class LedgerHash:
    """Computes the ledger hash from entries in ascending order of round, release, kind,
    observer."""

    def __init__(self) -> None:
        self._total = hashlib.sha256(_LEDGER)
        self._between: dict[tuple[str, str, int], bytes] = {}

    def add(self, entry: KeyedDigest) -> None:
        """Add the next entry. Raises struct.error for a negative round or release."""
        round_, release, subject_kind, observer, digest = entry
        who = (subject_kind, observer, len(digest))
        if who not in self._between:
            length = struct.pack("<I", len(digest))
            self._between = {who: _text(subject_kind) + _text(observer) + length}
        self._total.update(struct.pack("<QQ", round_, release) + self._between[who] + digest)

    def hexdigest(self) -> str:
        """The hash of the entries so far, in hexadecimal."""
        return self._total.hexdigest()


def ledger_hash(entries: Iterable[KeyedDigest]) -> str:
    """SHA-256, in hexadecimal, over the entries sorted by round, release, kind and observer, which
    no two of them share."""
    total = LedgerHash()
    for entry in sorted(entries):
        total.add(entry)
    return total.hexdigest()
