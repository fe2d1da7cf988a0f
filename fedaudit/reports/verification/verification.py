"""Verify what an experiment or an audit left: ledger, checkpoints, report and signatures, all
recomputed, and the folder of a dossier.

Pure functions over evidence from any source, a database or an offline bundle; only a dossier's
folder is read.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import CLAIMS_FILE, Evidence, Fault, NotABundleError, read_keys
from fedaudit.ledger.claim_bundles import claim_envelope, claim_of
from fedaudit.ledger.columns import batches
from fedaudit.ledger.run_log import BEGUN, LogEntry, LogHead, LogTree, begun_digest
from fedaudit.ledger.statements import Checkpoint, ErasedNames, Keyring, PublicKey, SignOff, link_of
from fedaudit.reports.audit_report import NOT_VERIFIED, audit_checks
from fedaudit.reports.checks import MALFORMED, Check, answer_check, value_at
from fedaudit.reports.dossier import dossier
from fedaudit.reports.report import LaterStatement, gate_checks, report_checks
from fedaudit.reports.sections.held_out_privacy import ReportCharges
from fedaudit.reports.sections.material import LedgerTotals, RunEvidence
from fedaudit.reports.sections.provenance import signature_check
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verification.checkpoints import (
    ERASED,
    ReadCheckpoints,
    Signed,
    checkpoint_checks,
    claim_checks,
    erasure_checks,
    evidence_checks,
    later_checks,
    sign_off_checks,
)
from fedaudit.reports.verification.entries import DeclaredEntries, EntryEpsilons, is_declared
from fedaudit.spec.audits import is_audit
from fedaudit.spec.canonical import canonical_hash
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
    """What people stated of the report, where it can be read; the checks show which of it is
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
        # The report of an audit of predictions has no ledger: one signature decides.
        checks = [*faulty_parts(evidence), *audit_checks(evidence, keyring), *more]
        checks += unlogged(earlier)
        found = concluded(evidence, checks, keyring, signers=[report_signer(evidence)])
        return replace(found, subject="audit", beyond=NOT_VERIFIED)
    checkpoints = ReadCheckpoints.read(evidence.checkpoints, Checkpoint.of, what="checkpoint {}")
    erased = [] if evidence.erased is None else [evidence.erased]
    erasure = Signed.read(erased, ErasedNames.of, what=ERASED)
    audit = LedgerAudit(
        evidence.experiment_id,
        evidence.names,
        watch={one.entries for one in checkpoints.items},
        salt=evidence.salt,
        erased=evidence.erased is not None,
    )
    declared = is_declared(evidence.spec)
    read = _read_declared if declared else _read_run
    of_ledger, of_report = read(evidence, audit)
    checks = [*faulty_parts(evidence), *_ledger_checks(audit, evidence)]
    checks += erasure_checks(evidence, erasure, audit, keyring)
    checks += of_ledger
    checks += checkpoint_checks(evidence, checkpoints, audit, keyring, erasure=erasure)
    if evidence.report is not None:
        with_checkpoints = bool(evidence.checkpoints)
        checks.append(signature_check(evidence.report, keyring, with_checkpoints=with_checkpoints))
    checks += of_report
    sign_offs, later = _read_chained(evidence)
    checks += sign_off_checks(evidence, sign_offs, keyring, later=later)
    checks += later_checks(evidence, later, keyring)
    checks += evidence_checks(evidence.report, later)
    checks += log_checks(evidence, checkpoints, keyring, earlier=earlier)
    claims = _read_claims(evidence)
    checks += claim_checks(evidence, claims, keyring)
    checks += more
    signers = [checkpoints.newest_signer, *sign_offs.signers, *later.signers]
    signers += [] if evidence.report is None else [report_signer(evidence)]
    signers += [*erasure.signers, *log_signers(evidence, keyring)]
    return replace(
        concluded(evidence, checks, keyring, signers=signers, of_claims=claims.signers),
        entries=audit.entries,
        ledger_hash=audit.ledger_hash,
        chain_head=audit.head.hex(),
        sign_offs=sign_offs.items,
        later_attacks=later.items,
        subject="ledger" if declared else "experiment",
        beyond=_AS_DECLARED if declared else (),
    )


def _read_chained(evidence: Evidence) -> tuple[Signed[SignOff], Signed[LaterStatement]]:
    later = Signed.read(evidence.later_attacks, LaterStatement.of, what=LaterStatement.CALLED)
    return Signed.read(evidence.sign_offs, SignOff.of, what=SignOff.CALLED), later


