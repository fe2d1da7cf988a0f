"""Faults of a spec, each beside the field of the form that it speaks of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from api.pages.spec_form.fields import SECTIONS
from fedaudit.spec.errors import FieldError

# Where a fault goes that no field of the form has by itself.
_SECTIONS = {
    "/federation": "/federation/source",
    "/model": "/model/kind",
    "/privacy": "/privacy/mechanism",
    "/fairness": "/fairness/sensitive",
}
_LABELS = {one.pointer: one.label for section in SECTIONS for one in section.fields}


@dataclass(frozen=True)
class Fault:
    """A fault; `place` is the name of a field, and None where it belongs to none."""

    pointer: str
    message: str
    place: str | None

    @property
    def label(self) -> str | None:
        """What the form calls the field; None where it has no field of this name."""
        return _LABELS.get(self.place or "")


def placed(
    errors: Sequence[FieldError], names: Collection[str], rows: Mapping[str, str]
) -> list[Fault]:
    """The faults by the form's fields, which are `names`; `rows` as in `Built`."""
    return [Fault(one.pointer, one.message, _place(one.pointer, names, rows)) for one in errors]


def _place(pointer: str, names: Collection[str], rows: Mapping[str, str]) -> str | None:
    """The field itself; else the nearest one around it; else the first within; else its section."""
    if not pointer:
        return None
    for of_value, of_form in rows.items():
        if is_within(pointer, of_value):
            pointer = of_form + pointer.removeprefix(of_value)
            break
    around = [name for name in names if is_within(pointer, name)]
    if around:
        return max(around, key=len)
    within = next((name for name in names if is_within(name, pointer)), None)
    if within is not None:
        return within
    return next((name for part, name in _SECTIONS.items() if is_within(pointer, part)), None)


def is_within(pointer: str, other: str) -> bool:
    """Whether a JSON pointer names another one's field, or something inside it."""
    return pointer == other or pointer.startswith(f"{other}/")
