"""Whether sign-offs are about this report, whole, in their order, and signed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.signatures import Envelope, Keyring
from fedaudit.ledger.statements import ChainedSignOff, SignOff, link_of
from fedaudit.reports.document.checks import Check, canonical_hash, check, unknown_key
from fedaudit.reports.later.judged_later import judged_later
from fedaudit.reports.verdict.concerns import concerns_of
from fedaudit.reports.verification.later_checks import ReadLater

_SHOWN = 3


@dataclass(frozen=True)
class ReadSignOffs:
    """The readable sign-offs in their order, and what is wrong with the others."""

    chained: Sequence[ChainedSignOff]
    envelopes: Sequence[Envelope]
    """Of the same sign-offs."""
    faults: Sequence[str]

    @property
    def sign_offs(self) -> list[SignOff]:
        """What people stated."""
        return [one.sign_off for one in self.chained]

    @property
    def signers(self) -> set[str]:
        """The ids of the keys that the service signed them with."""
        return {one.key_id for one in self.envelopes}


def read_sign_offs(values: Sequence[object]) -> ReadSignOffs:
    """The sign-offs in these envelopes; signatures are checked later."""
    chained, envelopes, faults = [], [], []
    for place, value in enumerate(values, start=1):
        try:
            envelope = Envelope.from_dict(value)
            chained.append(ChainedSignOff.of(envelope))
        except ValueError as error:
            faults.append(f"sign-off {place} {error}")
        else:
            envelopes.append(envelope)
    return ReadSignOffs(chained, envelopes, faults)


def sign_off_checks(
    evidence: Evidence, found: ReadSignOffs, keyring: Keyring, *, later: ReadLater
) -> Iterator[Check]:
    """The checks, in the order in which they are reported; none where nobody signed off.

    `later`: what attacks found after the report, which a sign-off after them has to state too.
    """
    if not evidence.sign_offs:
        return
    yield _signatures(found, keyring)
    yield _chain(evidence, found)
    yield _report(evidence, found)
    yield _concerns(evidence, found, later)


def _signatures(found: ReadSignOffs, keyring: Keyring) -> Check:
    faults = list(found.faults)
    for one, envelope in zip(found.sign_offs, found.envelopes, strict=True):
        key = keyring.get(envelope.key_id)
        if key is None:
            faults.append(unknown_key(f"sign-off {one.number}", envelope.key_id))
        elif not key.verifies(envelope.signature, envelope.message):
            faults.append(f"sign-off {one.number} has a wrong signature: it was altered")
    return check(
        "sign_offs.signatures",
        not faults,
        good=f"every one of {len(found.envelopes)} sign-offs has a right signature",
        bad="; ".join(faults[:_SHOWN]),
    )


def _chain(evidence: Evidence, found: ReadSignOffs) -> Check:
    faults = [
        f"sign-off {one.number} is about another experiment"
        for one in found.sign_offs
        if one.experiment_id != evidence.experiment_id
    ]
    before: Envelope | None = None
    for place, (one, envelope) in enumerate(
        zip(found.chained, found.envelopes, strict=True), start=1
    ):
        expected = one.sign_off.report_hash if before is None else link_of(before)
        if one.sign_off.number != place or one.previous != expected:
            faults.append(
                f"sign-off {one.sign_off.number} does not follow from the one before it: one was "
                "removed, added, moved or altered there"
            )
            break
        before = envelope
    return check(
        "sign_offs.chain",
        not faults,
        good="each follows from the one before it, and the first from the report",
        bad="; ".join(faults[:_SHOWN]),
    )


def _report(evidence: Evidence, found: ReadSignOffs) -> Check:
    hashed = None if evidence.report is None else canonical_hash(evidence.report)
    wrong = [one.number for one in found.sign_offs if one.report_hash != hashed]
    return check(
        "sign_offs.report",
        hashed is not None and not wrong,
        good="each names the hash of this report",
        bad="there is no report that they could be about"
        if hashed is None
        else f"another report was signed off: {', '.join(map(str, wrong[:_SHOWN]))}",
    )


def _concerns(evidence: Evidence, found: ReadSignOffs, later: ReadLater) -> Check:
    expected = list(_expected(evidence.report, later))
    wrong = [
        one.number
        for one in found.sign_offs
        if list(one.concerns) not in expected or (one.concerns and not one.note.strip())
    ]
    return check(
        "sign_offs.concerns",
        not wrong,
        good="each states what the report has against it, with a note where there is something",
        bad="what the report has against it is not stated, or not with a note: "
        + ", ".join(map(str, wrong[:_SHOWN])),
    )


def _expected(report: Mapping[str, Any] | None, later: ReadLater) -> Iterator[list[Any]]:
    """What could be stated before attacks were carried out later, and after each of them: a
    sign-off does not name the statements on them that it has seen."""
    if report is None:
        return
    for sections in later.sections_so_far():
        try:
            yield list(concerns_of(judged_later(report, sections)))
        except (KeyError, TypeError, ValueError, AttributeError):
            return
