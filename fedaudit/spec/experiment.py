"""The whole spec, and what its parts must agree on."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from fedaudit.spec.base import LARGEST_INTEGER, SpecPart, Text
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.federation import (
    FederationSpec,
    HospitalCharges,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.gates import Gate
from fedaudit.spec.model import ModelSpec
from fedaudit.spec.privacy import LaplaceL2, PrivacySpec
from fedaudit.spec.training import KMeans, Training

FAIRNESS_FIGURE_SUFFIXES = ("_difference", "_ratio")


def _refuse(pointer: str, message: str) -> PydanticCustomError:
    """An error of the whole spec that names the field at fault (a JSON pointer)."""
    return PydanticCustomError(
        "inconsistent", "{message}", {"message": message, "pointer": pointer}
    )


class ExperimentSpec(SpecPart):
    """One training run to be audited."""

    spec_version: Literal[1] = 1
    name: Text
    seed: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] = 0
    tags: Annotated[list[Annotated[Text, Field(max_length=64)]], Field(max_length=50)] = []
    federation: FederationSpec
    model: ModelSpec
    training: Training
    privacy: PrivacySpec
    fairness: Fairness = Fairness()
    attacks: Annotated[list[object], Field(max_length=0)] = []
    gates: Annotated[list[Gate], Field(max_length=100)] = []
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where it may run; `auto` takes whichever worker is free."""

    @field_validator("attacks", mode="before")
    @classmethod
    def _no_attacks(cls, attacks: object) -> object:
        if isinstance(attacks, list) and attacks:
            raise ValueError("this version runs no attacks; leave the list empty")
        return attacks

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        self._check_clusters()
        self._check_loss()
        self._check_fairness()
        self._check_gates()
        if isinstance(self.privacy, LaplaceL2):
            self._check_clip(self.privacy)
        return self

    def _check_clusters(self) -> None:
        if self.training.hypotheses > self.training.cohort.clients:
            raise _refuse(
                "/training/hypotheses",
                f"{self.training.hypotheses} hypotheses cannot be clustered from a cohort of "
                f"{self.training.cohort.clients} clients; ask for fewer hypotheses or a larger "
                "cohort",
            )

    def _check_loss(self) -> None:
        classifies = self.training.loss == "cross-entropy"
        synthetic = isinstance(self.federation, SyntheticLinear | SyntheticGroups | HospitalCharges)
        if synthetic and (classifies or self.model.kind == "logistic"):
            field = "/training/loss" if classifies else "/model/kind"
            raise _refuse(
                field,
                f"the target of {self.federation.source} is a number; use a `linear` or `mlp` "
                "model with `rmse` or `mse`",
            )
        if self.model.kind == "linear" and classifies:
            raise _refuse("/model/kind", "a linear model has no classes; use `logistic` or `mlp`")

    def _check_fairness(self) -> None:
        known = {"synthetic-linear": set(), "synthetic-groups": {"group"}}
        attributes = known.get(self.federation.source)
        for position, attribute in enumerate(self.fairness.sensitive):
            if attributes is not None and attribute not in attributes:
                raise _refuse(
                    f"/fairness/sensitive/{position}",
                    f"{self.federation.source} has no attribute {attribute!r}; it has "
                    f"{sorted(attributes) or 'none'}",
                )
        if not self.fairness.sensitive and self.fairness.favourable is not None:
            raise _refuse(
                "/fairness/sensitive", "`favourable` is given, so name a sensitive attribute"
            )

    def _check_gates(self) -> None:
        for position, gate in enumerate(self.gates):
            about_fairness = gate.figure.endswith(FAIRNESS_FIGURE_SUFFIXES)
            if gate.attribute is not None and not about_fairness:
                raise _refuse(
                    f"/gates/{position}/attribute",
                    f"{gate.figure} is not a figure of a sensitive attribute; leave it out",
                )
            if gate.attribute is not None and gate.attribute not in self.fairness.sensitive:
                raise _refuse(
                    f"/gates/{position}/attribute",
                    f"{gate.attribute!r} is not in fairness.sensitive",
                )
            if about_fairness and gate.attribute is None and len(self.fairness.sensitive) != 1:
                raise _refuse(
                    f"/gates/{position}/attribute",
                    f"name the sensitive attribute whose {gate.figure} is meant",
                )

    def _check_clip(self, privacy: LaplaceL2) -> None:
        adaptive = privacy.radius == "adaptive"
        if adaptive and privacy.clip is not None and privacy.clip < privacy.radius_floor:
            raise _refuse(
                "/privacy/clip",
                f"must not lie below radius_floor ({privacy.radius_floor}), which it would never "
                "reach; raise the clip or lower the floor",
            )

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        clustering = self.training.clustering
        return isinstance(clustering, KMeans) and clustering.empty_cluster == "relocate"
