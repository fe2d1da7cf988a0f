"""What a section of a report is, and how a report is assembled from a tuple of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fedaudit.reports.checks import Check
from fedaudit.reports.sections.part import Part

Material = TypeVar("Material")
"""What one kind of report is assembled from."""
Evidence = TypeVar("Evidence")
"""What one kind of report is verified against, with the report itself."""
Values = dict[str, Any]


@dataclass(frozen=True)
class Section(Generic[Material, Evidence]):
    """One section of one kind of report. Every question has to be answered: none has a default."""

    name: str
    """Its field in the document."""
    made: Callable[[Material], Part | Sequence[Part] | str]
    """The section of a report, its entries, or the reason why there is none: that goes into the
    field `NAME_reason` of the document."""
    checked: Callable[[Evidence], Iterator[Check]] | str
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
    """For a section that shows all that it names."""
    return ()


def handed_over(name: str, *, missing: str = "") -> Callable[[Any], Part | Sequence[Part] | str]:
    """For a section that the run makes itself: the field of the material with this name, or
    `missing` where that is None."""

    def made(material: Any) -> Part | Sequence[Part] | str:
        found: Part | Sequence[Part] | str | None = getattr(material, name)
        return missing if found is None else found

    return made


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
    sections: Sequence[Section[Any, Evidence]], evidence: Evidence
) -> Iterator[Check]:
    """The checks of all sections, in the order of the tuple."""
    for section in sections:
        if not isinstance(section.checked, str):
            yield from section.checked(evidence)
