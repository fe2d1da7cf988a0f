"""The form that sets a budget: what was typed, and what it means."""

from dataclasses import dataclass, fields
from typing import Any, Self

from api.http.bodies import validated
from api.pages.session import CheckedForm
from api.schemas.federations import BudgetSetting
from fedaudit.spec.errors import FieldError, InvalidInputError

_NUMBERS = ("total", "delta", "clip")
_OF_AN_EPSILON = ("delta", "adjacency", "observer")
_OF_LEAKAGE = ("radius", "clip")
LABELS = {
    "figure": "Figure",
    "book": "Noise mode",
    "total": "Total",
    "unit_key": "Whose clients",
    "radius": "Radius",
    "clip": "Clip",
    "delta": "Delta",
    "adjacency": "Neighbours",
    "observer": "Observer",
}
"""What the form calls its fields."""


@dataclass(frozen=True)
class BudgetFault:
    """What is wrong with a field of the form."""

    field: str
    label: str
    message: str


@dataclass(frozen=True)
class BudgetDraft:
    """The fields as they were typed."""

    book: str = "release"
    """The noise mode: only noise that is secret protects, so that is what is bounded first."""
    figure: str = "leakage"
    total: str = ""
    delta: str = "1e-5"
    adjacency: str = "replace-one"
    observer: str = "final_model"
    radius: str = "adaptive"
    clip: str = ""
    unit_key: str = ""

    @classmethod
    def of(cls, form: CheckedForm) -> Self:
        """What a form sent."""
        return cls(**{field.name: form.text(field.name) for field in fields(cls)})


def faults_of(error: InvalidInputError) -> list[BudgetFault]:
    """The faults in the order in which the form has their fields."""
    found = [(one.pointer.removeprefix("/"), one.message) for one in error.errors]
    faults = [BudgetFault(name, LABELS.get(name, name), message) for name, message in found]
    order = list(LABELS)
    return sorted(faults, key=lambda one: order.index(one.field) if one.field in order else -1)


def setting_of(draft: BudgetDraft) -> BudgetSetting:
    """The setting that was asked for; an empty total removes the bound.

    Raises InvalidInputError naming the field.
    """
    values: dict[str, Any] = dict(vars(draft))
    values["unit_key"] = draft.unit_key or None
    # The form always sends all of them.
    if draft.figure != "epsilon":
        values |= dict.fromkeys(_OF_AN_EPSILON)
    if draft.figure != "leakage":
        values |= dict.fromkeys(_OF_LEAKAGE)
    elif draft.radius != "adaptive":
        values["radius"] = _number("radius", draft.radius)
    for name in _NUMBERS:
        if values[name] is not None:
            values[name] = _number(name, values[name])
    return validated(BudgetSetting, values)


def _number(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        message = f"{text!r} is no number; write it as 2.5 or 1e-5"
        raise InvalidInputError([FieldError(f"/{name}", message)]) from None
