"""Whether signed statements are right, and agree with ledger and report: checkpoints, sign-offs,
later attacks, claims, and made-up names after an erasure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.encoding import salt_hash
from fedaudit.ledger.statements import (
    DATABASE,
    Chained,
    Checkpoint,
    Envelope,
    ErasedNames,
    Keyring,
    SignOff,
    growing_hashes,
    link_of,
    previous_of,
    subjects_hash,
)
from fedaudit.privacy.lower_bounds.e_values import e_values_of, is_alarm, run_evidence
from fedaudit.reports.checks import MALFORMED, Check, Outcome, numbered, same, unknown_key, value_at
from fedaudit.reports.claims import following
from fedaudit.reports.report import LaterStatement, judged_later, report_hash
from fedaudit.reports.verdict.verdict import concerns_of
from fedaudit.reports.verification.entries import is_declared
from fedaudit.spec.canonical import canonical_hash

_SHOWN = 3


T = TypeVar("T")


@dataclass(frozen=True)
class Signed(Generic[T]):
    """What envelopes hold, in their order, and what is wrong with those that cannot be read."""

    items: Sequence[T]
    envelopes: Sequence[Envelope]
    """Envelopes of the same items."""
    faults: Sequence[str]

    @classmethod
    def read(
        cls,
        values: Sequence[object],
        of: Callable[[Envelope], T],
        *,
        what: str,
        opened: Callable[[object], Envelope] = Envelope.from_dict,
    ) -> Self:
        """The items of `values`; `opened` and `of` raise ValueError, and `what` takes a number.
        Signatures are checked later."""
        items, envelopes, faults = [], [], []
        for number, value in enumerate(values, start=1):
            try:
                envelope = opened(value)
                items.append(of(envelope))
            except ValueError as error:
                faults.append(f"{what.format(number)} {error}")
            else:
                envelopes.append(envelope)
        return cls(items, envelopes, faults)

    @property
    def signers(self) -> set[str]:
        """The ids of the keys that the service signed them with."""
        return {one.key_id for one in self.envelopes}

    def signature_faults(self, keyring: Keyring, called: Callable[[T], str]) -> list[str]:
        """Why not every one is readable and has a right signature."""
        faults = list(self.faults)
        for one, envelope in zip(self.items, self.envelopes, strict=True):
            key = keyring.get(envelope.key_id)
            if key is None:
                faults.append(unknown_key(called(one), envelope.key_id))
            elif not key.verifies(envelope.signature, envelope.message):
                faults.append(f"{called(one)} has a wrong signature: it was altered")
        return faults

    def signatures(
        self, keyring: Keyring, name: str, nouns: str, called: Callable[[T], str]
    ) -> Check:
        """The check that every one is readable and has a right signature."""
        faults = self.signature_faults(keyring, called)
        return Check.of(
            f"{name}.signatures",
            not faults,
            good=f"every one of {len(self.envelopes)} {nouns} has a right signature",
            bad="; ".join(faults[:_SHOWN]),
        )


ReadLater = Signed[LaterStatement]
C = TypeVar("C", bound=Chained)


def _chained_checks(
    found: Signed[C],
    keyring: Keyring,
    *,
    name: str,
    nouns: str,
    faults: Sequence[str] = (),
    gaps: bool = False,
) -> Iterator[Check]:
    """Checks of signatures and chain. `faults`: what else is wrong with the chain; `gaps`: numbers
    may be left out."""
    yield found.signatures(keyring, name, nouns, lambda one: one.called)
    faults = list(faults)
    expected, number = None, 0
    for one, envelope in zip(found.items, found.envelopes, strict=True):
        placed = one.number > number if gaps else one.number == number + 1
        if not placed or previous_of(envelope) != (expected or one.report_hash):
            faults.append(
                f"{one.called} does not follow from the one before it: one was removed, added, "
                "moved or altered there"
            )
            break
        expected, number = link_of(envelope), one.number
    yield Check.of(
        f"{name}.chain",
        not faults,
        good="each follows from the one before it, and the first from the report",
        bad="; ".join(faults[:_SHOWN]),
    )


def evidence_checks(report: object, later: ReadLater) -> Iterator[Check]:
    """Whether the evidence of each attack follows from the e-values before it, and alarms from the
    evidence; none for reports whose attacks have no e-values."""
    of_report = value_at(report, "attacks")
    listed = of_report if isinstance(of_report, list) else []
    sections = [one for one in listed if isinstance(one, Mapping)]
    sections += [attack for one in later.items for attack in one.attacks]
    if all(one.get("e_value") is None for one in sections):
        return
    wrong = []
    for number, one in enumerate(sections, start=1):
        if one.get("e_value") is None:
            continue
        try:
            found = run_evidence(e_values_of(sections[:number]))
        except ValueError:
            wrong.append(number)
            continue
        alarmed = is_alarm(found, one["e_value"])
        if not same(one.get("evidence"), found) or (one.get("alarm") is not None) != alarmed:
            wrong.append(number)
    yield Check.of(
        "attacks.evidence",
        not wrong,
        good="the evidence and every alarm follow from the attacks' e-values",
        bad=f"evidence or alarm of attacks do not follow from the e-values: {wrong[:_SHOWN]}",
    )


def later_checks(evidence: Evidence, found: ReadLater, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; none where nothing was attacked."""
    if not evidence.later_attacks:
        return
    # Requests for which nothing was tried have no statement.
    yield from _chained_checks(found, keyring, name="later_attacks", nouns="statements", gaps=True)
    report = evidence.report
    hashed = None if report is None else canonical_hash(report)
    own = (evidence.experiment_id, hashed, value_at(report, "integrity", "ledger_hash"))
    wrong = [
        str(one.number)
        for one in found.items
        if (one.experiment_id, one.report_hash, one.ledger_hash) != own
    ]
    yield Check.of(
        "later_attacks.report",
        not wrong,
        good="each names the hashes of this report and of its ledger",
        bad=f"another run was attacked: {', '.join(wrong[:_SHOWN])}",
    )