def _read_run(evidence: Evidence, audit: LedgerAudit) -> tuple[list[Check], list[Check]]:
    """The checks of a run's entries, which are read here, and of its report."""
    best = value_at(evidence.report, "utility", "best_round")
    totals = LedgerTotals(len(evidence.names), best_round=best if type(best) is int else 0)
    spec: ExperimentSpec | None = None
    with suppress(InvalidInputError):
        spec = parse_admitted(evidence.spec)
    epsilons = EntryEpsilons(spec, evidence.names)
    charges = ReportCharges(spec)
    for rows in batches(evidence.rows):
        for found in audit.read(rows):
            totals.add(found)
            epsilons.read(found)
            charges.read(found)
    of_ledger, report = [*epsilons.checks(), *charges.checks(evidence.report)], evidence.report
    if report is None:
        return of_ledger, []
    read = RunEvidence(evidence=evidence, report=report, audit=audit, totals=totals, spec=spec)
    return of_ledger, list(report_checks(read))


def _read_declared(evidence: Evidence, audit: LedgerAudit) -> tuple[list[Check], list[Check]]:
    entries = DeclaredEntries(evidence.spec, evidence.names)
    for rows in batches(evidence.rows):
        for found in audit.read(rows):
            for entry in found.each():
                entries.read(entry)
    return list(entries.checks(evidence, audit)), []


