"""What every attack of a spec answers for the rest of the spec."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.models import ModelSpec
from fedaudit.spec.privacy import PrivacySpec
from fedaudit.spec.training import Training


@dataclass(frozen=True, kw_only=True)
class AttackedSpec:
    """The parts of a spec that an attack must agree with."""

    federation: FederationSpec
    model: ModelSpec
    training: Training
    privacy: PrivacySpec


def _states_its_kind(schema: dict[str, Any]) -> None:
    schema["required"] = ["kind", *schema.get("required", ())]


class AttackPart(SpecPart):
    """An attack, which has no answer by default: one that leaves any out cannot be made."""

    model_config = ConfigDict(json_schema_extra=_states_its_kind)
    question: ClassVar[str]
    """Its name and what it asks, as a title for people."""
    tells_of_people: ClassVar[bool] = True
    """Whether its findings follow from people's data, without protection by noise. An attack that
    finds out about the noise alone must declare that."""
    needs_hypotheses: ClassVar[bool]
    """Whether it attacks what the run itself has trained, rather than runs beside it alone."""

    usual: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """The values that are left of fields with retired ones."""

    def retired(self, pointer: str) -> Refusals:
        """What stored attacks may ask for, and none is carried out with any more."""
        for name, left in self.usual.items():
            value = getattr(self, name)
            if value not in left:
                yield refuse_at(f"{pointer}/{name}", f"{value} is retired; use {left[-1]}")

    @abstractmethod
    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        """Every fault between the attack and the rest of the spec, with its field and the remedy.

        `pointer` is that of the attack in the spec, as `/attacks/0`. What depends on the data is
        checked once they are loaded (`fedaudit.attacks.feasibility`).
        """


def check_common_model(attacked: AttackedSpec, *, pointer: str) -> Refusals:
    """Refuses an attack on what all clients train where they send nothing."""
    if not attacked.training.method.releases:
        yield refuse_at(
            f"{pointer}/kind",
            "clients send nothing under this `training.method`, so there is no common model to "
            "attack; choose another method, or leave this attack out",
        )