def sign_off_checks(
    evidence: Evidence, found: Signed[SignOff], keyring: Keyring, *, later: ReadLater
) -> Iterator[Check]:
    """The checks, in the order of the report; none without a sign-off. `later`: findings of attacks
    after the report, which a later sign-off must state too."""
    if not evidence.sign_offs:
        return
    others = [
        f"{one.called} is about another experiment"
        for one in found.items
        if one.experiment_id != evidence.experiment_id
    ]
    yield from _chained_checks(found, keyring, name="sign_offs", nouns="sign-offs", faults=others)
    hashed = None if evidence.report is None else canonical_hash(evidence.report)
    wrong = [one.number for one in found.items if one.report_hash != hashed]
    yield Check.of(
        "sign_offs.report",
        hashed is not None and not wrong,
        good="each names the hash of this report",
        bad="there is no report that they could be about"
        if hashed is None
        else f"another report was signed off: {', '.join(map(str, wrong[:_SHOWN]))}",
    )
    yield _concerns(evidence, found.items, later)


def _concerns(evidence: Evidence, sign_offs: Sequence[SignOff], later: ReadLater) -> Check:
    expected = list(_expected(evidence.report, later))
    wrong = [
        one.number
        for one in sign_offs
        if list(one.concerns) not in expected or (one.concerns and not one.note.strip())
    ]
    return Check.of(
        "sign_offs.concerns",
        not wrong,
        good="each states what the report has against it, with a note where there is something",
        bad="what the report has against it is not stated, or not with a note: "
        + ", ".join(map(str, wrong[:_SHOWN])),
    )


def _expected(report: Mapping[str, Any] | None, later: ReadLater) -> Iterator[list[Any]]:
    """What could be stated before later attacks, and after each of them: a sign-off does not name
    the statements on attacks that it knew."""
    if report is None:
        return
    for known in range(len(later.items) + 1):
        sections = [attack for one in later.items[:known] for attack in one.attacks]
        try:
            for anew in (False, True):
                yield list(concerns_of(judged_later(report, sections, anew=anew)))
        except MALFORMED:
            return


ERASED = "the statement on the erased names"


def erasure_checks(
    evidence: Evidence, found: Signed[ErasedNames], audit: LedgerAudit, keyring: Keyring
) -> Iterator[Check]:
    """The checks, in the order in which they are reported; they replace that of the digests."""
    if evidence.erased is None:
        return
    faults = found.signature_faults(keyring, lambda _: ERASED)
    yield Check.of(
        "erasure.signature",
        not faults,
        good=f"{ERASED} has a right signature",
        bad="; ".join(faults),
    )
    if not found.items:
        return
    [statement] = found.items
    stated = (statement.entries, statement.chain_head, statement.ledger_hash)
    same = (
        stated == (audit.entries, audit.head.hex(), audit.ledger_hash)
        and statement.experiment_id == audit.experiment_id
        and statement.erased_hash == audit.erased_hash
    )
    yield Check.of(
        "erasure.ledger",
        same and not audit.altered.count,
        good=f"the clients' names were erased on {statement.erased_at}; the entries are those "
        "that they were then",
        bad="the entries are not those of the ledger whose names were erased: some were altered, "
        "added or removed since",
    )
    yield Check.of(
        "erasure.digests",
        statement.agreed,
        good="every entry had its digest when the names were still there, as was signed then",
        bad="the ledger did not agree with its digests when the names were erased",
    )