def concluded(
    evidence: Evidence,
    checks: Sequence[Check],
    keyring: Keyring,
    *,
    signers: Sequence[str | None],
    of_claims: Collection[str] = (),
) -> Verification:
    """The result of all checks. `signers`: the keys that it depends on, None for a missing
    signature; `of_claims`: those for which the report's signature vouches."""
    # What a leaked key signed proves nothing, whatever time is stated.
    leaked = {one for one in (*signers, *of_claims) if one and one in evidence.compromised}
    every = [
        *checks,
        *(
            Check.unchecked(
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
        yield Check.failed(fault.part, f"{fault.part} {fault.message}")


def _ledger_checks(audit: LedgerAudit, evidence: Evidence) -> Iterator[Check]:
    if audit.unreadable.count:
        yield Check.failed("ledger.rows", f"unreadable: {audit.unreadable}")
    yield Check.of(
        "ledger.order",
        not audit.disordered.count,
        good="the entries stand in the order of rounds, each once",
        bad=f"out of order, or twice: {audit.disordered}",
    )
    if evidence.erased is None:
        yield Check.of(
            "ledger.digests",
            not audit.altered.count,
            good="every entry has the digest that was stored with it",
            bad=f"altered: {audit.altered}",
        )
    yield Check.of(
        "ledger.chain",
        audit.unchained is None,
        good="every entry follows from those before it",
        bad=f"the chain breaks at {audit.unchained}: that row was altered, or one before it "
        "was removed, added or moved",
    )
    yield Check.of(
        "ledger.releases",
        not audit.miscounted.count,
        good="every subject's running count is the number of its releases",
        bad=f"wrong running counts: {audit.miscounted}",
    )


def read_log(evidence: Evidence) -> list[LogEntry]:
    """The entries that came with the evidence. Raises ValueError where they have another form."""
    try:
        found = [LogEntry(**one) for one in evidence.log["entries"]]
        if [asdict(one) for one in found] == list(evidence.log["entries"]):
            return found
    except (TypeError, KeyError, AttributeError):
        pass
    raise ValueError("has another form")


def log_checks(
    evidence: Evidence, found: ReadCheckpoints, keyring: Keyring, *, earlier: Sequence[Any]
) -> Iterator[Check]:
    """The checks, in the order of the report; for a run that was never entered, whether a head is
    asked for. `earlier`: notes that were kept elsewhere."""
    stated = value_at(evidence.report, "integrity", "run")
    if evidence.log is None and stated is None:
        yield from unlogged(earlier)
        return
    try:
        entries = read_log(evidence)
        head, _ = LogHead.read(evidence.log.get("checkpoint"), keyring)
    except (ValueError, AttributeError) as error:
        yield Check.failed("log.checkpoint", f"the log of runs {error}")
        return
    tree = LogTree.of(one.encoded() for one in entries)
    yield Check.of(
        "log.checkpoint",
        (head.size, head.root) == (tree.size, tree.root),
        good=f"the head of the log is the signed one, with {head.size} entries",
        bad="the entries of the log are not those whose head was signed",
    )
    gates = canonical_hash(value_at(evidence.spec, "gates"))
    spec = canonical_hash(evidence.spec)
    digest = begun_digest(evidence.experiment_id, spec_hash=spec, gates=gates)
    own = [one.run for one in entries if (one.kind, one.digest) == (BEGUN, digest)]
    yield _begun(entries, own, stated)
    yield _checkpoints(entries, own[0] if own else 0, found)
    for note in earlier:
        yield _continued(entries, head, note, keyring)


def unlogged(earlier: Sequence[Any]) -> Iterator[Check]:
    """The check of what is in no log, as audits and runs that began before there was one."""
    if earlier:
        yield Check.unchecked(
            "log.earlier", "this is in no log of runs, which could go on from the head"
        )


def log_signers(evidence: Evidence, keyring: Keyring) -> list[str | None]:
    """The key that the newest head depends on."""
    if evidence.log is None:
        return []
    try:
        return [LogHead.read(evidence.log["checkpoint"], keyring)[1].key_id]
    except (ValueError, KeyError, TypeError):
        return [None]


def _begun(entries: Sequence[LogEntry], own: Sequence[int], stated: object) -> Check:
    """Whether the run was begun once; `own`: its numbers in the log."""
    runs = [one.run for one in entries if one.kind == BEGUN]
    numbered = runs == list(range(1, len(runs) + 1))
    number = own[0] if own else 0
    bad = "the run, with this spec and these gates, is not in the log, or runs are missing there"
    return Check.of(
        "log.begun",
        len(own) == 1 and numbered and stated in (None, number),
        good=f"run {number} of {len(runs)} in the log of its data; spec and gates were entered "
        "before its first round",
        bad="the run was begun more than once" if len(own) > 1 else bad,
    )


def _checkpoints(entries: Sequence[LogEntry], run: int, found: ReadCheckpoints) -> Check:
    """The log has every checkpoint that was ever signed of the run, behind its beginning."""
    logged = [(one.kind, one.digest) for one in entries if one.run == run]
    here = [
        (one.status, link_of(made)) for one, made in zip(found.items, found.envelopes, strict=True)
    ]
    missing = len([one for one in logged[1:] if one not in here])
    return Check.of(
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
        return Check.failed("log.earlier", f"the earlier head {error}")
    if before.origin != head.origin:
        # A mistake of the caller's, or a log that was begun anew: never valid, and no proof.
        return Check.unchecked(
            "log.earlier", f"the earlier head is of another log: {before.origin}"
        )
    tree = LogTree.of(one.encoded() for one in entries[: before.size])
    return Check.of(
        "log.earlier",
        (before.size, before.root) == (tree.size, tree.root),
        good=f"the log goes on from the {before.size} entries that it had earlier",
        bad=f"the log does not go on from the {before.size} entries that it had: runs were "
        "deleted, set back or begun again"
        if before.size <= len(entries)
        else f"the log has {len(entries)} entries, and had {before.size}: it was set back, unless "
        "this bundle is older",
    )


_MAX_BYTES = 1 << 28
_NOT_COMPARED = (
    f"{dossier.PDF} is a print of {dossier.PAGE}, and its words are not read: print the page again "
    "where in doubt",
    "the report's privacy figures, which follow from the ledger: the experiment's bundle has it",
)
REWORDED = frozenset({"dossier.words", "dossier.page"})
"""Checks of what is not signed itself, and follows from what is."""
_FOLLOWING = (
    *(("experiment_id",), ("name",), ("answer", "outcome")),
    *(("criteria", "output_package"), ("criteria", "thresholds")),
)
"""Paths of a dossier that no version words otherwise."""


def verify_folder(folder: Path, *, trusted: Sequence[PublicKey] = ()) -> Verification:
    """Check a dossier's folder: the report's signature, every hash that the dossier names, and what
    it states. Raises NotABundleError where it is no such folder."""
    files = {
        name: (folder / name).read_bytes()
        for name in (*dossier.READERS, dossier.PAGE)
        if (folder / name).is_file() and (folder / name).stat().st_size <= _MAX_BYTES
    }
    if dossier.DOCUMENT not in files:
        raise NotABundleError(f"has no {dossier.DOCUMENT}")
    faults: list[Fault] = []
    parsed = {name: _json(name, files, faults) for name in dossier.READERS if name in files}
    document, report = parsed[dossier.DOCUMENT], parsed.get(dossier.REPORT_FILE)
    keys, compromised = read_keys(_listed(parsed.get(dossier.KEYS_FILE)), faults)
    evidence = Evidence(
        experiment_id=str(value_at(document, "experiment_id")),
        spec=value_at(report, "spec"),
        report=report if isinstance(report, dict) else {},
        sign_offs=_listed(parsed.get(dossier.SIGN_OFFS_FILE)),
        later_attacks=_listed(parsed.get(dossier.LATER_FILE)),
        claims=_listed(parsed.get(CLAIMS_FILE)),
        keys=keys,
        compromised=compromised,
        faults=faults,
    )
    keyring = Keyring(trusted=trusted, carried=keys)
    sign_offs, later = _read_chained(evidence)
    claims = _read_claims(evidence)
    checks = [
        *faulty_parts(evidence),
        *_report_checks(evidence, keyring),
        *_bound(document, parsed, folder),
        *_made_anew(document, evidence, files),
        *sign_off_checks(evidence, sign_offs, keyring, later=later),
        *later_checks(evidence, later, keyring),
        *(claim_checks(evidence, claims, keyring) if evidence.claims else ()),
    ]
    signers = [report_signer(evidence), *sign_offs.signers, *later.signers]
    found = concluded(evidence, checks, keyring, signers=signers, of_claims=claims.signers)
    return replace(found, subject="dossier", beyond=_NOT_COMPARED)


def _read_claims(evidence: Evidence) -> Signed[dict[str, Any]]:
    return Signed.read(evidence.claims, claim_of, what="claim {}", opened=claim_envelope)


def _report_checks(evidence: Evidence, keyring: Keyring) -> Iterator[Check]:
    report = evidence.report or {}
    yield signature_check(report, keyring, with_checkpoints=False)
    with suppress(InvalidInputError):
        yield from gate_checks(parse_admitted(evidence.spec).gates, report)
    yield answer_check(report, answer_of)


def _bound(document: Any, parsed: Mapping[str, Any], folder: Path) -> Iterator[Check]:
    """Whether each hash in the dossier is that of the thing; a model's file where it is there."""
    model = folder / dossier.MODEL_FILE
    for one in _listed(value_at(document, "evidence")):
        name, file, pointer = (value_at(one, part) for part in ("name", "file", "pointer"))
        if file == dossier.MODEL_FILE and not os.path.lexists(model):
            continue
        value = parsed.get(str(file))
        found = canonical_hash(value if pointer is None else value_at(value, str(pointer)[1:]))
        if file == dossier.MODEL_FILE:
            found = ""
            if model.is_file():
                with model.open("rb") as data:
                    found = hashlib.file_digest(data, "sha256").hexdigest()
        where = f"{file}{'' if pointer is None else f'#{pointer}'}"
        yield Check.of(
            f"dossier.{str(name)[:40]}",
            found == value_at(one, "sha256"),
            good=f"{where} has the SHA-256 that the dossier names",
            bad=f"{where} is not what the dossier names by its SHA-256: one of them was altered",
        )


def _made_anew(document: Any, evidence: Evidence, files: Mapping[str, bytes]) -> Iterator[Check]:
    """Whether the dossier is what the evidence gives, and in the same words."""
    try:
        again = dossier.dossier_files(evidence, printed=None)
        ways = [dossier.dossier(evidence, anew=anew) for anew in (False, True)]
    except MALFORMED:
        yield Check.failed("dossier.follows", "report, sign-offs or later attacks cannot be read")
        return
    # Gates that were judged after the report have the words of the version that judged them.
    read = _wordless if evidence.later_attacks else value_at
    unlike = (
        [path for path in _FOLLOWING if read(document, *path) != read(one, *path)] for one in ways
    )
    wrong = [".".join(path) for path in min(unlike, key=len)]
    yield Check.of(
        "dossier.follows",
        not wrong,
        good="answer, thresholds and hashes follow from report, sign-offs and later attacks",
        bad=f"does not follow from report, sign-offs and later attacks: {', '.join(wrong)}",
    )
    for name, file in (("dossier.words", dossier.DOCUMENT), ("dossier.page", dossier.PAGE)):
        if files.get(file) == again[file]:
            yield Check(name, "pass", f"{file} is what is made of the evidence here")
        else:
            # Another build words and draws alike evidence otherwise, which is no alteration.
            how = f"{file} is not what is made of the evidence here: another build of fedaudit "
            yield Check.unchecked(name, f"{how}made it, or it was altered; make the dossier anew")


def _wordless(document: Any, *path: str) -> Any:
    found = value_at(document, *path)
    listed = isinstance(found, list)
    return [isinstance(one, dict) and {**one, "reason": ""} for one in found] if listed else found


def _json(name: str, files: Mapping[str, bytes], faults: list[Fault]) -> Any:
    try:
        return dossier.READERS[name](files[name])
    except ValueError as error:
        faults.append(Fault(name, str(error)))
        return None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
