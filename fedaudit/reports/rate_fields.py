"""Fields of models that the table of rates decides."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from fedaudit.spec.metrics import RATES

_Model = TypeVar("_Model", bound=BaseModel)

_SHARE_OR_ABSENT = (Annotated[float, Field(ge=0, le=1)] | None, None)
"""A report of an earlier version lacks the rates that came later."""


def with_rates(
    *, after: str, field: tuple[Any, Any] = _SHARE_OR_ABSENT
) -> Callable[[type[_Model]], type[_Model]]:
    """Gives a model a field for each of the RATES, behind the field `after`.

    `field`: type and default, as `pydantic.create_model` takes them.
    """

    def extended(model: type[_Model]) -> type[_Model]:
        fields: dict[str, Any] = {}
        for name, own in model.model_fields.items():
            fields[name] = (own.annotation, own)
            if name == after:
                fields |= dict.fromkeys(RATES, field)
        return create_model(
            model.__name__,
            __base__=model,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )

    return extended
