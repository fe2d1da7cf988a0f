"""What parts and sections of all reports have in common, and which figures people are shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from fedaudit.number_text import NO_FIGURE, bound_text, exact_text, figure_text
from fedaudit.reports.checks import MALFORMED, Check, Outcome

WHERE_GIVEN = Field(exclude_if=lambda value: value is None)
"""A name, and no figure: the document leaves it out where there is none."""


class Part(BaseModel):
    """One object of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


GateOutcome = Literal["pass", "fail", "insufficient_evidence"]
PASS: Final = "pass"
FAIL: Final = "fail"
INSUFFICIENT: Final = "insufficient_evidence"


def number_or_some(count: int | None) -> str:
    """The number, for the beginning of a sentence; a suppressed one is positive, hence "Some"."""
    return "Some" if count is None else str(count)


Reasons = dict[str, str]
Share = Annotated[float, Field(ge=0, le=1)]


class IntervalSection(Part):
    """What a formula gives."""

    low: float
    high: float
    level: float
    method: str


class LastRounds(Part):
    """The range of a figure over the last rounds that were validated."""

    low: float
    high: float
    rounds: int


PART_TITLES = {
    "release": "May it be released?",
    "cost": "What was spent",
    "fairness": "Who is treated worse",
    "next": "What to do next",
}


class VerdictParts(Part):
    """What somebody decides by, the most important first: a sentence or a few each."""

    release: str
    """Whether the model may be released, and why not."""
    cost: str
    """What training spent, and how much that is."""
    fairness: str
    """Who is worst off, in which direction, by how much and how sure that is."""
    next: str


class SpecChange(Part):
    """One field of the spec, and what to set it to; null takes it away."""

    pointer: str
    value: Any


class Advice(Part):
    """What to do next."""

    text: str
    figure: str | None = None
    """The figure of the report that the changes make better, as `SECTION/FIELD`."""
    changes: list[SpecChange] = Field(default_factory=list)
    """Empty where nothing in the spec helps, or something else is to be done."""


AnswerOutcome = Literal["release", "do-not-release", "not-decided"]
ANSWER_WORDS: Mapping[AnswerOutcome, str] = {
    "release": "May be released",
    "do-not-release": "Do not release",
    "not-decided": "Not decided",
}


class AnswerReason(Part):
    """One reason for the answer."""

    code: str
    """Code for programs; it stays when the words change."""
    text: str


def reason(code: str, text: str) -> AnswerReason:
    """One reason, as in a cascade of them."""
    return AnswerReason(code=code, text=text)


class Answer(Part):
    """Whether the model may be released: the same in reports, lists and pages."""

    outcome: AnswerOutcome
    reasons: list[AnswerReason]
    """The one that weighs most first."""
    gap_size: Annotated[float | None, WHERE_GIVEN] = None
    """The size from which a gap that no gate judges counts; earlier versions had none."""
    counts_doubts: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether the answer counts a model that may be no better than a constant, and names gaps that
    may be wide; None in reports of versions that did neither."""
    every_attribute: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether a gate without an attribute judges the gap by each; None in reports of versions in
    which it judged the worst one alone."""
    can_fail: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether gates that nothing fails require nothing; None in reports of versions in which they
    counted."""
    counts_method: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether figures of clients' own models release no common one, and every gap that may be wide
    is named; None in reports of versions in which they did, and one was."""


def answer_words_of(judged: Mapping[str, Any]) -> str:
    """The answer of a report or experiment as JSON, in words; empty in earlier versions."""
    answer = judged.get("answer")
    return "" if answer is None else ANSWER_WORDS[answer["outcome"]]


