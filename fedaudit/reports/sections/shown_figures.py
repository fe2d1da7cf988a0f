"""Which figures of a section are shown to people, and how: on pages and on the command line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from fedaudit.reports.number_text import NO_FIGURE, bound_text, exact_text, figure_text
from fedaudit.reports.sections.part import Part


@dataclass(frozen=True)
class Shown:
    """Annotates a figure that is shown in the table of its section, in the order of the fields."""

    label: str
    how: Literal["figure", "bound", "exact"] = "figure"
    """A bound on a cost is rounded up; a number that somebody set is shown in full."""
    of_everyone: str = ""
    """The label where every client is charged for every round."""
    beside: str = ""
    """The field with the same figure of a constant prediction."""
    where_given: bool = False
    """Whether the figure is left out where it is missing; otherwise its reason is shown."""


@dataclass(frozen=True)
class FigureRow:
    """A row of a section's table, in texts."""

    name: str
    label: str
    value: str
    constant: str
    """The figure of a constant prediction; empty where there is none to compare with."""
    note: str
    """Why the figure is missing."""


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
            value=_text(shown, values[name]),
            constant="" if constant is None else _text(shown, constant),
            note=note,
        )


def _text(shown: Shown, value: float | None) -> str:
    if value is None:
        return NO_FIGURE
    match shown.how:
        case "figure":
            return figure_text(value)
        case "bound":
            return bound_text(value)
        case "exact":
            return exact_text(value)
        case other:
            assert_never(other)
