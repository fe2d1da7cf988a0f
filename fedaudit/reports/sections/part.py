"""What the parts of all reports have in common."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from fedaudit.spec.metrics import RATES, Rate

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


_Model = TypeVar("_Model", bound=BaseModel)
_FieldOf = Callable[[Rate], tuple[Any, Any]]


def stored_rate(rate: Rate) -> tuple[Any, Any]:
    """A rate in a report."""
    bounds = Field(ge=0, le=1) if rate.is_share else Field(ge=0)
    return Annotated[float, bounds] | None, ...


def computed_rate(_rate: Rate) -> tuple[Any, Any]:
    """A number that is computed on access and is never absent."""
    return float | None, ...


def with_rates(
    *, after: str, field: _FieldOf = stored_rate
) -> Callable[[type[_Model]], type[_Model]]:
    """Add to a model one field for each of the RATES, following the field `after`. The model must
    declare fields and nothing else. `field`: a rate's type and default, as `pydantic.create_model`
    takes them."""

    def extended(model: type[_Model]) -> type[_Model]:
        # Not derived from the model itself: its own fields would come first, whatever their order
        # here.
        (base,) = model.__bases__
        fields: dict[str, Any] = {}
        for name, own in model.model_fields.items():
            fields[name] = (own.annotation, own)
            if name == after:
                fields |= {rate.name: field(rate) for rate in RATES.values()}
        return create_model(
            model.__name__,
            __base__=base,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )

    return extended


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


AnswerOutcome = Literal["release", "do-not-release", "not-decided"]
ANSWER_WORDS: Mapping[AnswerOutcome, str] = {
    "release": "May be released",
    "do-not-release": "Do not release",
    "not-decided": "Not decided",
}


class AnswerReason(Part):
    """One reason for the answer."""

    code: str
    """For programs; it stays when the words change."""
    text: str


class Answer(Part):
    """Whether the model may be released: the same in reports, lists and pages."""

    outcome: AnswerOutcome
    reasons: list[AnswerReason]
    """The one that weighs most first."""
    gap_size: Annotated[float | None, WHERE_GIVEN] = None
    """From where on a gap that no gate judges counts; none of earlier versions, where none did."""


def answer_words_of(judged: Mapping[str, Any]) -> str:
    """In words, of a report or an experiment as JSON; empty where an earlier version made it."""
    answer = judged.get("answer")
    return "" if answer is None else ANSWER_WORDS[answer["outcome"]]


def verdict_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts under their titles."""
    return [(title, report["verdict_parts"][name]) for name, title in PART_TITLES.items()]
