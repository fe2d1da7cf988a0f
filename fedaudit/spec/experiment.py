"""The whole spec, and what its parts must agree on."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedaudit.spec.base import LARGEST_INTEGER, SpecPart, Text
from fedaudit.spec.errors import pointer, refuse_at
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.federation import (
    FederationSpec,
    HospitalCharges,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.gates import Gate
from fedaudit.spec.images import Femnist, Images
from fedaudit.spec.mechanism_rules import check_mechanism, one_client_rate
from fedaudit.spec.model import ModelSpec
from fedaudit.spec.privacy import PrivacySpec
from fedaudit.spec.table import ByColumn, Table
from fedaudit.spec.training import FixedCohort, KMeans, Training


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

    @model_validator(mode="before")
    @classmethod
    def _one_client_rate(cls, value: Any) -> Any:
        return one_client_rate(value)

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        self._check_clusters()
        self._check_model()
        self._check_loss()
        self._check_fairness()
        self._check_gates()
        check_mechanism(self.privacy, training=self.training, federation=self.federation)
        return self

    def _check_clusters(self) -> None:
        cohort = self.training.cohort
        if isinstance(cohort, FixedCohort) and self.training.hypotheses > cohort.clients:
            raise refuse_at(
                "/training/hypotheses",
                f"{self.training.hypotheses} hypotheses cannot be clustered from a cohort of "
                f"{cohort.clients} clients; ask for fewer hypotheses or a larger cohort",
            )

    def _check_model(self) -> None:
        source, kind = self.federation, self.model.kind
        if not isinstance(source, Images | Femnist):
            if kind == "cnn-femnist":
                raise refuse_at(
                    "/model/kind",
                    f"`cnn-femnist` is for the sources `images` and `femnist`; {source.source} "
                    "has no images, so use `linear`, `logistic` or `mlp`",
                )
            return
        if kind == "linear":
            raise refuse_at(
                "/model/kind", "images have classes; use `logistic`, `mlp` or `cnn-femnist`"
            )
        if self.training.loss != "cross-entropy":
            raise refuse_at("/training/loss", "images have classes; use `cross-entropy`")

    def _check_loss(self) -> None:
        classifies = self.training.loss == "cross-entropy"
        synthetic = isinstance(self.federation, SyntheticLinear | SyntheticGroups | HospitalCharges)
        if synthetic and (classifies or self.model.kind == "logistic"):
            field = "/training/loss" if classifies else "/model/kind"
            raise refuse_at(
                field,
                f"the target of {self.federation.source} is a number; use a `linear` or `mlp` "
                "model with `rmse` or `mse`",
            )
        if self.model.kind == "linear" and classifies:
            raise refuse_at("/model/kind", "a linear model has no classes; use `logistic` or `mlp`")

    def _check_fairness(self) -> None:
        known = {"synthetic-linear": set(), "synthetic-groups": {"group"}}
        attributes = known.get(self.federation.source)
        for position, attribute in enumerate(self.fairness.sensitive):
            if attributes is not None and attribute not in attributes:
                raise refuse_at(
                    f"/fairness/sensitive/{position}",
                    f"{self.federation.source} has no attribute {attribute!r}; it has "
                    f"{sorted(attributes) or 'none'}",
                )
        for attribute in self.fairness.edges:
            if not isinstance(self.federation, Table | Images):
                raise refuse_at(
                    pointer("fairness", "edges", attribute),
                    f"the attributes of {self.federation.source} are no numbers to be cut; leave "
                    "`edges` to tables and image archives",
                )
        if not self.fairness.sensitive and self.fairness.favourable is not None:
            raise refuse_at(
                "/fairness/sensitive", "`favourable` is given, so name a sensitive attribute"
            )

    def _check_gates(self) -> None:
        for position, gate in enumerate(self.gates):
            if gate.attribute is not None and gate.attribute not in self.fairness.attributes:
                raise refuse_at(
                    f"/gates/{position}/attribute",
                    f"{gate.attribute!r} is not in fairness.sensitive, nor one of "
                    "fairness.intersections",
                )
            if (
                gate.compares_groups
                and gate.attribute is None
                and len(self.fairness.attributes) != 1
            ):
                raise refuse_at(
                    f"/gates/{position}/attribute",
                    f"name the sensitive attribute whose {gate.figure} is meant",
                )

    @property
    def classifies(self) -> bool:
        """Whether the target is a class: with cross-entropy, or a logistic model whatever its
        loss."""
        return self.training.loss == "cross-entropy" or self.model.kind == "logistic"

    @property
    def declares_outcome(self) -> bool:
        """Whether some outcome is favourable: by a rule, or as a classifier's positive class."""
        return self.fairness.favourable is not None or self.classifies

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        clustering = self.training.clustering
        return isinstance(clustering, KMeans) and clustering.empty_cluster == "relocate"

    @property
    def draws_data(self) -> bool:
        """Whether the loaded data depend on the seed.

        They do where they are synthetic, dealt to clients, turned, or standardised over those
        clients or rows that the seed lets train.
        """
        source = self.federation
        if isinstance(source, Table):
            dealt = source.partition is not None and not isinstance(source.partition, ByColumn)
            by_training = source.standardise == "global" or (
                source.standardise is not None and source.validation_unit == "record"
            )
            return dealt or by_training
        if isinstance(source, Images | Femnist):
            return source.rotate is not None
        return not isinstance(source, HospitalCharges)
