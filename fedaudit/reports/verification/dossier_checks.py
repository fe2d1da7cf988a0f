"""What a dossier states, beside the things that it is bound to; and the folder that holds both."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from fedaudit.ledger.bundle import Evidence, Fault, read_keys
from fedaudit.ledger.statements import ChainedSignOff, Keyring
from fedaudit.reports.checks import (
    Check,
    answer_check,
    canonical_hash,
    canonical_json,
    check,
    unchecked,
    value_at,
)
from fedaudit.reports.dossier.dossier import LATER_FILE, MODEL_FILE, REPORT_FILE, SIGN_OFFS_FILE
from fedaudit.reports.dossier.dossier_files import (
    DOCUMENT,
    KEYS_FILE,
    PAGE,
    PDF,
    SUMS,
    dossier_of,
    dossier_page,
    sums_of,
)
from fedaudit.reports.report import check_gates
from fedaudit.reports.sections.provenance import signature_check
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verification.checkpoints import (
    ReadSignOffs,
    later_checks,
    read_later,
    sign_off_checks,
)
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted
from fedaudit.version import __version__

_MAX_BYTES = 1 << 28
NOT_COMPARED = (
    f"{PDF} is a print of {PAGE}, and its words are not read: print the page again where in doubt",
    "the report's privacy figures, which follow from the ledger: the experiment's bundle has it",
)
_FOLLOWING = (
    *(("experiment_id",), ("name",), ("answer", "outcome")),
    *(("criteria", "output_package"), ("criteria", "thresholds")),
)
"""Paths of a dossier that no version words otherwise."""
_FILES = (DOCUMENT, REPORT_FILE, SIGN_OFFS_FILE, LATER_FILE, KEYS_FILE, PAGE, PDF, MODEL_FILE)


def dossier_checks(
    document: Any, evidence: Evidence, *, model: bytes | None = None
) -> Iterator[Check]:
    """Whether each hash in a dossier is that of the thing, and whether what it states follows from
    the evidence. `model`: the content of the model's file, where it is there."""
    values = {
        REPORT_FILE: evidence.report,
        SIGN_OFFS_FILE: list(evidence.sign_offs) or None,
        LATER_FILE: list(evidence.later_attacks) or None,
    }
    bound = value_at(document, "evidence")
    for one in bound if isinstance(bound, list) else []:
        name, file, pointer = (value_at(one, part) for part in ("name", "file", "pointer"))
        if file == MODEL_FILE:
            if model is None:
                continue
            found: str | None = hashlib.sha256(model).hexdigest()
        else:
            found = canonical_hash(_at(values.get(str(file)), pointer))
        where = f"{file}{'' if pointer is None else f'#{pointer}'}"
        yield check(
            f"dossier.{str(name)[:40]}",
            found is not None and found == value_at(one, "sha256"),
            good=f"{where} has the SHA-256 that the dossier names",
            bad=f"{where} is not what the dossier names by its SHA-256: one of them was altered",
        )
    yield from _following(document, evidence)


def _following(document: Any, evidence: Evidence) -> Iterator[Check]:
    """What a dossier states is what the evidence gives; its words only by the version that made
    it."""
    try:
        made = dossier_of(evidence)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        bad = "report, sign-offs or later attacks cannot be read"
        yield check("dossier.follows", False, good="", bad=bad)
        return
    wrong = [
        ".".join(path)
        for path in _FOLLOWING
        if canonical_hash(value_at(document, *path)) != canonical_hash(value_at(made, *path))
    ]
    yield check(
        "dossier.follows",
        not wrong,
        good="answer, thresholds and hashes follow from report, sign-offs and later attacks",
        bad=f"does not follow from report, sign-offs and later attacks: {', '.join(wrong)}",
    )
    if value_at(document, "made_with") != __version__:
        yield unchecked("dossier.words", f"another version than {__version__} made the dossier")
        return
    yield check(
        "dossier.words",
        canonical_hash(document) == canonical_hash(made),
        good="every sentence is the one that this version makes of the evidence",
        bad=f"some sentences are not those that fedaudit {__version__} makes of the evidence",
    )


