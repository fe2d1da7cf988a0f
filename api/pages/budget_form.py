"""The form that sets a budget: what was typed, and what it means."""

from dataclasses import dataclass, fields
from typing import Any, Self

from api.http.bodies import validated
from api.pages.session import CheckedForm
from api.schemas.budgets import BudgetSetting
from fedaudit.spec.errors import FieldError, InvalidInputError

_NUMBERS = ("total", "delta", "clip")
_OF_AN_EPSILON = ("delta", "adjacency", "observer")
_OF_LEAKAGE = ("radius", "clip")


@dataclass(frozen=True)
class BudgetDraft:
    """The fields as they were typed."""

    book: str = "simulation"
    figure: str = "leakage"
    total: str = ""
    delta: str = "1e-5"
    adjacency: str = "add-or-remove-one"
    observer: str = "server"
    radius: str = "adaptive"
    clip: str = ""
    unit_key: str = ""

    @classmethod
    def of(cls, form: CheckedForm) -> Self:
        """What a form sent."""
        return cls(**{field.name: form.text(field.name) for field in fields(cls)})


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
        raise InvalidInputError([FieldError(f"/{name}", "is no number")]) from None
