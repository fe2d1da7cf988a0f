"""Policies: gates under a name, so that many experiments are held against the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import InvalidInputError, field_errors, pointer, refuse_at
from fedaudit.spec.gates import Gate

PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A name that stands in an address as it is."""
Description = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
PolicyGates = Annotated[list[Gate], Field(min_length=1, max_length=100)]
"""At least one: a policy that asks for nothing would let everything pass."""


class Policy(SpecPart):
    """Gates under a name."""

    name: PolicyName
    description: Description = ""
    gates: PolicyGates


@dataclass(frozen=True)
class NamedGates:
    """Gates to be evaluated together, and the name of their policy, if it has one."""

    name: str | None
    gates: Sequence[Gate]


class PolicyFile(SpecPart):
    """What an experiment is to be held against: one policy, named or not, or several."""

    experiment_id: Text | None = None
    name: PolicyName | None = None
    description: Description = ""
    gates: PolicyGates | None = None
    policies: Annotated[list[Policy], Field(min_length=1, max_length=100)] | None = None

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.gates is None) == (self.policies is None):
            raise ValueError("must hold either `gates` or `policies`")
        if self.policies is None:
            return self
        for field in ("name", "description"):
            if getattr(self, field):
                raise refuse_at(f"/{field}", "belongs into each of `policies`; move it there")
        names = [policy.name for policy in self.policies]
        for position, name in enumerate(names):
            if name in names[:position]:
                where = pointer("policies", position, "name")
                raise refuse_at(where, f"{name!r} is given twice; keep one")
        return self

    @property
    def named(self) -> list[Policy]:
        """The policies with a name."""
        if self.policies is not None:
            return self.policies
        if self.name is None:
            return []
        return [Policy(name=self.name, description=self.description, gates=self.gates or [])]

    @property
    def to_evaluate(self) -> list[NamedGates]:
        """The gates, policy by policy."""
        if self.policies is None:
            return [NamedGates(self.name, self.gates or ())]
        return [NamedGates(policy.name, policy.gates) for policy in self.policies]


def parse_policies(value: object) -> PolicyFile:
    """The policies in a decoded JSON or YAML value; a list is taken for `gates`.

    Raises InvalidInputError naming the fields.
    """
    if isinstance(value, list):
        value = {"gates": value}
    try:
        return PolicyFile.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None
