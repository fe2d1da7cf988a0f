"""Ledger entries of rounds that ran elsewhere, as their trainer declared them.

They have the form of any other entry. `guarantee` and `noise` are `declared`: the noise was
not observed here. A round whose participants are secret is charged to the one subject that
represents all, of the kind `population`; any other to the clients that were asked. Clients that
failed have a separate entry, release 1 and `interrupted`: charged, and without a result.
"""

import hashlib
import hmac
import json
import struct
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from fedaudit.arrays import Floats, Ints, Ints32
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.encoding import LedgerHash
from fedaudit.ledger.rows import Outcome, place_of
from fedaudit.privacy.accounting.privacy_events import (
    DECLARED,
    Composed,
    LaplaceL2,
    MechanismParameters,
    NonPrivate,
    event_from_dict,
)
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Charge, Histories, Tally, distinct, renyi_epsilons
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.stored import Key, KeyedDigest, LedgerRow

_EVERYONE = np.zeros(1, dtype=np.int32)
_ACCOUNTANT = "rdp"
"""The accountant of entries in every ledger: its upper bound is known after every round."""


def declared_inputs(terms: LedgerTerms, charge: Charge, *, steps: int) -> MechanismParameters:
    """The parameters of the entries of one round."""
    event = charge.event
    composed = event if steps == 1 else Composed(event, steps)
    return MechanismParameters(
        mechanism="none" if isinstance(event, NonPrivate) else terms.mechanism,
        n=event.n if isinstance(event, LaplaceL2) else 0,
        noise_multiplier=event.noise_multiplier if isinstance(event, LaplaceL2) else None,
        radius=event.radius if isinstance(event, LaplaceL2) else None,
        radius_floor=None,
        clip=charge.clip,
        noise=DECLARED,
        guarantee="none" if isinstance(event, NonPrivate) else DECLARED,
        event=canonical_json(composed.as_dict()).decode() if terms.counts_epsilon else None,
        delta=terms.delta if terms.counts_epsilon else None,
        adjacency=terms.adjacency if terms.counts_epsilon else None,
        accountant=_ACCOUNTANT if terms.counts_epsilon else None,
    )


def declared_entries(
    terms: LedgerTerms,
    histories: Histories,
    charge: Charge,
    *,
    round_: int,
    steps: int,
    participants: Ints32,
    failures: Ints32,
    releases: Ints32,
) -> EntryColumns:
    """The entries of a round that `histories` have been charged for. `releases` [subjects]: how
    many earlier entries charged each of them; incremented here."""
    inputs = declared_inputs(terms, charge, steps=steps)
    kind, parts = ("population", [_EVERYONE]) if charge.everyone else ("client", [participants])
    if len(failures) and not charge.everyone:
        parts.append(failures)
    sizes, subjects = np.array([len(one) for one in parts]), np.concatenate(parts)
    releases[subjects] += 1
    radius = np.nan if inputs.radius is None else inputs.radius
    return EntryColumns(
        inputs=inputs,
        subject_kind=kind,
        keys=[Key(round_, release, kind, terms.observer) for release in range(len(parts))],
        interrupted=[False, True][: len(parts)],
        sizes=sizes,
        subjects=subjects,
        outcomes=np.full(len(subjects), Outcome.RELEASED, dtype=np.uint8),
        radii=np.repeat([radius, np.nan][: len(parts)], sizes),
        releases=releases[subjects],
        clusters=np.full(len(subjects), -1, dtype=np.int16),
        epsilons=_epsilons(terms, histories, subjects),
    )


def _epsilons(terms: LedgerTerms, histories: Histories, subjects: Ints32) -> Floats | None:
    """What each subject has spent in all, once for each distinct history; NaN without a bound."""
    if not terms.counts_epsilon:
        return None
    rows, which = distinct(histories.of(subjects))
    found = renyi_epsilons(rows, histories.charges, terms)
    return np.where(np.isinf(found), np.nan, found)[which]


def charge_of_entries(entries: EntryColumns) -> tuple[Charge, int]:
    """What each of some entries charges, and how often it is composed. Raises ValueError for an
    unknown event, KeyError or TypeError for a malformed one."""
    inputs, everyone = entries.inputs, entries.subject_kind == "population"
    if inputs.event is not None:
        found = event_from_dict(json.loads(inputs.event))
        single, count = found.flattened() if isinstance(found, Composed) else (found, 1)
        return Charge(single, everyone), count
    if inputs.noise_multiplier is None:
        return Charge(NonPrivate(), everyone), 1
    event = LaplaceL2(inputs.n, inputs.noise_multiplier, inputs.radius)
    return Charge(event, everyone, clip=inputs.clip), 1


