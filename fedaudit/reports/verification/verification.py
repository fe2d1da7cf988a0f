"""Verify what an experiment or an audit left: ledger, checkpoints, report and signatures, all
recomputed.

Pure functions over evidence from any source: a database, or an offline bundle.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import batches
from fedaudit.ledger.run_log import BEGUN, LogEntry, LogHead, LogTree, begun_digest
from fedaudit.ledger.statements import Checkpoint, Keyring, PublicKey, SignOff, link_of
from fedaudit.reports.audit_report import NOT_VERIFIED, audit_checks
from fedaudit.reports.checks import Check, canonical_hash, check, failed, unchecked, value_at
from fedaudit.reports.later import LaterStatement
from fedaudit.reports.ledger_totals import LedgerTotals, RunEvidence
from fedaudit.reports.report import report_checks
from fedaudit.reports.sections.held_out_privacy import ReportCharges
from fedaudit.reports.sections.provenance import signature_check
from fedaudit.reports.verification.checkpoints import (
    ReadCheckpoints,
    checkpoint_checks,
    claim_checks,
    erasure_checks,
    evidence_checks,
    later_checks,
    read_chained,
    read_claims,
    read_erasure,
    sign_off_checks,
)
from fedaudit.reports.verification.declared_checks import DeclaredEntries, is_declared
from fedaudit.reports.verification.entries import EntryEpsilons
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
    checks = [*faulty_parts(evidence), *_ledger_checks(audit, erased=erasure is not None)]
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
    signers = [checkpoints.newest_signer, *sign_offs.signers, *later.signers]
    signers += [] if evidence.report is None else [report_signer(evidence)]
    signers += [] if erasure is None else erasure.signers
    signers += log_signers(evidence, keyring)
    return replace(
        concluded(evidence, checks, keyring, signers=signers, of_claims=claims.signers),
        entries=audit.entries,
        ledger_hash=audit.ledger_hash,
        chain_head=audit.head.hex(),
        sign_offs=[one for one, _ in sign_offs.items],
        later_attacks=[one for one, _ in later.items],
        subject="ledger" if declared else "experiment",
        beyond=_AS_DECLARED if declared else (),
    )


def _verify_audit(evidence: Evidence, keyring: Keyring, more: Iterable[Check]) -> Verification:
    """The report of an audit of predictions has no ledger: one signature decides."""
    checks = [*faulty_parts(evidence), *audit_checks(evidence, keyring), *more]
    found = concluded(evidence, checks, keyring, signers=[report_signer(evidence)])
    return replace(found, subject="audit", beyond=NOT_VERIFIED)


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


def concluded(
    evidence: Evidence,
    checks: Sequence[Check],
    keyring: Keyring,
    *,
    signers: Sequence[str | None],
    of_claims: Collection[str] = (),
) -> Verification:
    """What follows from all checks. `signers`: the keys that it depends on, None for a signature
    that is missing; `of_claims`: those for which the report's signature vouches."""
    # What a leaked key signed proves nothing, whatever time is stated.
    leaked = {one for one in (*signers, *of_claims) if one and one in evidence.compromised}
    every = [
        *checks,
        *(
            unchecked(
                "keys.compromised",
                f"the service says that the key {key_id} may be in other hands since "
                f"{evidence.compromised[key_id]}: they could have signed this, with any time",
            )
            for key_id in sorted(leaked)
        ),
    ]
    outcomes = {one.outcome for one in every}
    believed = bool(signers) and all(key is not None and keyring.trusts(key) for key in signers)
    verdict = VALID if believed and outcomes <= {"pass"} else UNTRUSTED
    return Verification(
        experiment_id=evidence.experiment_id,
        verdict=ALTERED if "fail" in outcomes else verdict,
        checks=every,
        signers=sorted({key for key in signers if key is not None}),
    )


def report_signer(evidence: Evidence) -> str | None:
    """The key that the report names; None where it names none."""
    key_id = value_at(evidence.report, "integrity", "key_id")
    return key_id if isinstance(key_id, str) else None


def faulty_parts(evidence: Evidence) -> Iterator[Check]:
    """What of the evidence could not be read."""
    for fault in evidence.faults:
        yield failed(fault.part, f"{fault.part} {fault.message}")


def _ledger_checks(audit: LedgerAudit, *, erased: bool) -> Iterator[Check]:
    if audit.unreadable.count:
        yield failed("ledger.rows", f"unreadable: {audit.unreadable}")
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


def read_log(evidence: Evidence) -> list[LogEntry]:
    """The entries that came with the evidence. Raises ValueError where they have another form."""
    try:
        found = [LogEntry(**one) for one in evidence.log["entries"]]
        if [one.fields() for one in found] == list(evidence.log["entries"]):
            return found
    except (TypeError, KeyError, AttributeError):
        pass
    raise ValueError("has another form")


