"""A report as the dossier on its release, by the controls of SATRE 2.0.1.

It follows from the signed report and what is signed behind it, and from nothing else: the same
evidence gives the same dossier, so that it can be made anew and compared.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

from fedaudit.ledger.statements import ChainedSignOff, Envelope
from fedaudit.number_text import bound_text, figure_text
from fedaudit.privacy.guarantees.cost_sentences import (
    cost_level,
    doubts,
    guess_words,
    guessed_words,
    odds_words,
)
from fedaudit.reports.checks import canonical_hash, canonical_json
from fedaudit.reports.dossier.criteria import Criteria, criteria
from fedaudit.reports.later import judged_later, statement_in
from fedaudit.reports.readings.facts import ReadingPart, number_at, parts_at, text_at
from fedaudit.reports.readings.questions import ANSWERED, IN_PART, given
from fedaudit.reports.readings.reading import rendered
from fedaudit.reports.sections.attacks import SUFFICIENT_POWER
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.reports.sections.part import Answer
from fedaudit.reports.verdict.release import (
    answer_of,
    bounding_exponent,
    bounds_every_dataset,
    excludes_nothing,
    gate_counts,
    is_proven,
)
from fedaudit.reports.verdict.worst_off import headline_metric
from fedaudit.version import __version__

Status = Literal["answered", "answered in part", "open", "beyond one release"]
OPEN: Final = "open"
OUTSIDE: Final = "beyond one release"
VERSION: Final = 1
_TEMPLATE = "satre_2_0_1.txt"
_THEN = "\x1f"
"""Between a figure and what it means; no text of a report has it."""


@dataclass(frozen=True, kw_only=True)
class ControlSet:
    """A published set of controls."""

    name: str
    published: date
    as_of: date
    """The day on which the template was compared with it, which may have changed since."""


SATRE = ControlSet(name="SATRE 2.0.1", published=date(2026, 7, 23), as_of=date(2026, 11, 26))
NOTICE = (
    "Statements of one audit report, put beside the controls. It is no approval: questions that "
    "are open are for an output checker to decide by hand. Each statement is bound to what it is "
    "of by a SHA-256, and `fedaudit verify` on this folder computes all of them anew."
)


class Evidence(ReadingPart):
    """What statements rest on: a file, or a part of one."""

    name: str
    file: str
    pointer: str | None
    """A JSON pointer; None for the whole file."""
    sha256: str
    """Of the file's bytes, or of the part's canonical JSON (RFC 8785)."""


class FigureRow(ReadingPart):
    """One line of what the figures say."""

    label: str
    stated: str
    reading: str
    """What it means, or beside what it has to be read."""
    evidence: list[str]


class ControlAnswer(ReadingPart):
    """One question of a control."""

    question: str | None
    """None where the title is the question."""
    status: Status
    statement: str
    evidence: list[str]


class Control(ReadingPart):
    """One control, in this project's words."""

    control: str
    importance: str
    title: str
    answers: list[ControlAnswer]


class OpenQuestion(ReadingPart):
    """What an output checker must decide by hand."""

    control: str
    question: str
    known: str
    """What the report contributes."""


class Dossier(ReadingPart):
    """The document `dossier.json`."""

    dossier_version: Literal[1] = 1
    experiment_id: str
    name: str
    made_with: str
    """The version of fedaudit that made this, not that which trained."""
    control_set: str
    published: str
    as_of: str
    notice: str
    answer: Answer
    """The report's, or what later attacks made of it."""
    open: int
    open_questions: list[OpenQuestion]
    figures: list[FigureRow]
    criteria: Criteria
    """Control 3.3.09, field by field."""
    controls: list[Control]
    evidence: list[Evidence]


