"""Verify what an experiment or an audit left: ledger, checkpoints, report and signatures, all
recomputed.

Pure functions over evidence from any source: a database, or an offline bundle.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import batches
from fedaudit.ledger.statements import Checkpoint, Keyring, PublicKey, SignOff
from fedaudit.reports.audit_report import NOT_VERIFIED, audit_checks
from fedaudit.reports.checks import Check, check, unchecked, value_at
from fedaudit.reports.later import LaterStatement
from fedaudit.reports.ledger_totals import LedgerTotals, RunEvidence
from fedaudit.reports.report import report_checks
from fedaudit.reports.sections.held_out_privacy import ReportCharges
from fedaudit.reports.sections.provenance import signature_check
from fedaudit.reports.verification.checkpoints import (
    ReadCheckpoints,
    checkpoint_checks,
    erasure_checks,
    evidence_checks,
    later_checks,
    read_chained,
    read_erasure,
    sign_off_checks,
)
from fedaudit.reports.verification.claim_checks import claim_checks, read_claims
from fedaudit.reports.verification.declared_checks import DeclaredEntries, is_declared
from fedaudit.reports.verification.entries import EntryEpsilons
from fedaudit.reports.verification.log_checks import log_checks, log_signers, unlogged
from fedaudit.spec.audits import is_audit
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted

Verdict = Literal["valid", "consistent, signer untrusted", "altered"]
VALID: Verdict = "valid"
UNTRUSTED: Verdict = "consistent, signer untrusted"
ALTERED: Verdict = "altered"
_AS_DECLARED = (
    "clips, noise, samples and counts are as the trainer declared them; fedaudit did not see the "
    "training, so these checks say what was declared, and not that it is true",
)


@dataclass(frozen=True)
class Verification:
    """The findings of a verification."""

    experiment_id: str
    verdict: Verdict
    """`valid`: every check passed under a trusted key. `altered`: one failed."""
    checks: Sequence[Check]
    signers: Sequence[str]
    """The ids of the keys that the report, the newest checkpoint, the sign-offs and the statements
    on later attacks name."""
    entries: int = 0
    ledger_hash: str = ""
    """Recomputed, as is `chain_head`; both are empty of what has no ledger, as an audit."""
    chain_head: str = ""
    sign_offs: Sequence[SignOff] = ()
    """What people stated of the report, as far as it can be read; the checks say what of it is
    true."""
    later_attacks: Sequence[LaterStatement] = ()
    """What attacks found after the report was signed, as far as it can be read."""
    subject: Literal["experiment", "audit", "ledger", "dossier"] = "experiment"
    beyond: Sequence[str] = ()
    """What of an audit, a declared ledger or a dossier no check can say, in a sentence each."""


def verify(
    evidence: Evidence,
    *,
    trusted: Sequence[PublicKey] = (),
    more: Iterable[Check] = (),
    earlier: Sequence[str] = (),
) -> Verification:
    """Check everything; the rows are read once, in order. `trusted`: the keys whose signatures are
    believed. Without any, evidence that agrees is *consistent*: anyone able to change all of it
    could also have signed all of it. `more`: additional checks that only the evidence's keeper can
    make. `earlier`: signed heads of the log of runs, that were kept elsewhere."""
    keyring = Keyring(trusted=trusted, carried=evidence.keys)
    if is_audit(evidence.spec):
        return _verify_audit(evidence, keyring, [*more, *unlogged(earlier)])
    checkpoints = ReadCheckpoints.read(evidence.checkpoints, Checkpoint.of, what="checkpoint {}")
    erasure = read_erasure(evidence.erased)
    audit = LedgerAudit(
        evidence.experiment_id,
        evidence.names,
        watch=checkpoints.counts,
        salt=evidence.salt,
        erased=erasure is not None,
    )
    declared = is_declared(evidence.spec)
    read = _read_declared if declared else _read_run
    of_ledger, of_report = read(evidence, audit, keyring)
    checks = [*_parts(evidence), *_ledger_checks(audit, erased=erasure is not None)]
    if erasure is not None:
        checks += erasure_checks(erasure, audit, keyring)
    checks += of_ledger
    checks += checkpoint_checks(evidence, checkpoints, audit, keyring)
    checks += of_report
    sign_offs = read_chained(evidence.sign_offs, SignOff)
    later = read_chained(evidence.later_attacks, LaterStatement)
    checks += sign_off_checks(evidence, sign_offs, keyring, later=later)
    checks += later_checks(evidence, later, keyring)
    checks += evidence_checks(evidence.report, later)
    checks += log_checks(evidence, checkpoints, keyring, earlier=earlier)
    claims = read_claims(evidence)
    checks += claim_checks(evidence, claims, keyring)
    checks += more
    signers = [*_signers(evidence, checkpoints), *sign_offs.signers, *later.signers]
    signers += [] if erasure is None else erasure.signers
    signers += log_signers(evidence, keyring)
    checks += leaked_keys(evidence, [*signers, *claims.signers])
    believed = bool(signers) and all(key is not None and keyring.trusts(key) for key in signers)
    return Verification(
        experiment_id=evidence.experiment_id,
        verdict=verdict_of(checks, believed=believed),
        checks=checks,
        entries=audit.entries,
        ledger_hash=audit.ledger_hash,
        chain_head=audit.head.hex(),
        signers=sorted({key for key in signers if key is not None}),
        sign_offs=[one for one, _ in sign_offs.items],
        later_attacks=[one for one, _ in later.items],
        subject="ledger" if declared else "experiment",
        beyond=_AS_DECLARED if declared else (),
    )


def _verify_audit(evidence: Evidence, keyring: Keyring, more: Iterable[Check]) -> Verification:
    """The report of an audit of predictions has no ledger: one signature decides."""
    found = list(audit_checks(evidence, keyring))
    key_id = value_at(evidence.report, "integrity", "key_id")
    signers = [key_id] if isinstance(key_id, str) else []
    checks = [*_parts(evidence), *found, *more, *leaked_keys(evidence, signers)]
    believed = bool(signers) and all(map(keyring.trusts, signers))
    return Verification(
        experiment_id=evidence.experiment_id,
        verdict=verdict_of(checks, believed=believed),
        checks=checks,
        signers=signers,
        subject="audit",
        beyond=NOT_VERIFIED,
    )


def _read_run(
    evidence: Evidence, audit: LedgerAudit, keyring: Keyring
) -> tuple[list[Check], list[Check]]:
    """The checks of a run's entries, which are read here, and of its report."""
    best = value_at(evidence.report, "utility", "best_round")
    totals = LedgerTotals(len(evidence.names), best_round=best if type(best) is int else 0)
    epsilons = EntryEpsilons(evidence.spec, evidence.names)
    charges = ReportCharges(evidence.spec)
    for rows in batches(evidence.rows):
        for found in audit.read(rows):
            totals.add(found)
            epsilons.read(found)
            charges.read(found)
    of_ledger = [*epsilons.checks(), *charges.checks(evidence.report)]
    report = evidence.report
    if report is None:
        return of_ledger, []
    spec: ExperimentSpec | None = None
    with suppress(InvalidInputError):
        spec = parse_admitted(evidence.spec)
    read = RunEvidence(evidence=evidence, report=report, audit=audit, totals=totals, spec=spec)
    signed = signature_check(report, keyring, with_checkpoints=bool(evidence.checkpoints))
    return of_ledger, [signed, *report_checks(read)]