def verdict_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts under their titles."""
    return [(title, report["verdict_parts"][name]) for name, title in PART_TITLES.items()]


Material = TypeVar("Material")
"""What one kind of report is assembled from."""
Evidence = TypeVar("Evidence")
"""What one kind of report is verified against, with the report itself."""
Values = dict[str, Any]


def with_reasons(figures: Mapping[str, Any]) -> Values:
    """The fields of a part from its figures, of which a text says why one is missing."""
    reasons = {name: one for name, one in figures.items() if isinstance(one, str)}
    return {**figures, **dict.fromkeys(reasons), "reasons": reasons}


def or_why(figures: Mapping[str, object], why: str) -> Values:
    """The figures, with the reason in the place of each that is missing."""
    return {name: why if one is None else one for name, one in figures.items()}


@dataclass(frozen=True)
class Section(Generic[Material, Evidence]):
    """One section of one kind of report. Every question has to be answered: none has a default."""

    name: str
    """Its field in the document."""
    made: Callable[[Material], Part | Sequence[Part] | str]
    """The section of a report, its entries, or the reason why there is none: that goes into the
    field `NAME_reason` of the document."""
    checked: Callable[[Evidence], Iterable[Check]] | str
    """What verification compares with the evidence, or why it cannot compare anything."""
    limits: Callable[[Material], Iterable[str]]
    """What the section does not show, one sentence each."""

    def stated(self, material: Material) -> Values:
        """Its fields in the document."""
        made = self.made(material)
        if isinstance(made, str):
            return {self.name: None, f"{self.name}_reason": made}
        if isinstance(made, Part):
            return {self.name: made.model_dump(mode="json")}
        return {self.name: [one.model_dump(mode="json") for one in made]}


def no_limits(_material: object) -> Iterable[str]:
    """No limits, for a section that shows all that it names."""
    return ()


def assembled(
    document: type[Part],
    sections: Sequence[Section[Material, Any]],
    material: Material,
    *,
    judged: Sequence[Callable[[Material, Values], Values]],
    limits_first: Sequence[str] = (),
    progressed: Callable[[], None],
) -> Values:
    """The document as JSON values without NaN or infinities. `judged` adds, one after the other,
    what follows from the sections. `limits` are those of the sections named in `limits_first`, then
    the others' in the order of the document's fields. `progressed` is called between sections."""
    values: Values = {}
    for section in sections:
        values |= section.stated(material)
        progressed()
    order = list(dict.fromkeys([*limits_first, *document.model_fields]))
    by_place = sorted(sections, key=lambda section: order.index(section.name))
    values["limits"] = [one for section in by_place for one in section.limits(material)]
    for judge in judged:
        values |= judge(material, values)
    found: Values = document.model_validate(values).model_dump(mode="json")
    return found


def section_checks(
    sections: Sequence[Section[Any, Evidence]],
    evidence: Evidence,
    *,
    malformed: Outcome = "fail",
    why: str = "the section cannot be made anew from this evidence",
) -> Iterator[Check]:
    """The checks of all sections, in the order of the tuple. `malformed`: the outcome where a
    value has a form that no check expects, and `why`."""
    for section in sections:
        if isinstance(section.checked, str):
            continue
        try:
            yield from section.checked(evidence)
        except MALFORMED:
            yield Check(f"report.{section.name}", malformed, why)


Rounding = Literal["figure", "bound", "exact"]
_TEXTS: Mapping[Rounding, Callable[[float], str]] = {
    "figure": figure_text,
    "bound": bound_text,
    "exact": exact_text,
}


@dataclass(frozen=True)
class Shown:
    """Annotates a figure that is shown in the table of its section, in the order of the fields."""

    label: str
    how: Rounding = "figure"
    """A bound on a cost is rounded up; a configured number is shown in full."""
    of_everyone: str = ""
    """The label where every client is charged for every round."""
    beside: str = ""
    """The field with the same figure of a constant prediction."""
    where_given: bool = False
    """Whether the figure is left out where it is missing; otherwise its reason is shown."""


@dataclass(frozen=True)
class FigureRow:
    """A figure in texts: a row of a table, or a tile."""

    label: str
    value: str
    note: str = ""
    """Why the figure is missing, or what it is."""
    name: str = ""
    """The field of the section that it is of."""
    constant: str = ""
    """The figure of a constant prediction; empty where there is none to compare with."""


def figure_rows(
    part: type[Part], values: Mapping[str, Any], *, charges_everyone: bool = False
) -> Iterator[FigureRow]:
    """The rows of a section of a stored report; figures that a later version added are left out.

    A reason that several figures share is given once, with the first of them.
    """
    given = set[str]()
    for name, field in part.model_fields.items():
        shown = next((one for one in field.metadata if isinstance(one, Shown)), None)
        if shown is None or name not in values:
            continue
        note = values["reasons"].get(name, "")
        if values[name] is None and (shown.where_given or note in given):
            continue
        given.add(note)
        constant = values.get(shown.beside)
        yield FigureRow(
            name=name,
            label=shown.of_everyone if charges_everyone and shown.of_everyone else shown.label,
            value=NO_FIGURE if values[name] is None else _TEXTS[shown.how](values[name]),
            constant="" if constant is None else _TEXTS[shown.how](constant),
            note=note,
        )