SECRET_BYTES = 32
_VERSION = 1
_WITH_RESERVATIONS = 2
_OF_ROUND = (
    *("round", "content_hash", "event", "participants", "failures", "over_budget", "reserved"),
    "drawn",
)
_OF_RESERVATION = ("round", "event", "admitted", "denied", "replaced")
"""What is hashed as it is stored."""


class Declared(Protocol):
    """A declared round as it is stored."""

    round: Any
    event: Any
    participants: Any
    failures: Any
    reserved: Any
    reservations: Any
    groups: Any
    drawn: Any
    canaries: Any
    head: Any
    declared_at: Any


class Reserved(Protocol):
    """What was reserved for one round, as it is stored."""

    round: Any
    replaced: Any
    state: Any
    reserved_at: Any
    expires_at: Any


def declaration_of(one: Declared, secret: bytes) -> bytes:
    """The 32 bytes that the links of a round's entries hold. Raises ValueError for a secret of
    another length, since keys of other lengths may collide."""
    at: datetime = one.declared_at
    chained: dict[str, Any] = {"declaration_version": _VERSION}
    if one.reservations is not None:
        chained = {"declaration_version": _WITH_RESERVATIONS, "reservations": one.reservations}
    if one.canaries is not None:
        chained["canaries"] = one.canaries
    chained |= {name: getattr(one, name) for name in _OF_ROUND}
    groups = one.groups or None
    return _keyed(secret, {**chained, "groups": groups, "declared_at": at.isoformat()})


def drawn_hash(drawn: Drawn, secret: bytes) -> str:
    """Hash of who was drawn in secret and in how many rounds, in hexadecimal. Raises ValueError as
    above."""
    counted = [[name, count] for name, count in Counter(drawn).items()]
    return _keyed(secret, {"drawn_version": _VERSION, "drawn": counted}).hex()


def reservations_hash(reserved: Sequence[Reserved], secret: bytes) -> str:
    """Hash of what was reserved, to whom it was granted and to whom refused, in hexadecimal, for
    rounds that can no longer be reserved. Raises ValueError as above."""
    return _keyed(
        secret,
        {
            "reservations_version": _VERSION,
            "reservations": [
                {
                    **{name: getattr(one, name) for name in _OF_RESERVATION},
                    "reserved_at": one.reserved_at.isoformat(),
                }
                for one in reserved
            ],
        },
    ).hex()


def changed_rounds(
    rounds: Sequence[Declared],
    chained: Mapping[int, bytes | None],
    *,
    reserved: Sequence[Reserved],
    drawn: Drawn,
    secret: bytes,
) -> Iterator[str]:
    """Words for what is stored of all rounds, in order, and is not what the chain holds: the rounds
    themselves, the reservations, and who was drawn, by the newest round that drew anyone.

    `chained`: the declaration of each round that has entries, None if it has none. Reservations
    after the last round are in no chain yet. Raises ValueError as above.
    """
    for one in rounds:
        if one.round not in chained:
            yield f"round {one.round}, which has no entries"
        elif chained[one.round] not in (None, declaration_of(one, secret)):
            yield f"round {one.round}"
    for number in sorted(chained.keys() - {one.round for one in rounds}):
        yield f"round {number}, which is missing"
    numbers, begin = [one.round for one in reserved], 0
    for one in rounds:
        end = bisect_right(numbers, one.round)
        mine = reserved[begin:end]
        if one.reservations is not None and one.reservations != reservations_hash(mine, secret):
            yield f"what was reserved before round {one.round}"
        begin = end
    stated = next((one.drawn for one in reversed(rounds) if one.drawn is not None), None)
    if stated is not None and stated != drawn_hash(drawn, secret):
        yield "those who were drawn"


def _keyed(secret: bytes, value: Mapping[str, Any]) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the ledger's secret has {len(secret)} bytes; it has {SECRET_BYTES}")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode("ascii"), hashlib.sha256)


_STATE = b"fedaudit-declared-state-1\x00"


