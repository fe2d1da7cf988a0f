"""The report's statements in the order of NIST SP 800-226 (March 2025).

"Guidelines for Evaluating Differential Privacy Guarantees" orders what a claim rests on as a
pyramid: its figures on top, what can undermine them in the middle, and the ground below. The topics
follow it and the hazards it names; the questions are this project's words.
"""

from typing import Any, Final, Literal

from fedaudit.reports.readings.document_fields import (
    Document,
    ReadingPart,
    ReportName,
    figure,
    number_at,
    part_at,
    parts_at,
    report_name,
    text_at,
    texts_at,
)
from fedaudit.reports.readings.reading import ReportReading, rendered
from fedaudit.reports.sections.guarantee import charges_everyone

Status = Literal["answered", "answered in part", "not shown by this run"]
ANSWERED: Final = "answered"
IN_PART: Final = "answered in part"
NOT_SHOWN: Final = "not shown by this run"

NOTICE = (
    "Statements of one audit report, put in the order of NIST SP 800-226. NIST has reviewed none "
    "of it, and this is no evaluation: what is not shown here has to be looked at elsewhere."
)


class NistStatement(ReadingPart):
    """One question, and what the report answers."""

    question: str
    status: Status
    statement: str


class NistTopic(ReadingPart):
    """One stone of the pyramid."""

    layer: Literal["top", "middle", "base"]
    topic: str
    status: Status
    """Answered or not shown, where all of its statements are; answered in part otherwise."""
    statements: list[NistStatement]


class NistReading(ReadingPart):
    """A report read by NIST SP 800-226."""

    reading: Literal["nist-800-226"] = "nist-800-226"
    report: ReportName
    notice: str
    topics: list[NistTopic]
    """From the top of the pyramid down."""


def nist_800_226(document: Document) -> NistReading:
    """What a report states on each topic, and what it does not show."""
    topics: list[dict[str, Any]] = []

    def topic(layer: str, name: str) -> str:
        topics.append({"layer": layer, "topic": name, "statements": []})
        return ""

    def say(question: str, status: Status, caller: Any) -> str:
        stated = " ".join(caller().split())
        said = {"statement": stated, "status": status}
        if not stated:
            said = {"statement": "The report does not say.", "status": NOT_SHOWN}
        topics[-1]["statements"].append({"question": question, **said})
        return ""

    rendered("nist_800_226.txt", document, topic=topic, say=say, **_given(document))
    for one in topics:
        found = {said["status"] for said in one["statements"]}
        one["status"] = found.pop() if found in ({ANSWERED}, {NOT_SHOWN}) else IN_PART
    return NistReading(
        report=report_name(document),
        notice=NOTICE,
        topics=[NistTopic.model_validate(one) for one in topics],
    )


NIST_800_226 = ReportReading(
    name="nist-800-226",
    title="NIST SP 800-226",
    note=NOTICE,
    make=lambda document: nist_800_226(document).model_dump(mode="json"),
    schema=NistReading,
)


def _given(document: Document) -> dict[str, Any]:
    """What the texts speak of that has to be counted or chosen first."""
    attacks = parts_at(document, "attacks")
    done = [one for one in attacks if text_at(one, "status") != "not-done"]
    epsilons = parts_at(document, "privacy", "epsilon")
    useful = {
        name: number_at(document, "utility", name) for name in ("validation_loss", "accuracy")
    }
    return {
        "ANSWERED": ANSWERED,
        "IN_PART": IN_PART,
        "NOT_SHOWN": NOT_SHOWN,
        "accountants": sorted({text_at(one, "accountant") or "unknown" for one in epsilons}),
        "everyone": charges_everyone(text_at(document, "guarantee", "mechanism")),
        "useful": [f"{name} {figure(one)}" for name, one in useful.items() if one is not None],
        "attacked": sorted({text_at(one, "kind") or "unknown" for one in done}),
        "alarms": sorted(
            {text_at(one, "kind") or "unknown" for one in done if part_at(one, "alarm")}
        ),
        "not_done": len(done) < len(attacks),
        "floats": [one for one in texts_at(document, "limits") if "floating-point" in one],
        "gaps": _gaps,
        "suppressed": lambda section: sum(
            one.get("suppressed") is True for one in parts_at(section, "groups")
        ),
    }


def _gaps(section: Document) -> list[str]:
    metrics = part_at(section, "metrics").items()
    return [f"{name} {figure(number_at(metric, 'value'))}" for name, metric in metrics]