def dossier(
    report: Mapping[str, Any], *, sign_offs: Sequence[Any] = (), later: Sequence[Any] = ()
) -> dict[str, Any]:
    """The dossier of a report of the present form. `sign_offs`, `later`: DSSE envelopes, oldest
    first. Raises ValueError for an envelope that cannot be read, and KeyError or TypeError for a
    document without the sections of a report."""
    # As the folder's file gives it back: in the order of its names, whole floats as integers.
    report = json.loads(canonical_json(dict(report)))
    statements = [statement_in(Envelope.from_dict(one))[0] for one in later]
    judged = judged_later(report, [found for one in statements for found in one.attacks])
    people = [ChainedSignOff.of(Envelope.from_dict(one)).sign_off for one in sign_offs]
    bound = list(_evidence(report, sign_offs, later))
    names = {one.name for one in bound}
    record = criteria(report, judged, version=VERSION, control_set=SATRE.name)
    figures: list[FigureRow] = []
    controls: list[Control] = []

    def named(text: str) -> list[str]:
        return [one for one in text.split(", ") if one in names]

    def row(label: str, evidence: str, caller: Any) -> str:
        stated, _, reading = (" ".join(part.split()) for part in caller().partition(_THEN))
        rests = named(evidence)
        figures.append(FigureRow(label=label, stated=stated, reading=reading, evidence=rests))
        return ""

    def control(number: str, importance: str, title: str) -> str:
        controls.append(Control(control=number, importance=importance, title=title, answers=[]))
        return ""

    def say(question: str, status: Status, evidence: str = "", *, caller: Any) -> str:
        controls[-1].answers.append(
            ControlAnswer(
                question=question or None,
                status=status,
                statement=" ".join(caller().split()) or "The report does not say.",
                evidence=named(evidence),
            )
        )
        return ""

    writers = {"row": row, "control": control, "say": say}
    rendered(_TEMPLATE, judged, c=record, people=people, **writers, **_given(judged, people))
    opened = [
        OpenQuestion(control=one.control, question=said.question or one.title, known=said.statement)
        for one in controls
        for said in one.answers
        if said.status == OPEN
    ]
    return Dossier(
        experiment_id=report["experiment"]["id"],
        name=report["experiment"]["name"],
        made_with=__version__,
        control_set=SATRE.name,
        published=SATRE.published.isoformat(),
        as_of=SATRE.as_of.isoformat(),
        notice=NOTICE,
        answer=answer_of(judged),
        open=len(opened),
        open_questions=opened,
        figures=figures,
        criteria=record,
        controls=controls,
        evidence=bound,
    ).model_dump(mode="json")


REPORT_FILE, SIGN_OFFS_FILE, LATER_FILE = "report.json", "sign-offs.json", "later-attacks.json"
MODEL_FILE = "model.safetensors"
"""Checked where it lies beside the dossier, which does not bring it."""
_PARTS = (
    *("answer", "guarantee", "privacy", "utility", "fairness", "attacks", "gates", "model"),
    *("data", "spec", "provenance", "integrity", "limits"),
)


def _evidence(
    report: Mapping[str, Any], sign_offs: Sequence[Any], later: Sequence[Any]
) -> Iterator[Evidence]:
    def part(name: str, file: str, value: Any, pointer: str | None = None) -> Evidence:
        return Evidence(name=name, file=file, pointer=pointer, sha256=canonical_hash(value) or "")

    yield part("report", REPORT_FILE, report)
    for name in _PARTS:
        if report.get(name) is not None:
            yield part(name, REPORT_FILE, report[name], f"/{name}")
    if sign_offs:
        yield part("sign_offs", SIGN_OFFS_FILE, list(sign_offs))
    if later:
        yield part("later_attacks", LATER_FILE, list(later))
    if (file := text_at(report, "model", "sha256")) is not None:
        yield Evidence(name="model_file", file=MODEL_FILE, pointer=None, sha256=file)


