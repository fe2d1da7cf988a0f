"""A report as the dossier on its release, by the controls of SATRE 2.0.1.

It follows from the signed report and what was signed after it, and from nothing else: the same
evidence gives the same dossier, so it can be recomputed and compared.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.fairness.gaps import gap_size
from fedaudit.ledger.bundle import CLAIMS_FILE, Evidence, claim_lines, claims_in, key_fields
from fedaudit.ledger.statements import Envelope, SignOff
from fedaudit.number_text import bound_text, figure_text, room_text
from fedaudit.privacy.guarantees.cost_sentences import GOAL, doubts, guess_words, guessed_words
from fedaudit.reports.gates.gate_results import COSTS
from fedaudit.reports.readings.facts import text_at
from fedaudit.reports.readings.reading import given, rendered
from fedaudit.reports.report import LaterStatement, judged_later
from fedaudit.reports.sections.attacks import SUFFICIENT_POWER
from fedaudit.reports.sections.guarantee import guarantee_words, proven_cost
from fedaudit.reports.sections.part import Answer
from fedaudit.reports.verdict.cost import Bound
from fedaudit.reports.verdict.release import answer_of, gate_counts
from fedaudit.reports.verdict.worst_off import headline_metric, judging, worst_off
from fedaudit.spec.canonical import canonical_hash, canonical_json, read_canonical
from fedaudit.spec.fairness import OFTEN_RIGHT
from fedaudit.spec.metrics import METRICS

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link

AS_OF = date(2026, 11, 26)
"""The day on which the template was compared with the controls, which may have changed since."""
CONTROL_SET, _PUBLISHED = "SATRE 2.0.1", "2026-07-23"
SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("dossier.schema.json").read_text())
"""JSON schema of `dossier.json`."""
NOTICE = (
    "Statements of one audit report, put beside the controls. It is no approval: questions that "
    "are open are for an output checker to decide by hand. Each statement is bound to what it is "
    "of by a SHA-256, and `fedaudit verify` on this folder computes all of them anew."
)
DOCUMENT, PAGE, PDF = "dossier.json", "dossier.html", "dossier.pdf"
REPORT_FILE, SIGN_OFFS_FILE, LATER_FILE = "report.json", "sign-offs.json", "later-attacks.json"
KEYS_FILE = "keys.json"
READERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys((DOCUMENT, REPORT_FILE, SIGN_OFFS_FILE, LATER_FILE, KEYS_FILE), read_canonical),
    CLAIMS_FILE: claims_in,
}
"""What reads a file with JSON."""
MODEL_FILE = "model.safetensors"
"""Checked where the file is beside the dossier, which does not contain it."""
_PARTS = (
    *("answer", "guarantee", "privacy", "utility", "fairness", "attacks", "gates", "model"),
    *("data", "spec", "provenance", "integrity", "limits"),
)
"""Sections of a report that statements are bound to."""
_THEN = "\x1f"
"""Between a figure and what it means; no text of a report has it."""


def dossier(found: Evidence, *, anew: bool = False) -> dict[str, Any]:
    """The dossier of a report of the present form, with its sign-offs and later attacks. `anew`: as
    of `judged_later`. Raises ValueError for an envelope that cannot be read, and KeyError or
    TypeError for a document without the sections of a report."""
    # As the folder's file gives it back: in the order of its names, whole floats as integers.
    report = read_canonical(canonical_json(found.report))
    later = [LaterStatement.of(Envelope.from_dict(one)) for one in found.later_attacks]
    judged = judged_later(report, [attack for one in later for attack in one.attacks], anew=anew)
    people = [SignOff.of(Envelope.from_dict(one)) for one in found.sign_offs]
    evidence = list(_evidence(report, found))
    criteria = _criteria(report, judged)
    answer = answer_of(judged)
    written = _written(judged, answer, [one["name"] for one in evidence], criteria, people)
    controls = written["controls"]
    opened = [
        {"control": one["control"], "question": said["question"], "known": said["statement"]}
        for one in controls
        for said in one["answers"]
        if said["status"] == "open"
    ]
    return {
        "dossier_version": 1,
        "experiment_id": report["experiment"]["id"],
        "name": report["experiment"]["name"],
        "made_with": __version__,
        "control_set": CONTROL_SET,
        "published": _PUBLISHED,
        "as_of": AS_OF.isoformat(),
        "notice": NOTICE,
        "answer": answer.model_dump(mode="json"),
        "caution": written["caution"],
        "against": written["against"],
        "open": len(opened),
        "open_questions": opened,
        "figures": written["figures"],
        "criteria": criteria,
        "controls": controls,
        "evidence": evidence,
    }


def dossier_page(document: Mapping[str, Any], *, links: Sequence["Link"] = ()) -> str:
    """The page of a dossier; every value in it is escaped. It fetches and runs nothing. `links` are
    shown above it; a page for download has none."""
    # Imported here because a check of hashes needs no templates.
    from fedaudit.reports.page.html import page_environment

    hashes = {one["name"]: one["sha256"] for one in document["evidence"]}
    page = page_environment().get_template("dossier.html")
    return page.render(d=document, hashes=hashes, links=links)


def dossier_files(found: Evidence, *, printed: Callable[[str], bytes] | None) -> dict[str, bytes]:
    """The files of the folder by name, all JSON in canonical form (RFC 8785), so that the SHA-256
    of report.json is the one that sign-offs name. `printed` makes a PDF of a page; without it there
    is none. Raises as `dossier` does."""
    document = dossier(found)
    page = dossier_page(document)
    contents: dict[str, Any] = {
        DOCUMENT: document,
        REPORT_FILE: found.report,
        SIGN_OFFS_FILE: list(found.sign_offs) or None,
        LATER_FILE: list(found.later_attacks) or None,
        KEYS_FILE: [key_fields(key, found.compromised) for key in found.keys],
    }
    files = {name: canonical_json(value) for name, value in contents.items() if value is not None}
    files[PAGE] = page.encode()
    if found.claims:
        files[CLAIMS_FILE] = claim_lines(found.claims)
    return files if printed is None else {**files, PDF: printed(page)}


def _written(
    judged: Mapping[str, Any],
    answer: Answer,
    names: Sequence[str],
    criteria: Any,
    people: Sequence[Any],
) -> dict[str, Any]:
    """What the template puts in words: the caution below the answer, reasons against a release,
    rows of figures, and the controls. `names`: those of the evidence that exists."""
    found: dict[str, Any] = {"caution": None, "against": [], "figures": [], "controls": []}

    def rests(text: str) -> list[str]:
        return [one for one in text.split(", ") if one in names]

    def caution(caller: Any) -> str:
        found["caution"] = " ".join(caller().split())
        return ""

    def against(caller: Any) -> str:
        said = " ".join(caller().split())
        for name in METRICS:
            said = said.replace(name, name.replace("_", " "))
        end = "" if said.endswith((".", "”")) else "."
        found["against"].append(f"{said[:1].upper()}{said[1:]}{end}")
        return ""

    def row(label: str, evidence: str, part: str, caller: Any) -> str:
        stated, _, reading = (" ".join(one.split()) for one in caller().partition(_THEN))
        words = {"label": label, "stated": stated, "reading": reading, "evidence": rests(evidence)}
        found["figures"].append({"part": part, **words})
        return ""

    def control(number: str, importance: str, title: str) -> str:
        made = {"control": number, "importance": importance, "title": title, "answers": []}
        found["controls"].append(made)
        return ""

    def say(question: str, status: str, evidence: str = "", *, caller: Any) -> str:
        said = {
            "question": question or None,
            "status": status,
            "statement": " ".join(caller().split()) or "The report does not say.",
            "evidence": rests(evidence),
        }
        found["controls"][-1]["answers"].append(said)
        return ""

    writers = {"row": row, "control": control, "say": say, "caution": caution, "against": against}
    given_too = {"answer": answer, "c": criteria, "people": people}
    rendered("satre_2_0_1.txt", judged, **writers, **given_too, **_given(judged))
    return found


def _evidence(report: Mapping[str, Any], found: Evidence) -> Iterator[dict[str, Any]]:
    """What statements rest on: files, or parts of one by JSON pointer, by the SHA-256 of their
    canonical JSON (RFC 8785)."""
    files: dict[str, Any] = {
        "report": (REPORT_FILE, None, report),
        **{name: (REPORT_FILE, f"/{name}", report.get(name)) for name in _PARTS},
        "sign_offs": (SIGN_OFFS_FILE, None, list(found.sign_offs) or None),
        "later_attacks": (LATER_FILE, None, list(found.later_attacks) or None),
    }
    for name, (file, pointer, value) in files.items():
        if value is not None:
            hashed = canonical_hash(value)
            yield {"name": name, "file": file, "pointer": pointer, "sha256": hashed}
    if (hashed := text_at(report, "model", "sha256")) is not None:
        yield {"name": "model_file", "file": MODEL_FILE, "pointer": None, "sha256": hashed}


def _criteria(report: Mapping[str, Any], judged: Mapping[str, Any]) -> Any:
    """Control 3.3.09, field by field. A report's gates are in the order of its spec's."""
    fields = ("figure", "attribute", "op", "bound", "value", "outcome", "reason")
    asked = report["spec"]["gates"]
    thresholds = [
        {
            **{name: gate[name] for name in fields},
            "allows": sorted(name for name in own if name.startswith("allow_") and own[name]),
        }
        for gate, own in zip(judged["gates"], asked, strict=True)
    ]
    gaps = {one.get("attribute") for one in asked if one["figure"] in METRICS}
    attributes = [one["attribute"] for one in report["fairness"]]
    text = rendered(
        "criteria.txt",
        judged,
        r=report,
        report_sha256=canonical_hash(report),
        thresholds=thresholds,
        judged_gaps=[one for one in attributes if gaps & {None, one}],
        control_set=CONTROL_SET,
        **given(judged),
    )
    return json.loads(text)


def _given(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given(report),
        "THEN": _THEN,
        "SUFFICIENT_POWER": SUFFICIENT_POWER,
        "label": guarantee_words(report["guarantee"]),
        "exponent": Bound(report).exponent,
        "proven": partial(proven_cost, report),
        "bounds_every": Bound(report).of_every_dataset,
        "secured": Bound(report).is_proven and report["guarantee"]["in_force"] is True,
        "excludes_nothing": Bound(report).excludes_nothing,
        "weak_level": Bound(report).level in ("nearly-all", "nothing", "unbounded"),
        "GOAL": GOAL,
        "OFTEN_RIGHT": OFTEN_RIGHT,
        "COSTS": COSTS,
        "METRICS": METRICS,
        **{one.__name__: one for one in (gap_size, judging, worst_off, headline_metric)},
        **{one.__name__: one for one in (guess_words, guessed_words, doubts)},
        "counts": gate_counts(report["gates"]),
        "floor_exp": lambda exponent: f"{math.floor(math.exp(exponent)):,}",
        "short": figure_text,
        "bound": bound_text,
        "room": room_text,
    }
