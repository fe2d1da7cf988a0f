"""Model fields that are generated from the table of rates."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from fedaudit.spec.metrics import RATES, Rate

_Model = TypeVar("_Model", bound=BaseModel)
_FieldOf = Callable[[Rate], tuple[Any, Any]]


def stored_rate(rate: Rate) -> tuple[Any, Any]:
    """A rate in a stored report; one that was added later may be absent from an earlier report."""
    bounds = Field(ge=0, le=1) if rate.is_share else Field(ge=0)
    return Annotated[float, bounds] | None, ... if rate.in_every_report else None


def computed_rate(_rate: Rate) -> tuple[Any, Any]:
    """A number that is computed on access and is never absent."""
    return float | None, ...


def with_rates(
    *, after: str, field: _FieldOf = stored_rate
) -> Callable[[type[_Model]], type[_Model]]:
    """Add to a model one field for each of the RATES, following the field `after`.

    The model must declare fields and nothing else. `field`: a rate's type and default, as
    `pydantic.create_model` takes them.
    """

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