NO_CHECKPOINT = (
    "there is no signed checkpoint, so nothing shows whether the newest entries are still there"
)
_DELETED = (
    "the report was signed together with a checkpoint, and there is none: the checkpoints were "
    "deleted"
)


class ReadCheckpoints(Signed[Checkpoint]):
    """The readable checkpoints, oldest first."""

    @property
    def newest(self) -> Checkpoint | None:
        """The checkpoint that counts most entries; the last of several such."""
        return max(reversed(self.items), key=lambda one: one.entries, default=None)

    @property
    def newest_signer(self) -> str | None:
        """The id of the key that signed the newest checkpoint."""
        newest, made = self.newest, zip(self.items, self.envelopes, strict=True)
        return next((envelope.key_id for one, envelope in made if one is newest), None)


def checkpoint_checks(
    evidence: Evidence,
    found: ReadCheckpoints,
    audit: LedgerAudit,
    keyring: Keyring,
    *,
    erasure: Signed[ErasedNames],
) -> Iterator[Check]:
    """The checks, in the order in which they are reported."""
    yield from _salt(evidence, found)
    if not evidence.checkpoints:
        unsigned = value_at(evidence.report, "integrity", "signature") is None
        outcome: Outcome = "unchecked" if unsigned else "fail"
        yield Check("checkpoints.signatures", outcome, NO_CHECKPOINT if unsigned else _DELETED)
        return
    yield found.signatures(
        keyring, "checkpoints", "checkpoints", lambda one: f"the checkpoint of entry {one.entries}"
    )
    newest = found.newest
    expected: dict[str, Collection[str | None]] = {
        "experiment_id": {evidence.experiment_id},
        "spec_hash": {canonical_hash(evidence.spec)},
        "subjects_hash": _hashes_of(evidence, erasure),
    }
    wrong = [
        f"the checkpoint of entry {one.entries} was made for another {name.partition('_')[0]}"
        for one in found.items
        for name, values in expected.items()
        if getattr(one, name) not in values
        # Of erased names the statement has the hash of the last list; older lists were shorter.
        and (name != "subjects_hash" or evidence.erased is None or one == newest)
    ]
    yield Check.of(
        "checkpoints.subject",
        not wrong,
        good="they are of this experiment, its spec and its subjects' names",
        bad="; ".join(wrong[:3]),
    )
    yield _chain(found, audit)
    yield _entries(found, audit)
    if not is_declared(evidence.spec):
        # Rounds can be declared to a ledger for ever: it has no end.
        yield _end(evidence, found)
    yield from _witness(evidence, found)


def _salt(evidence: Evidence, found: ReadCheckpoints) -> Iterator[Check]:
    """None where no salt is there or stated, or it was erased with the names."""
    own = None if evidence.salt is None else salt_hash(evidence.salt)
    stated = {one.salt_hash for one in found.items}
    if evidence.erased is not None or not stated - {None} | {own} - {None}:
        return
    if not stated:
        yield Check.unchecked("ledger.salt", "no signed checkpoint says whether this is its salt")
        return
    missing = "the salt that its digests are keyed with is missing"
    yield Check.of(
        "ledger.salt",
        stated == {own},
        good="the salt that its digests are keyed with is the one that was signed",
        bad=missing if own is None else "the salt is not the one that the checkpoints were made of",
    )


def _hashes_of(evidence: Evidence, erasure: Signed[ErasedNames]) -> Collection[str | None]:
    """Those that a checkpoint may have: the names of a declared ledger grow with its rounds."""
    if evidence.erased is not None:
        return {one.subjects_hash for one in erasure.items}
    try:
        if is_declared(evidence.spec):
            return set(growing_hashes(evidence.names))
        return {subjects_hash(evidence.names)}
    except ValueError:
        return {None}


def _chain(found: ReadCheckpoints, audit: LedgerAudit) -> Check:
    before = 0
    for checkpoint in sorted(found.items, key=lambda one: one.entries):
        head = audit.heads.get(checkpoint.entries)
        if head is not None and head.hex() != checkpoint.chain_head:
            return Check.failed(
                "checkpoints.chain",
                f"at entry {checkpoint.entries} (round {checkpoint.last_round}) the chain is not "
                f"the signed one: something was changed after entry {before}",
            )
        before = checkpoint.entries if head is not None else before
    passes = f"the chain passes through every checkpoint up to entry {before}"
    return Check("checkpoints.chain", "pass", passes)


