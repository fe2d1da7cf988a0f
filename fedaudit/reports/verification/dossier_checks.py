"""The folder of a dossier: what it states, beside the things that it is bound to."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedaudit.ledger.bundle import Evidence, Fault, NotABundleError, read_keys
from fedaudit.ledger.statements import Keyring, PublicKey, SignOff
from fedaudit.reports.checks import (
    MALFORMED,
    Check,
    answer_check,
    canonical_hash,
    check,
    failed,
    passed,
    unchecked,
    value_at,
)
from fedaudit.reports.dossier.dossier import (
    DOCUMENT,
    KEYS_FILE,
    LATER_FILE,
    MODEL_FILE,
    PAGE,
    PDF,
    REPORT_FILE,
    SIGN_OFFS_FILE,
    dossier_files,
)
from fedaudit.reports.later import LaterStatement
from fedaudit.reports.report import gate_checks
from fedaudit.reports.sections.provenance import signature_check
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verification.checkpoints import later_checks, read_chained, sign_off_checks
from fedaudit.reports.verification.verification import (
    Verification,
    concluded,
    faulty_parts,
    report_signer,
)
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted

_MAX_BYTES = 1 << 28
_NOT_COMPARED = (
    f"{PDF} is a print of {PAGE}, and its words are not read: print the page again where in doubt",
    "the report's privacy figures, which follow from the ledger: the experiment's bundle has it",
)
_JSON = (DOCUMENT, REPORT_FILE, SIGN_OFFS_FILE, LATER_FILE, KEYS_FILE)
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
        for name in (*_JSON, PAGE, MODEL_FILE)
        if (folder / name).is_file() and (folder / name).stat().st_size <= _MAX_BYTES
    }
    if DOCUMENT not in files:
        raise NotABundleError(f"has no {DOCUMENT}")
    faults: list[Fault] = []
    parsed = {name: _json(name, files, faults) for name in _JSON if name in files}
    document, report = parsed[DOCUMENT], parsed.get(REPORT_FILE)
    keys, compromised = read_keys(_listed(parsed.get(KEYS_FILE)), faults)
    evidence = Evidence(
        experiment_id=str(value_at(document, "experiment_id")),
        spec=value_at(report, "spec"),
        names=(),
        report=report if isinstance(report, dict) else {},
        checkpoints=(),
        sign_offs=_listed(parsed.get(SIGN_OFFS_FILE)),
        later_attacks=_listed(parsed.get(LATER_FILE)),
        keys=keys,
        compromised=compromised,
        faults=faults,
    )
    keyring = Keyring(trusted=trusted, carried=keys)
    sign_offs = read_chained(evidence.sign_offs, SignOff)
    later = read_chained(evidence.later_attacks, LaterStatement)
    checks = [
        *faulty_parts(evidence),
        *_report_checks(evidence, keyring),
        *_bound(document, parsed, files),
        *_made_anew(document, evidence, files),
        *sign_off_checks(evidence, sign_offs, keyring, later=later),
        *later_checks(evidence, later, keyring),
    ]
    signers = [report_signer(evidence), *sign_offs.signers, *later.signers]
    found = concluded(evidence, checks, keyring, signers=signers)
    return replace(found, subject="dossier", beyond=_NOT_COMPARED)


def _report_checks(evidence: Evidence, keyring: Keyring) -> Iterator[Check]:
    report = evidence.report or {}
    yield signature_check(report, keyring, with_checkpoints=False)
    with suppress(InvalidInputError):
        yield from gate_checks(parse_admitted(evidence.spec).gates, report)
    yield answer_check(report, answer_of)


def _bound(document: Any, parsed: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[Check]:
    """Whether each hash in the dossier is that of the thing; a model's file where it is there."""
    for one in _listed(value_at(document, "evidence")):
        name, file, pointer = (value_at(one, part) for part in ("name", "file", "pointer"))
        if file == MODEL_FILE and MODEL_FILE not in files:
            continue
        value = parsed.get(str(file))
        found = canonical_hash(value if pointer is None else value_at(value, str(pointer)[1:]))
        if file == MODEL_FILE:
            found = hashlib.sha256(files[MODEL_FILE]).hexdigest()
        where = f"{file}{'' if pointer is None else f'#{pointer}'}"
        yield check(
            f"dossier.{str(name)[:40]}",
            found == value_at(one, "sha256"),
            good=f"{where} has the SHA-256 that the dossier names",
            bad=f"{where} is not what the dossier names by its SHA-256: one of them was altered",
        )


def _made_anew(document: Any, evidence: Evidence, files: Mapping[str, bytes]) -> Iterator[Check]:
    """Whether the dossier is what the evidence gives, and in the same words."""
    try:
        again = dossier_files(evidence, printed=None)
    except MALFORMED:
        yield failed("dossier.follows", "report, sign-offs or later attacks cannot be read")
        return
    made = json.loads(again[DOCUMENT])
    unlike = (path for path in _FOLLOWING if value_at(document, *path) != value_at(made, *path))
    wrong = [".".join(path) for path in unlike]
    yield check(
        "dossier.follows",
        not wrong,
        good="answer, thresholds and hashes follow from report, sign-offs and later attacks",
        bad=f"does not follow from report, sign-offs and later attacks: {', '.join(wrong)}",
    )
    for name, file in (("dossier.words", DOCUMENT), ("dossier.page", PAGE)):
        if files.get(file) == again[file]:
            yield passed(name, f"{file} is what is made of the evidence here")
        else:
            # Another build words and draws alike evidence otherwise, which is no alteration.
            how = f"{file} is not what is made of the evidence here: another build of fedaudit "
            yield unchecked(name, f"{how}made it, or it was altered; make the dossier anew")


def _json(name: str, files: Mapping[str, bytes], faults: list[Fault]) -> Any:
    try:
        value = json.loads(files[name])
        if canonical_json(value) == files[name]:
            return value
    except (ValueError, RecursionError):
        pass
    faults.append(Fault(name, "is no JSON in canonical form (RFC 8785)"))
    return None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