def _given(report: Mapping[str, Any], people: Sequence[Any]) -> dict[str, Any]:
    others = [one for one in people if one.by_submitter is False]
    done = [one for one in parts_at(report, "attacks") if one["status"] == "done"]
    return {
        **given(report),
        "OPEN": OPEN,
        "OUTSIDE": OUTSIDE,
        "ANSWERED": ANSWERED,
        "IN_PART": IN_PART,
        "label": guarantee_words(report["guarantee"]),
        "level": _level(report),
        "delta_units": _delta_units(report),
        "headline": lambda one: {
            "name": headline_metric(one),
            **one["metrics"][headline_metric(one)],
        },
        "lower_bound": _lower_bound,
        "odds": lambda exponent: f"{math.floor(math.exp(min(exponent, _MOST))):,}",
        "doubt": _doubt,
        "proven": _is_proven_now(report) and not excludes_nothing(report),
        "short": figure_text,
        "percent": lambda share: f"{100 * share:.3g} %",
        "power": lambda one: "" if _has_power(one) else " Too few canaries for an all-clear.",
        "weak": [one["kind"] for one in done if one["kind"] == "canaries" and not _has_power(one)],
        "counts": gate_counts(report["gates"]),
        "THEN": _THEN,
        "independent": others[-1] if others else None,
    }


def _level(report: Mapping[str, Any]) -> str | None:
    """What the bound leaves to a guess; None where nothing is bounded."""
    exponent, guarantee = bounding_exponent(report), report["guarantee"]
    if exponent is None:
        return None
    if not bounds_every_dataset(report):
        return "It holds within a radius alone; between any two datasets nothing is bounded"
    delta, proven = guarantee["delta"] or 0.0, _is_proven_now(report)
    doubt = doubts(guarantee["kind"], in_force=guarantee["in_force"] is not False)
    guessed = guessed_words(
        unit=guarantee["unit"],
        adjacency=guarantee["adjacency"] if report["privacy"]["epsilon"] else None,
        bounds_every_dataset=True,
        hypotheses=report["spec"]["training"]["hypotheses"],
    )
    if cost_level(exponent, delta=delta) in ("nothing", "unbounded"):
        return f"{doubt}{'it' if doubt else 'It'} excludes practically nothing"
    found = f"{doubt}{'a' if doubt else 'A'} guess at {guessed}, right half of the time without it"
    rate = guess_words(exponent, delta=delta)
    factor = f": the odds may change by a factor of {odds_words(exponent)}" if proven else ""
    return f"{found}, may be right {rate} % of the time{factor}"


def _is_proven_now(report: Mapping[str, Any]) -> bool:
    return is_proven(report) and report["guarantee"]["in_force"] is True


def _delta_units(report: Mapping[str, Any]) -> dict[str, str] | None:
    """How many units a delta may give away, where there is one."""
    delta, data = report["guarantee"]["delta"], report["data"]
    if not delta:
        return None
    units = data["rows" if report["guarantee"]["unit"] == "record" else "training_clients"]
    found = delta * units
    words = "It has to be far below 1." if found < _SMALL_SHARE else "That is not far below 1."
    return {"count": figure_text(units), "product": bound_text(found), "words": words}


_MOST = 30.0
"""The largest exponent whose factor is written in full."""
_SMALL_SHARE = 0.1
"""Of one unit: from here on the dossier says that delta is not small for so many."""


def _lower_bound(attack: Mapping[str, Any]) -> float:
    bounds = parts_at(attack, "bounds")
    return max((number_at(one, "epsilon_lower_bound") or 0.0 for one in bounds), default=0.0)


def _has_power(attack: Mapping[str, Any]) -> bool:
    powers = [number_at(one, "power") or 0.0 for one in parts_at(attack, "bounds")]
    return max(powers, default=0.0) >= SUFFICIENT_POWER


def _doubt(attack: Mapping[str, Any]) -> str:
    shares = [number_at(one, "significance") or 0.0 for one in parts_at(attack, "bounds")]
    return f"{100 * sum(shares):.2g} %"