def _entries(found: ReadCheckpoints, audit: LedgerAudit) -> Check:
    newest = found.newest
    if newest is None:
        return Check.unchecked("ledger.entries", NO_CHECKPOINT)
    have, counted = audit.entries, newest.entries
    if have > counted and newest.status == "running":
        return Check.unchecked(
            "ledger.entries",
            f"{numbered(counted + 1, have)} came after the newest checkpoint: no signature "
            "covers them",
        )
    if have > counted:
        bad = f"{numbered(counted + 1, have)} were added after the end was signed"
    elif audit.unchained is None:
        bad = (
            f"{numbered(have + 1, counted)} (up to round {newest.last_round}) are missing: the "
            f"signed checkpoint counts {counted}, the ledger has {have}"
        )
    else:
        bad = (
            f"{counted - have} of {counted} entries are missing, or unreadable; "
            f"the chain breaks at {audit.unchained}"
        )
    return Check.of(
        "ledger.entries",
        have == counted,
        good=f"there are {have} entries, as the newest checkpoint says",
        bad=bad,
    )


def _witness(evidence: Evidence, found: ReadCheckpoints) -> Iterator[Check]:
    """None where a worker signed: such reports are as old as checkpoints."""
    if found.newest is None or found.newest.witness != DATABASE:
        return
    instead = "not from what a worker remembered of the run"
    if is_declared(evidence.spec):
        instead = "because earlier signatures were missing or another key had made them"
    yield Check.unchecked(
        "checkpoints.witness",
        f"the newest checkpoint was signed from what the database held, {instead}: anyone who "
        "could change the database could choose what was signed",
    )


def _end(evidence: Evidence, found: ReadCheckpoints) -> Check:
    """What the newest checkpoint says about the end: only an older one may have been kept."""
    status = None if found.newest is None else found.newest.status
    succeeded = status == "succeeded"
    if status == "running" and evidence.report is None:
        return Check.unchecked(
            "report.present",
            "the newest checkpoint was made during the run, so no signature says how it ended: "
            "later entries and a report may have been deleted with their checkpoints",
        )
    bad = (
        "a checkpoint says that the experiment succeeded, but its report is missing"
        if succeeded
        else "there is a report, but the checkpoint that was signed with it is missing"
    )
    return Check.of(
        "report.present",
        succeeded == (evidence.report is not None),
        good="the report is there" if succeeded else "the run left no report, as signed",
        bad=bad,
    )


def claim_checks(
    evidence: Evidence, found: Signed[dict[str, Any]], keyring: Keyring
) -> Iterator[Check]:
    """The checks, in the order of the report; none where the report names no key of claims and
    there are none. The report's signature vouches for that key."""
    report = evidence.report
    key_id = value_at(report, "integrity", "claims_key_id")
    if report is None or (key_id is None and not evidence.claims):
        return
    yield found.signatures(keyring, "claims", "claims", _name)
    wrong = sorted(one for one in found.signers if one != key_id)
    yield Check.of(
        "claims.key",
        not wrong,
        good="all were signed with the key that the report names",
        bad=f"the report does not name the key {', '.join(wrong[:_SHOWN])}",
    )
    try:
        said = following(report, report_hash(report))
    except MALFORMED:
        yield Check.failed("claims.report", "the report lacks what it claims")
        return
    types = [str(one.get("predicateType")) for one in found.items]
    missing = [kind for kind in said if kind not in types]
    yield Check.of(
        "claims.present",
        types == list(said),
        good="they are all that are made of such a report",
        bad=f"missing: {', '.join(missing)}" if missing else "one is there twice, or was moved",
    )
    altered = []
    for one, kind in zip(found.items, types, strict=True):
        subject, predicate = (value_at(said, kind, part) for part in ("subject", "predicate"))
        # Some claims say more than follows from the report alone.
        follows = predicate is None or same(one.get("predicate"), predicate)
        if one.get("subject") != subject or not follows:
            altered.append(_name(one))
    yield Check.of(
        "claims.report",
        not altered,
        good="each is about this report, and says what follows from it",
        bad=f"does not follow from this report: {'; '.join(altered[:_SHOWN])}",
    )


def _name(claim: Mapping[str, Any]) -> str:
    return f"the claim {str(claim.get('predicateType'))[:80]}"
