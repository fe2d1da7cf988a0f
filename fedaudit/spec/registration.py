"""What a federation is registered with: its columns, and whose fairness will be looked at."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import FieldError, InvalidInputError, field_errors, refuse_all
from fedaudit.spec.fairness import Groups
from fedaudit.spec.federation import FileSpec
from fedaudit.spec.naming.labels import refuse_other_columns

RegisteredSource = Annotated[FileSpec, Field(discriminator="source")]


class RegistrationFairness(Groups):
    """Whose groups are counted, and which outcome is good for them."""


class Registration(SpecPart):
    """A federation to be profiled and then named by its id."""

    name: Text
    federation: RegisteredSource
    """The file: `path` is the one below the sources folder, or the name of an uploaded one."""
    fairness: RegistrationFairness = RegistrationFairness()

    @model_validator(mode="after")
    def _labels_are_of_shown_columns(self) -> Self:
        refuse_all(
            refuse_other_columns(
                self.federation.labels,
                sensitive=self.fairness.sensitive,
                target=self.federation.traits.target_name,
            )
        )
        return self


def parse_registration(value: object) -> Registration:
    """The registration of a file that lies below the sources folder.

    Raises InvalidInputError naming the fields.
    """
    if _federation_of(value).get("id") is not None:
        raise InvalidInputError(
            [FieldError("/federation/id", "is given by the service; name the file by `path`")]
        )
    return _parsed(value)


def parse_uploaded(value: object, *, file_name: str) -> Registration:
    """The registration that goes with an uploaded file; its `path` is then the file's name.

    Raises InvalidInputError naming the fields.
    """
    federation = _federation_of(value)
    for field in ("path", "id"):
        if federation.get(field) is not None:
            message = "the data comes with the upload; leave it out"
            raise InvalidInputError([FieldError(f"/federation/{field}", message)])
    if not isinstance(value, Mapping) or not federation:
        return _parsed(value)
    return _parsed({**value, "federation": {**federation, "path": file_name, "id": None}})


def _federation_of(value: object) -> Mapping[str, object]:
    federation = value.get("federation") if isinstance(value, Mapping) else None
    return federation if isinstance(federation, Mapping) else {}


def _parsed(value: object) -> Registration:
    try:
        return Registration.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None
