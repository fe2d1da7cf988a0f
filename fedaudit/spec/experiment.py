"""The whole spec, and what its parts must agree on."""

from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import Field, field_validator, model_validator

from fedaudit.spec.base import MAX_INTEGER, SpecPart, Text
from fedaudit.spec.errors import pointer, refuse_at
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.fairness_agreement import check_count_noise, with_default_rounding
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.gates import Gate
from fedaudit.spec.mechanism_part import one_client_rate
from fedaudit.spec.model import ModelSpec
from fedaudit.spec.privacy import PrivacySpec
from fedaudit.spec.training import FixedCohort, PoissonCohort, Training

Device = Literal["auto", "cpu", "cuda"]


class ExperimentSpec(SpecPart):
    """One training run to be audited."""

    spec_version: Literal[1] = 1
    name: Text
    seed: Annotated[int, Field(ge=0, le=MAX_INTEGER)] = 0
    tags: Annotated[list[Annotated[Text, Field(max_length=64)]], Field(max_length=50)] = []
    federation: FederationSpec
    model: ModelSpec
    training: Training
    privacy: PrivacySpec
    fairness: Fairness = Fairness()
    attacks: Annotated[list[object], Field(max_length=0)] = []
    gates: Annotated[list[Gate], Field(max_length=100)] = []
    device: Device = "auto"
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

    @model_validator(mode="before")
    @classmethod
    def _default_rounding(cls, value: Any) -> Any:
        return with_default_rounding(value)

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        self._check_clusters()
        self._check_model()
        self._check_loss()
        self._check_fairness()
        check_count_noise(
            self.fairness,
            training=self.training,
            source=self.federation,
            has_outcome=self.declares_outcome,
        )
        self._check_gates()
        self.privacy.check(training=self.training, federation=self.federation)
        return self

    def _check_clusters(self) -> None:
        cohort = self.training.cohort
        match cohort:
            case FixedCohort():
                if self.training.hypotheses > cohort.clients:
                    raise refuse_at(
                        "/training/hypotheses",
                        f"{self.training.hypotheses} hypotheses cannot be clustered from a cohort "
                        f"of {cohort.clients} clients; ask for fewer hypotheses or a larger cohort",
                    )
            case PoissonCohort():
                pass  # how many clients come is a matter of chance
            case _:
                assert_never(cohort)

    def _check_model(self) -> None:
        source, model = self.federation, self.model
        if model.image is not None and not source.traits.images:
            raise refuse_at(
                "/model/kind",
                f"`{model.kind}` is for the sources `images` and `femnist`; {source.source} "
                "has no images, so use `linear`, `logistic` or `mlp`",
            )
        if source.traits.target != "class":
            return
        if model.output == "number":
            raise refuse_at(
                "/model/kind", "images have classes; use `logistic`, `mlp` or `cnn-femnist`"
            )
        if not self.training.compares_classes:
            raise refuse_at("/training/loss", "images have classes; use `cross-entropy`")

    def _check_loss(self) -> None:
        compares_classes = self.training.compares_classes
        if self.federation.traits.target == "number" and self.classifies:
            field = "/training/loss" if compares_classes else "/model/kind"
            raise refuse_at(
                field,
                f"the target of {self.federation.source} is a number; use a `linear` or `mlp` "
                "model with `rmse` or `mse`",
            )
        if self.model.output == "number" and compares_classes:
            raise refuse_at("/model/kind", "a linear model has no classes; use `logistic` or `mlp`")

    def _check_fairness(self) -> None:
        attributes = self.federation.traits.attributes
        for position, attribute in enumerate(self.fairness.sensitive):
            if attributes is not None and attribute not in attributes:
                raise refuse_at(
                    f"/fairness/sensitive/{position}",
                    f"{self.federation.source} has no attribute {attribute!r}; it has "
                    f"{sorted(attributes) or 'none'}",
                )
        for attribute in self.fairness.edges:
            if not self.federation.traits.cuts_attributes:
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
        match self.model.output:
            case "class":
                return True
            case "number" | "either":
                return self.training.compares_classes
            case _:
                assert_never(self.model.output)

    @property
    def declares_outcome(self) -> bool:
        """Whether some outcome is favourable: by a rule, or as a classifier's positive class."""
        return self.fairness.favourable is not None or self.classifies

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        return self.training.relocates

    @property
    def draws_data(self) -> bool:
        """Whether the loaded data depend on the seed.

        They do where they are synthetic, dealt to clients, turned, or standardised over those
        clients or rows that the seed lets train.
        """
        return self.federation.traits.draws_data
