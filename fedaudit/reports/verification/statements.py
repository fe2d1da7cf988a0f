"""Whether sign-offs and statements on later attacks are about this report, whole and signed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.signatures import Envelope, Keyring
from fedaudit.ledger.statements import ChainedSignOff, SignOff, link_of
from fedaudit.privacy.lower_bounds.e_values import e_values_of, is_alarm, run_evidence
from fedaudit.reports.checks import Check, canonical_hash, check, same, unknown_key, value_at
from fedaudit.reports.later import LaterStatement, judged_later, link_of_statement, statement_in
from fedaudit.reports.verdict.verdict import concerns_of

_SHOWN = 3


T = TypeVar("T")


@dataclass(frozen=True)
class Signed(Generic[T]):
    """What envelopes hold, in their order, and what is wrong with those that cannot be read."""

    items: Sequence[T]
    envelopes: Sequence[Envelope]
    """Of the same items."""
    faults: Sequence[str]

    @classmethod
    def read(cls, values: Sequence[object], of: Callable[[Envelope], T], *, what: str) -> Self:
        """The items of `values`; `of` raises ValueError, and `what` takes a number. Signatures are
        checked later."""
        items, envelopes, faults = [], [], []
        for number, value in enumerate(values, start=1):
            try:
                envelope = Envelope.from_dict(value)
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

    def signatures(
        self, keyring: Keyring, name: str, nouns: str, called: Callable[[T], str]
    ) -> Check:
        """The check that every one is readable and has a right signature."""
        faults = list(self.faults)
        for one, envelope in zip(self.items, self.envelopes, strict=True):
            key = keyring.get(envelope.key_id)
            if key is None:
                faults.append(unknown_key(called(one), envelope.key_id))
            elif not key.verifies(envelope.signature, envelope.message):
                faults.append(f"{called(one)} has a wrong signature: it was altered")
        return check(
            f"{name}.signatures",
            not faults,
            good=f"every one of {len(self.envelopes)} {nouns} has a right signature",
            bad="; ".join(faults[:_SHOWN]),
        )


ReadLater = Signed[tuple[LaterStatement, str]]
"""Each with what it names as the one before it."""
ReadSignOffs = Signed[ChainedSignOff]


def evidence_checks(report: object, later: ReadLater) -> Iterator[Check]:
    """Whether the evidence of each attack follows from the e-values before it, and alarms from the
    evidence; none of reports whose attacks have no e-values."""
    of_report = value_at(report, "attacks")
    listed = of_report if isinstance(of_report, list) else []
    sections = [one for one in listed if isinstance(one, Mapping)]
    sections += [attack for one, _ in later.items for attack in one.attacks]
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
    yield check(
        "attacks.evidence",
        not wrong,
        good="the evidence and every alarm follow from the attacks' e-values",
        bad=f"evidence or alarm of attacks do not follow from the e-values: {wrong[:_SHOWN]}",
    )


def read_later(values: Sequence[object]) -> ReadLater:
    """The statements on later attacks in these envelopes."""
    return ReadLater.read(values, statement_in, what="statement {} on later attacks")


def later_checks(evidence: Evidence, found: ReadLater, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; none where nothing was attacked."""
    if not evidence.later_attacks:
        return
    yield found.signatures(keyring, "later_attacks", "statements", lambda one: _name(one[0]))
    faults = []
    expected, number = None, 0
    for (one, before), envelope in zip(found.items, found.envelopes, strict=True):
        # Numbers may be left out: requests for which nothing was tried have no statement.
        if one.number <= number or before != (expected or one.report_hash):
            faults.append(
                f"{_name(one)} does not follow from the one before it: one was removed, added, "
                "moved or altered there"
            )
            break
        expected, number = link_of_statement(envelope), one.number
    yield check(
        "later_attacks.chain",
        not faults,
        good="each follows from the one before it, and the first from the report",
        bad="; ".join(faults),
    )
    report = evidence.report
    hashed = None if report is None else canonical_hash(report)
    own = (evidence.experiment_id, hashed, value_at(report, "integrity", "ledger_hash"))
    wrong = [
        str(one.number)
        for one, _ in found.items
        if (one.experiment_id, one.report_hash, one.ledger_hash) != own
    ]
    yield check(
        "later_attacks.report",
        not wrong,
        good="each names the hashes of this report and of its ledger",
        bad=f"another run was attacked: {', '.join(wrong[:_SHOWN])}",
    )


def _name(statement: LaterStatement) -> str:
    return f"statement {statement.number} on later attacks"


def sign_off_checks(
    evidence: Evidence, found: ReadSignOffs, keyring: Keyring, *, later: ReadLater
) -> Iterator[Check]:
    """The checks, in the order in which they are reported; none without a sign-off. `later`:
    what attacks found after the report, which a sign-off after them has to state too."""
    if not evidence.sign_offs:
        return
    yield found.signatures(
        keyring, "sign_offs", "sign-offs", lambda one: f"sign-off {one.sign_off.number}"
    )
    sign_offs = [one.sign_off for one in found.items]
    faults = [
        f"sign-off {one.number} is about another experiment"
        for one in sign_offs
        if one.experiment_id != evidence.experiment_id
    ]
    before: Envelope | None = None
    for place, (one, envelope) in enumerate(
        zip(found.items, found.envelopes, strict=True), start=1
    ):
        expected = one.sign_off.report_hash if before is None else link_of(before)
        if one.sign_off.number != place or one.previous != expected:
            faults.append(
                f"sign-off {one.sign_off.number} does not follow from the one before it: one was "
                "removed, added, moved or altered there"
            )
            break
        before = envelope
    yield check(
        "sign_offs.chain",
        not faults,
        good="each follows from the one before it, and the first from the report",
        bad="; ".join(faults[:_SHOWN]),
    )
    hashed = None if evidence.report is None else canonical_hash(evidence.report)
    others = [one.number for one in sign_offs if one.report_hash != hashed]
    yield check(
        "sign_offs.report",
        hashed is not None and not others,
        good="each names the hash of this report",
        bad="there is no report that they could be about"
        if hashed is None
        else f"another report was signed off: {', '.join(map(str, others[:_SHOWN]))}",
    )
    yield _concerns(evidence, sign_offs, later)


def _concerns(evidence: Evidence, sign_offs: Sequence[SignOff], later: ReadLater) -> Check:
    expected = list(_expected(evidence.report, later))
    wrong = [
        one.number
        for one in sign_offs
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
    for known in range(len(later.items) + 1):
        sections = [attack for one, _ in later.items[:known] for attack in one.attacks]
        try:
            yield list(concerns_of(judged_later(report, sections)))
        except (KeyError, TypeError, ValueError, AttributeError):
            return
