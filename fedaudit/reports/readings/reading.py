"""A report format, its templates, and formats that answer questions from a report and state how
far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel

from fedaudit.number_text import NO_FIGURE, plain
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.facts import Document, ReportName, part_at, parts_at, text_at
from fedaudit.reports.sections.guarantee import SIMULATED, charges_everyone
from fedaudit.reports.sections.part import Part, figure_rows
from fedaudit.reports.sections.utility import Utility
from fedaudit.reports.verdict.cost import cost_part
from fedaudit.reports.verdict.release import training_words


@dataclass(frozen=True, kw_only=True)
class ReportReading:
    """A report in the form that one kind of recipient requires."""

    name: str
    """The name in addresses and on the command line."""
    title: str
    note: str
    """A description, shown on pages above the content."""
    as_of: date
    """The day on which it was compared with its source, which may have changed since."""
    make: Callable[[Document], dict[str, Any] | str]
    schema: type[BaseModel] | Mapping[str, Any] | None
    """The schema of the JSON, as a model or a JSON schema; None for Markdown."""


def rendered(template: str, document: Document, **given: Any) -> str:
    """A template of this folder as text. It can look up fields, the report `d` and `facts`, beside
    the values passed."""
    return _environment().get_template(template).render(d=document, **given)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters |= {"observer": observer_words, "plain": plain}
    made.globals |= {
        "NOT_STATED": facts.NOT_STATED,
        "SIMULATED": SIMULATED,
        "adjacency_words": adjacency_words,
        "cost_words": cost_part,
        "facts": facts,
        "figure": facts.figure,
        "number": facts.number_at,
        "part": part_at,
        "parts": parts_at,
        "settings": facts.settings,
        "text": text_at,
        "texts": facts.texts_at,
        "trained": training_words,
        "value": value_at,
    }
    return made


Status = Literal["answered", "answered in part", "not shown by this run"]
ANSWERED: Final = "answered"
IN_PART: Final = "answered in part"
NOT_SHOWN: Final = "not shown by this run"


class AnsweredQuestion(Part):
    """One question, and what the report answers."""

    question: str
    status: Status
    statement: str


class Topic(Part):
    """Questions that belong together."""

    topic: str
    status: Status
    """Answered or not shown, where all of its statements are; answered in part otherwise."""
    statements: list[AnsweredQuestion]


class QuestionsReading(Part):
    """A report read by the questions that a text puts."""

    reading: Literal["annex-iv", "edpb-28-2024"]
    report: ReportName
    notice: str
    as_of: str
    """The day on which the questions were compared with the text."""
    topics: list[Topic]
    """Topics in the order of the text."""


def asked(template: str, document: Document) -> list[dict[str, Any]]:
    """The topics of a template, which calls `topic(name, **more)` before the questions of each and
    `say(question, status)` around each statement; one without words is not shown."""
    topics: list[dict[str, Any]] = []

    def topic(name: str, **more: str) -> str:
        topics.append({"topic": name, "statements": [], **more})
        return ""

    def say(question: str, status: Status, caller: Any) -> str:
        stated = " ".join(caller().split())
        said = {"statement": stated, "status": status}
        if not stated:
            said = {"statement": "The report does not say.", "status": NOT_SHOWN}
        topics[-1]["statements"].append({"question": question, **said})
        return ""

    rendered(template, document, topic=topic, say=say, **given(document))
    for one in topics:
        found = {said["status"] for said in one["statements"]}
        one["status"] = found.pop() if found in ({ANSWERED}, {NOT_SHOWN}) else IN_PART
    return topics


def questions_reading(
    name: str, *, title: str, notice: str, as_of: date, schema: type[BaseModel] = QuestionsReading
) -> ReportReading:
    """The reading whose template has this name."""

    def make(document: Document) -> dict[str, Any]:
        stated = {
            "reading": name,
            "report": facts.report_name(document),
            "notice": notice,
            "as_of": as_of.isoformat(),
            "topics": asked(f"{name.replace('-', '_')}.txt", document),
        }
        own = {field: stated[field] for field in schema.model_fields}
        return schema.model_validate(own).model_dump(mode="json")

    return ReportReading(name=name, title=title, note=notice, as_of=as_of, make=make, schema=schema)


def given(document: Document) -> Mapping[str, Any]:
    """What templates of questions have beside the look-ups of all templates."""
    attacks = parts_at(document, "attacks")
    done = [one for one in attacks if text_at(one, "status") != "not-done"]
    epsilons = parts_at(document, "privacy", "epsilon")
    return {
        "ANSWERED": ANSWERED,
        "IN_PART": IN_PART,
        "NOT_SHOWN": NOT_SHOWN,
        "accountants": sorted({text_at(one, "accountant") or "unknown" for one in epsilons}),
        "everyone": charges_everyone(text_at(document, "guarantee", "mechanism")),
        "useful": [
            f"{one.label[0].lower()}{one.label[1:]} {one.value}"
            + (f" (a constant prediction: {one.constant})" if one.constant else "")
            for one in figure_rows(Utility, part_at(document, "utility"))
            if one.value != NO_FIGURE
        ],
        "attacked": sorted({str(one["kind"]) for one in done}),
        "alarms": sorted({str(one["kind"]) for one in done if part_at(one, "alarm")}),
        "not_done": len(done) < len(attacks),
        "floats": facts.of_rounding(document),
        "gaps": gaps,
        "suppressed": lambda section: sum(
            one.get("suppressed") is True for one in parts_at(section, "groups")
        ),
    }


def gaps(section: Document) -> list[str]:
    """The gaps of one attribute, by name."""
    metrics = part_at(section, "metrics").items()
    figures = ((name, facts.number_at(metric, "value")) for name, metric in metrics)
    return [f"{name} {facts.figure(value)}" for name, value in figures]
