"""Whether a run is in the log of the runs on its data, and the log goes on from an earlier head."""

from collections.abc import Iterator, Sequence
from typing import Any

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.run_log import BEGUN, LogEntry, LogHead, LogTree, begun_digest
from fedaudit.ledger.statements import Keyring, link_of
from fedaudit.reports.checks import Check, canonical_hash, check, unchecked, value_at
from fedaudit.reports.verification.checkpoints import ReadCheckpoints


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
        yield check("log.checkpoint", False, good="", bad=f"the log of runs {error}")
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
        return check("log.earlier", False, good="", bad=f"the earlier head {error}")
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