def read_dossier(folder: Path) -> tuple[Any, Evidence, dict[str, bytes]]:
    """The document, the evidence beside it, and every file of a dossier's folder by name. Raises
    ValueError where it is no such folder."""
    files: dict[str, bytes] = {}
    for name in (*_FILES, SUMS):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_BYTES:
            files[name] = path.read_bytes()
    if DOCUMENT not in files:
        raise ValueError(f"has no {DOCUMENT}")
    faults: list[Fault] = []
    parsed = {name: _json(name, files, faults) for name in files if name.endswith(".json")}
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
    return document, evidence, files


def folder_checks(
    document: Any, evidence: Evidence, files: Mapping[str, bytes], keyring: Keyring
) -> tuple[list[Check], Sequence[str | None]]:
    """Every check of a dossier's folder, and the ids of the keys that signed what it rests on."""
    report = evidence.report or {}
    checks = [
        check(one.part, False, good="", bad=f"{one.part} {one.message}") for one in evidence.faults
    ]
    checks.append(signature_check(report, keyring, with_checkpoints=False))
    checks.append(
        check(
            "report.spec_hash",
            canonical_hash(evidence.spec) == value_at(report, "provenance", "spec_hash"),
            good="the spec in the report has the hash that the report states",
            bad="the spec in the report does not have the hash that the report states",
        )
    )
    try:
        checks.append(check_gates(parse_admitted(evidence.spec), report))
    except InvalidInputError:
        checks.append(check("report.gates", False, good="", bad="the report's spec cannot be read"))
    checks.append(answer_check(report, answer_of))
    checks += dossier_checks(document, evidence, model=files.get(MODEL_FILE))
    checks.append(_page_check(document, files.get(PAGE)))
    checks.append(_sums_check(files))
    sign_offs = ReadSignOffs.read(evidence.sign_offs, ChainedSignOff.of, what="sign-off {}")
    later = read_later(evidence.later_attacks)
    checks += sign_off_checks(evidence, sign_offs, keyring, later=later)
    checks += later_checks(evidence, later, keyring)
    key_id = value_at(report, "integrity", "key_id")
    signer = key_id if isinstance(key_id, str) else None
    return checks, [signer, *sign_offs.signers, *later.signers]


def _page_check(document: Any, page: bytes | None) -> Check:
    if value_at(document, "made_with") != __version__:
        return unchecked("dossier.page", f"another version than {__version__} made {PAGE}")
    try:
        made = dossier_page(document).encode()
    except (ValueError, KeyError, TypeError, AttributeError, TemplateError):
        made = None
    return check(
        "dossier.page",
        page is not None and page == made,
        good=f"{PAGE} is the page of {DOCUMENT}",
        bad=f"{PAGE} is missing, or not the page of {DOCUMENT}",
    )


def _sums_check(files: Mapping[str, bytes]) -> Check:
    listed = {name: files[name] for name in files if name not in (SUMS, MODEL_FILE)}
    stated = set(files.get(SUMS, b"").splitlines())
    wrong = sorted(name for name in listed if sums_of({name: listed[name]}).strip() not in stated)
    return check(
        "dossier.files",
        not wrong,
        good=f"each file has its line in {SUMS}",
        bad=f"not as {SUMS} lists them: {', '.join(wrong)}",
    )


def _at(value: Any, pointer: Any) -> Any:
    return value if pointer is None else value_at(value, str(pointer).removeprefix("/"))


def _json(name: str, files: Mapping[str, bytes], faults: list[Fault]) -> Any:
    try:
        value = json.loads(files[name])
        if canonical_json(value) != files[name]:
            faults.append(Fault(name, "is not in canonical form (RFC 8785)"))
    except (ValueError, RecursionError):
        faults.append(Fault(name, "is no canonical JSON (RFC 8785)"))
        return None
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