def log_checks(
    evidence: Evidence, found: ReadCheckpoints, keyring: Keyring, *, earlier: Sequence[Any]
) -> Iterator[Check]:
    """The checks, in the order in which they are reported; of a run that was never entered, whether
    a head is asked for. `earlier`: notes that were kept elsewhere."""
    stated = value_at(evidence.report, "integrity", "run")
    if evidence.log is None and stated is None:
        yield from unlogged(earlier)
        return
    try:
        entries = read_log(evidence)
        head, _ = LogHead.read(evidence.log.get("checkpoint"), keyring)
    except (ValueError, AttributeError) as error:
        yield failed("log.checkpoint", f"the log of runs {error}")
        return
    tree = LogTree.of(one.encoded() for one in entries)
    yield check(
        "log.checkpoint",
        (head.size, head.root) == (tree.size, tree.root),
        good=f"the head of the log is the signed one, with {head.size} entries",
        bad="the entries of the log are not those whose head was signed",
    )
    yield _begun(evidence, entries, stated)
    yield _checkpoints(evidence, entries, found)
    for note in earlier:
        yield _continued(entries, head, note, keyring)


def unlogged(earlier: Sequence[Any]) -> Iterator[Check]:
    """The check of what is in no log, as audits and runs that began before there was one."""
    if earlier:
        yield unchecked("log.earlier", "this is in no log of runs, which could go on from the head")


def log_signers(evidence: Evidence, keyring: Keyring) -> list[str | None]:
    """The key that the newest head depends on."""
    if evidence.log is None:
        return []
    try:
        return [LogHead.read(evidence.log["checkpoint"], keyring)[1].key_id]
    except (ValueError, KeyError, TypeError):
        return [None]


def _own_run(evidence: Evidence, entries: Sequence[LogEntry]) -> list[LogEntry]:
    """The entries that begin this run: one."""
    gates = canonical_hash(value_at(evidence.spec, "gates"))
    spec = canonical_hash(evidence.spec)
    digest = begun_digest(evidence.experiment_id, spec_hash=spec, gates=gates)
    return [one for one in entries if (one.kind, one.digest) == (BEGUN, digest)]


def _begun(evidence: Evidence, entries: Sequence[LogEntry], stated: object) -> Check:
    own = _own_run(evidence, entries)
    runs = [one.run for one in entries if one.kind == BEGUN]
    numbered = runs == list(range(1, len(runs) + 1))
    number = own[0].run if own else 0
    bad = "the run was begun more than once" if len(own) > 1 else "the run, with this spec and "
    bad += "" if len(own) > 1 else "these gates, is not in the log, or runs are missing there"
    return check(
        "log.begun",
        len(own) == 1 and numbered and stated in (None, number),
        good=f"run {number} of {len(runs)} in the log of its data; spec and gates were entered "
        "before its first round",
        bad=bad,
    )


def _checkpoints(evidence: Evidence, entries: Sequence[LogEntry], found: ReadCheckpoints) -> Check:
    """The log has every checkpoint that was ever signed of the run, behind its beginning."""
    run = next((one.run for one in _own_run(evidence, entries)), 0)
    logged = [(one.kind, one.digest) for one in entries if one.run == run]
    here = [
        (one.status, link_of(made)) for one, made in zip(found.items, found.envelopes, strict=True)
    ]
    missing = len([one for one in logged[1:] if one not in here])
    return check(
        "log.checkpoints",
        [kind for kind, _ in logged[:1]] == [BEGUN] and logged[1:] == here,
        good=f"the log has every checkpoint of the run, {len(here)} in all, and no other",
        bad=f"{missing} signed checkpoints of the run are missing here: it was set back, or begun "
        "again"
        if missing
        else "the checkpoints are not those that were entered in the log, in their order",
    )


def _continued(entries: Sequence[LogEntry], head: LogHead, note: object, keyring: Keyring) -> Check:
    try:
        before, _ = LogHead.read(note, keyring)
    except ValueError as error:
        return failed("log.earlier", f"the earlier head {error}")
    if before.origin != head.origin:
        # A mistake of the caller's, or a log that was begun anew: never valid, and no proof.
        return unchecked("log.earlier", f"the earlier head is of another log: {before.origin}")
    tree = LogTree.of(one.encoded() for one in entries[: before.size])
    return check(
        "log.earlier",
        (before.size, before.root) == (tree.size, tree.root),
        good=f"the log goes on from the {before.size} entries that it had earlier",
        bad=f"the log does not go on from the {before.size} entries that it had: runs were "
        "deleted, set back or begun again"
        if before.size <= len(entries)
        else f"the log has {len(entries)} entries, and had {before.size}: it was set back, unless "
        "this bundle is older",
    )
