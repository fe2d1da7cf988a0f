"""Verify what an experiment left: ledger, checkpoints, report and signatures, all recomputed.

Pure functions over evidence from any source: a database, or an offline bundle.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.ed25519 import Keyring, PublicKey
from fedaudit.ledger.evidence import Evidence
from fedaudit.reports.document.checks import Check, check, value_at
from fedaudit.reports.verification.checkpoint_checks import (
    ReadCheckpoints,
    checkpoint_checks,
    read_checkpoints,
)
from fedaudit.reports.verification.entry_epsilons import EntryEpsilons
from fedaudit.reports.verification.recompute import LedgerTotals
from fedaudit.reports.verification.report_charges import ReportCharges
from fedaudit.reports.verification.report_checks import report_checks

Verdict = Literal["valid", "consistent, signer untrusted", "altered"]
VALID: Verdict = "valid"
UNTRUSTED: Verdict = "consistent, signer untrusted"
ALTERED: Verdict = "altered"


@dataclass(frozen=True)
class Verification:
    """The findings of a verification."""

    experiment_id: str
    verdict: Verdict
    """`valid`: every check passed under a trusted key. `altered`: one failed."""
    checks: Sequence[Check]
    entries: int
    """Ledger entries that were read."""
    ledger_hash: str
    """Recomputed, as is `chain_head`."""
    chain_head: str
    signers: Sequence[str]
    """The ids of the keys that the report and the newest checkpoint name."""


def verify(
    evidence: Evidence, *, trusted: Sequence[PublicKey] = (), more: Iterable[Check] = ()
) -> Verification:
    """Check everything; the rows are read once, in order.

    `trusted`: the keys whose signatures are believed. Without any, evidence that agrees is
    *consistent*: anyone able to change all of it could also have signed all of it. `more`:
    additional checks that only the evidence's keeper can make.
    """
    keyring = Keyring(trusted=trusted, carried=evidence.keys)
    checkpoints = read_checkpoints(evidence.checkpoints)
    audit = LedgerAudit(evidence.experiment_id, evidence.names, watch=checkpoints.counts)
    best = value_at(evidence.report, "utility", "best_round")
    totals = LedgerTotals(len(evidence.names), best_round=best if type(best) is int else 0)
    epsilons = EntryEpsilons(evidence.spec, evidence.names)
    charges = ReportCharges(evidence.spec)
    for row in evidence.rows:
        entry = audit.read(row)
        if entry is not None:
            totals.add(entry)
            epsilons.read(entry)
            charges.read(entry)
    checks = [*_parts(evidence), *_ledger_checks(audit), *epsilons.checks()]
    checks += charges.checks(evidence.report)
    checks += checkpoint_checks(evidence, checkpoints, audit, keyring)
    if evidence.report is not None:
        checks += report_checks(evidence, evidence.report, audit, totals, keyring)
    checks += more
    signers = _signers(evidence, checkpoints)
    believed = bool(signers) and all(key is not None and keyring.trusts(key) for key in signers)
    return Verification(
        experiment_id=evidence.experiment_id,
        verdict=_verdict(checks, believed=believed),
        checks=checks,
        entries=audit.entries,
        ledger_hash=audit.ledger_hash,
        chain_head=audit.head.hex(),
        signers=sorted({key for key in signers if key is not None}),
    )


def _verdict(checks: Sequence[Check], *, believed: bool) -> Verdict:
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


def _parts(evidence: Evidence) -> Iterator[Check]:
    for fault in evidence.faults:
        yield check(fault.part, False, good="", bad=f"{fault.part} {fault.message}")


def _ledger_checks(audit: LedgerAudit) -> Iterator[Check]:
    if audit.unreadable.count:
        yield check("ledger.rows", False, good="", bad=f"unreadable: {audit.unreadable}")
    yield check(
        "ledger.order",
        not audit.disordered.count,
        good="the entries stand in the order of rounds, each once",
        bad=f"out of order, or twice: {audit.disordered}",
    )
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