def state_hash(
    declarations: Iterable[bytes],
    entries: Iterable[KeyedDigest],
    tallies: Iterable[Tally],
    secret: bytes,
) -> str:
    """Hash of some rounds, of their entries' keys and digests in order, and of what they charged,
    in hexadecimal."""
    ledger, hashed = LedgerHash(), hashlib.sha256()
    for entry in entries:
        ledger.add(entry)
    for one in tallies:
        charged = json.dumps(one.charge.as_dict(), sort_keys=True).encode("ascii")
        counts = significant(one).astype("<i8").tobytes()
        hashed.update(struct.pack("<QQQ", len(charged), one.rounds, len(counts)))
        hashed.update(charged + counts)
    parts = (
        hashlib.sha256(b"".join(declarations)).digest(),
        bytes.fromhex(ledger.hexdigest()),
        hashed.digest(),
    )
    return hmac.digest(secret, _STATE + b"".join(parts), hashlib.sha256).hex()


def significant(tally: Tally) -> Ints:
    """The counts that are in use: up to the last subject that was charged, and only the first where
    everyone is charged alike."""
    counts = tally.counts[:1] if tally.charge.everyone else tally.counts
    charged = counts.nonzero()[0]
    return counts[: charged[-1] + 1] if len(charged) else counts[:0]


class ChargedEntries:
    """What the entries of a ledger charge, read one after the other: its state is what they say."""

    def __init__(self, terms: LedgerTerms, histories: Histories, *, last_round: int = 0) -> None:
        """`histories`: what the entries up to `last_round` charged; changed here."""
        self.histories = histories
        self.last_round = last_round
        self._terms = terms
        self._inputs: tuple[MechanismParameters, str] | None = None

    def read(self, entries: EntryColumns) -> None:
        """Charge the next entries. Raises ValueError where they do not fit the ledger's terms, and
        KeyError or TypeError where their event is malformed."""
        # Most entries have the inputs of those before, of which all was found then.
        if self._inputs != (entries.inputs, entries.subject_kind):
            self._inputs = None
            self._charge, self._steps = charge_of_entries(entries)
        for key, span in zip(entries.keys, entries.spans, strict=True):
            is_counted = key.round == self.last_round
            self.histories.charge(
                self._charge, entries.subjects[span], steps=self._steps, is_counted=is_counted
            )
            self.last_round = key.round
        if self._inputs is None:
            if entries.inputs != declared_inputs(self._terms, self._charge, steps=self._steps):
                place = "round {}, release {}".format(*entries.keys[0])
                raise ValueError(f"{place} is not of the ledger's terms")
            self._inputs = entries.inputs, entries.subject_kind


class Replay:
    """Follows a ledger's entries from the first one: their chain, what each round declared, and
    what they charged."""

    def __init__(self, terms: LedgerTerms, ledger_id: str, salt: bytes | None = None) -> None:
        """`salt`: of a ledger with keyed digests."""
        self.charged = ChargedEntries(terms, Histories(()))
        self.audit = LedgerAudit(ledger_id, (), watch=range(sys.maxsize), salt=salt)
        self.rounds: dict[int, tuple[bytes, bytes | None]] = {}
        """The head after each round, by its number, and its declaration, or None if it has none."""

    def name(self, names: Sequence[str]) -> None:
        """`names`: the subjects' by index, those named before first. Raises ValueError where two
        are equal."""
        self.audit.name(names)
        self.charged.histories.enter(names)

    def read(self, rows: Sequence[LedgerRow]) -> None:
        """Read the next entries. Raises ValueError where a row forms none, they do not fit this
        ledger's terms, or one declares something else than the entry of the same round before it.
        """
        entries, found = self.audit.entries, self.audit.read(rows)
        if sum(map(len, found)) != len(rows):
            raise ValueError(f"a row behind entry {entries} forms no entry")
        for some in found:
            self.charged.read(some)
        for number, row in enumerate(rows, start=entries + 1):
            before = self.rounds.get(row.round)
            if before is not None and before[1] != row.declaration:
                place = place_of(row.key)
                raise ValueError(f"{place} declares otherwise than the round's first entry")
            self.rounds[row.round] = (self.audit.heads[number], row.declaration)

    @property
    def tallies(self) -> list[Tally]:
        """How often each charge was made so far, in the order of first appearance."""
        return list(self.charged.histories.tallies.values())