def _read_declared(
    evidence: Evidence, audit: LedgerAudit, keyring: Keyring
) -> tuple[list[Check], list[Check]]:
    entries = DeclaredEntries(evidence.spec, evidence.names)
    for rows in batches(evidence.rows):
        for found in audit.read(rows):
            for entry in found.entries():
                entries.read(entry)
    of_ledger, report = list(entries.checks(evidence, audit)), evidence.report
    if report is None:
        return of_ledger, []
    signed = signature_check(report, keyring, with_checkpoints=bool(evidence.checkpoints))
    return of_ledger, [signed]


def verdict_of(checks: Sequence[Check], *, believed: bool) -> Verdict:
    """What follows from all checks; `believed`: whether every signer is trusted."""
    if any(one.outcome == "fail" for one in checks):
        return ALTERED
    complete = all(one.outcome == "pass" for one in checks)
    return VALID if complete and believed else UNTRUSTED


def _signers(evidence: Evidence, checkpoints: ReadCheckpoints) -> list[str | None]:
    """The keys that the result depends on; None for a signature that is missing."""
    signers = [checkpoints.newest_signer]
    if evidence.report is not None:
        key_id = value_at(evidence.report, "integrity", "key_id")
        signers.append(key_id if isinstance(key_id, str) else None)
    return signers


def leaked_keys(evidence: Evidence, signers: Sequence[str | None]) -> Iterator[Check]:
    """What a leaked key signed proves nothing, whatever time is stated."""
    for key_id in sorted({one for one in signers if one in evidence.compromised and one}):
        yield unchecked(
            "keys.compromised",
            f"the service says that the key {key_id} may be in other hands since "
            f"{evidence.compromised[key_id]}: they could have signed this, with any time",
        )


def _parts(evidence: Evidence) -> Iterator[Check]:
    for fault in evidence.faults:
        yield check(fault.part, False, good="", bad=f"{fault.part} {fault.message}")


def _ledger_checks(audit: LedgerAudit, *, erased: bool) -> Iterator[Check]:
    if audit.unreadable.count:
        yield check("ledger.rows", False, good="", bad=f"unreadable: {audit.unreadable}")
    yield check(
        "ledger.order",
        not audit.disordered.count,
        good="the entries stand in the order of rounds, each once",
        bad=f"out of order, or twice: {audit.disordered}",
    )
    if not erased:
        yield check(
            "ledger.digests",
            not audit.altered.count,
            good="every entry has the digest that was stored with it",
            bad=f"altered: {audit.altered}",
        )
    yield check(
        "ledger.chain",
        audit.unchained is None,
        good="every entry follows from those before it",
        bad=f"the chain breaks at {audit.unchained}: that row was altered, or one before it "
        "was removed, added or moved",
    )
    yield check(
        "ledger.releases",
        not audit.miscounted.count,
        good="every subject's running count is the number of its releases",
        bad=f"wrong running counts: {audit.miscounted}",
    )
