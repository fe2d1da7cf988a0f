"""From which probability up a model of two classes predicts the positive one."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from fedaudit.spec.base import InForm, SpecPart

BASE_RATE: Final = "base-rate"


def _share_or_base_rate(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
        return value
    if value == BASE_RATE:
        return value
    raise ValueError(f"must be a number above 0 and below 1, or `{BASE_RATE}`")


class Decision(SpecPart):
    """How scores become decisions, for targets with two classes."""

    threshold: Annotated[
        Annotated[float, Field(gt=0, lt=1)] | Literal["base-rate"],
        BeforeValidator(_share_or_base_rate),
        InForm(
            "Threshold",
            hint="Of two classes, the positive one is predicted where its probability is above "
            "this. base-rate: its share among the training rows, only without a mechanism. "
            "Empty: 0.5.",
        ),
    ] = 0.5
    """The positive class is predicted where its probability is above this. `base-rate` is its share
    among the training rows."""
