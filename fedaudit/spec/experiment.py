"""The whole spec, what its parts must agree on, and its canonical form.

The canonical form is what is hashed and stored: every default explicit, RFC 8785 JSON. A field that
specs gained later is left out where it is the default (`exclude_if` of the field), so that a spec
that does not name it keeps the hash that it had before.
"""

import hashlib
from typing import Annotated, Any, Final, Literal, Self, assert_never

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from fedaudit.spec.attacks import AttackSpec
from fedaudit.spec.base import MAX_INTEGER, InForm, SpecPart, Text
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.errors import Refusals, pointer, refuse_all, refuse_at
from fedaudit.spec.fairness import (
    OFTEN_RIGHT,
    Fairness,
    check_count_noise,
    publishes_noised_rounds,
    with_default_rounding,
)
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.gates import Gate
from fedaudit.spec.labels import refuse_other_columns
from fedaudit.spec.models import ModelSpec, with_default_start
from fedaudit.spec.privacy import (
    GaussianCentral,
    NoisedUpdates,
    PrivacySpec,
    one_client_rate,
    one_delta,
)
from fedaudit.spec.sources import RowSplit, TargetKind, moves_others
from fedaudit.spec.training import RotationCohort, Training

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


Device = Literal["auto", "cpu", "cuda"]
ADMITTED = {"admitted": True}
"""The context in which a spec is validated that was admitted once, by the rules of its time."""


def filled(value: Any) -> Any:
    """The document of a spec with what follows from its other fields; anything else as it is."""
    return one_delta(one_client_rate(with_default_rounding(with_default_start(value))))


class ExperimentSpec(SpecPart):
    """One training run to be audited."""

    spec_version: Literal[1] = 1
    name: Annotated[Text, InForm("Name", "groups")]
    seed: Annotated[
        int, Field(ge=0, le=MAX_INTEGER), InForm("Seed", "1", "A whole number; 0 is one too.")
    ] = 0
    repeats: Annotated[
        int,
        Field(ge=1, le=100, exclude_if=lambda repeats: repeats == 1),
        InForm(
            "Seeds to train",
            hint="This one and the next ones, for the spread of every figure. Each costs what one "
            "costs. Empty: this one.",
        ),
    ] = 1
    """How many seeds to train, this one and the next ones; each costs what one costs."""
    tags: Annotated[
        list[Annotated[Text, Field(max_length=64)]],
        Field(max_length=50),
        InForm("Tags", hint="Commas between them."),
    ] = []
    federation: FederationSpec
    model: Annotated[
        ModelSpec, InForm("Kind", "linear", hint="Layers: paste a spec.", left_out=("layers",))
    ]
    decision: Annotated[Decision, Field(exclude_if=lambda decision: decision == Decision())] = (
        Decision()
    )
    training: Training
    privacy: PrivacySpec
    fairness: Fairness = Fairness()
    attacks: Annotated[list[AttackSpec], Field(max_length=20)] = []
    """What is tried against the run once it is trained; with `repeats`, against the first seed."""
    gates: Annotated[
        list[Gate],
        Field(max_length=100),
        InForm(
            "Gates",
            hint="Conditions on the report, as in {figure: epsilon_max, op: le, value: 3}, "
            "{figure: equalized_odds_difference, attribute: sex, op: le, value: 0.1}: le is at "
            "most, ge at least. A name that is no figure gets a list of all.",
        ),
    ] = []
    device: Device = "auto"
    """Where it may run; `auto` takes whichever worker is free."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, value: Any) -> Any:
        return filled(value)

    @model_validator(mode="after")
    def _parts_agree(self, info: ValidationInfo) -> Self:
        refuse_all(self._disagreements())
        if info.context is not ADMITTED:
            refuse_all(self.uncharged_steps())
            refuse_all(self.retired_parts())
        elif isinstance(self.privacy, NoisedUpdates) and self.privacy.is_unsolved:
            raise refuse_at("/privacy/noise_multiplier", "was found when the spec was admitted")
        return self

    def _disagreements(self) -> Refusals:
        """Every fault between parts that are valid by themselves."""
        hypotheses, clients = self.training.hypotheses, self.training.asked_clients
        if clients is not None and hypotheses > clients:
            yield refuse_at(
                "/training/hypotheses",
                f"{hypotheses} hypotheses cannot be clustered from a cohort of {clients} clients; "
                "ask for fewer hypotheses or a larger cohort",
            )
        yield from self._check_model()
        yield from self.model.check_start(hypotheses=hypotheses)
        yield from self._check_decision()
        yield from self._check_loss()
        yield from self._check_fairness()
        yield from check_count_noise(
            self.fairness,
            training=self.training,
            source=self.federation,
            has_outcome=self.declares_outcome,
            by_record=self.privacy.draws_by_record,
        )
        yield from self._check_gates()
        if self.repeats > 1 and self.fairness.noise is not None:
            yield refuse_at(
                "/repeats",
                "counts with noise are charged to the people held out for every seed; ask for the "
                "seeds by a sweep, which says what all of them cost, or leave `fairness.noise` out",
            )
        if self.seed + self.repeats - 1 > MAX_INTEGER:
            yield refuse_at("/repeats", "leads beyond the largest seed; take a smaller `seed`")
        yield from self.privacy.disagreements(training=self.training, federation=self.federation)
        for position, attack in enumerate(self.attacks):
            yield from attack.disagreements(self, pointer=pointer("attacks", position))
        yield from self.training.method.disagreements(
            self.training, mechanism=self.privacy.mechanism, source=self.federation
        )

    def uncharged_steps(self) -> Refusals:
        """Refuse what is computed from protected data, and no clip bounds and no accountant counts,
        so that every figure would be wrong. Specs that were stored before this was refused can
        still be read (`ADMITTED`), but not run."""
        method = self.training.method
        if (
            method.personalises
            and self.scores_training_clients
            and self.privacy.protects
            and not self.hides_counts
        ):
            yield refuse_at(
                "/federation/validation_unit",
                f"{method.kind} tunes a client's model on the rows that train, and its figures, "
                "which have no secret noise, would disclose them; hold out clients (`client`), or "
                "ask for `fairness.noise` with the unit `client`, under `noise: release`",
            )
        by_record, statistics = self.privacy.draws_by_record, self.federation.traits.statistics
        if not moves_others(statistics, by_record=by_record) or self.privacy.mechanism == "none":
            return
        unit = "record" if by_record else "client"
        yield refuse_at(
            "/federation/standardise",
            f"one {unit} would move the features of others by means and deviations that have no "
            f"noise, and no figure of {self.privacy.mechanism} counts that; declare public "
            "constants under `federation.scale` ({mean, deviation} or {low, high})"
            + (", or use `mechanism: none`" if by_record else ", or use `client`"),
        )

    def retired_parts(self) -> Refusals:
        """What stored specs may have, and no run is trained with any more."""
        if self.fairness.privacy_cost_by_group:
            yield refuse_at(
                "/fairness/privacy_cost_by_group",
                "is retired: what each client paid is in GET /experiments/{id}/clients, for "
                "keys with the scope ledger:read; leave it out",
            )
        yield from self.retired_training()
        for position, attack in enumerate(self.attacks):
            yield from attack.retired(pointer("attacks", position))

    def retired_training(self) -> Refusals:
        """Those faults that would make a run another one, or its claim wrong (`Cell`)."""
        noise, source = self.fairness.noise, self.federation
        splits = isinstance(source.scoring, RowSplit) and not source.holds_out_rows
        if splits and noise is not None and noise.unit == "record":
            yield refuse_at(
                "/federation/scoring",
                "one record more or less changes which of its client's other rows are scored; use "
                "{method: leave-one-out}, or the unit `client` of `fairness.noise`",
            )
        if isinstance(self.training.cohort, RotationCohort):
            yield refuse_at(
                "/training/cohort/sampling",
                "rotation is retired, as it had no measurable gain; use {sampling: allocation, "
                f"every: {self.training.cohort.every}}}",
            )
        if noise is not None and noise.epsilon > OFTEN_RIGHT and self.hides_counts:
            yield refuse_at(
                "/fairness/noise/epsilon",
                f"{noise.epsilon:g} is too large for noise to replace suppression: a guess at "
                f"a held-out person could be right in more than 95 % of cases; take at most "
                f"{OFTEN_RIGHT:g}, or leave `noise` out",
            )
        if publishes_noised_rounds(self.fairness):
            yield refuse_at(
                "/fairness/noise/rounds",
                "is retired: the report's gaps have the noise, and each round's cost as much again;"
                " leave it out",
            )
        if isinstance(self.privacy, GaussianCentral) and self.privacy.correlation is not None:
            yield refuse_at(
                "/privacy/correlation",
                "is retired: at the same epsilon it had no measurable gain; leave it out",
            )

    def _check_decision(self) -> Refusals:
        """A base rate is refused beside any guarantee. It is a sum over the training rows: every
        report and the released model state it, with no noise, and no accountant counts it.

        Held-out rows are no alternative: a threshold chosen by their outcomes would judge the model
        by the same outcomes, and `fairness.noise` protects them too.
        """
        threshold = self.decision.threshold
        if self.decision != Decision() and not self.classifies:
            yield refuse_at(
                "/decision/threshold",
                "the target is a number, so no class is decided; leave it out",
            )
        if threshold == BASE_RATE and self.privacy.mechanism != "none":
            yield refuse_at(
                "/decision/threshold",
                "the share of the training rows has no noise, and no figure of "
                f"{self.privacy.mechanism} counts it; declare a number, or use `mechanism: none`",
            )

    def _check_model(self) -> Refusals:
        source, model = self.federation, self.model
        if model.image is not None and not source.traits.images:
            yield refuse_at(
                "/model/kind",
                f"`{model.kind}` is for the sources `images` and `femnist`; {source.source} "
                "has no images, so use `linear`, `logistic` or `mlp`",
            )
        if source.traits.target == "class" and model.output == "number":
            yield refuse_at(
                "/model/kind", "images have classes; use `logistic`, `mlp` or `cnn-femnist`"
            )

    def _check_loss(self) -> Refusals:
        compares_classes = self.training.compares_classes
        if self.federation.traits.target == "number" and self.classifies:
            field = "/training/loss" if compares_classes else "/model/kind"
            yield refuse_at(
                field,
                f"the target of {self.federation.source} is a number; use a `linear` or `mlp` "
                "model with `rmse` or `mse`",
            )
        if self.model.output == "number" and compares_classes:
            yield refuse_at("/model/kind", "a linear model has no classes; use `logistic` or `mlp`")

    def _check_fairness(self) -> Refusals:
        attributes = self.federation.traits.attributes
        for position, attribute in enumerate(self.fairness.sensitive):
            if attributes is not None and attribute not in attributes:
                yield refuse_at(
                    f"/fairness/sensitive/{position}",
                    f"{self.federation.source} has no attribute {attribute!r}; it has "
                    f"{sorted(attributes) or 'none'}",
                )
        for attribute in self.fairness.edges:
            if not self.federation.traits.cuts_attributes:
                yield refuse_at(
                    pointer("fairness", "edges", attribute),
                    f"the attributes of {self.federation.source} are no numbers to be cut; leave "
                    "`edges` to tables and image archives",
                )
        yield from refuse_other_columns(
            self.federation.labels,
            sensitive=self.fairness.sensitive,
            target=self.federation.traits.target_name,
        )
        if not self.fairness.sensitive and self.fairness.favourable is not None:
            yield refuse_at(
                "/fairness/sensitive", "`favourable` is given, so name a sensitive attribute"
            )

    def _check_gates(self) -> Refusals:
        for position, gate in enumerate(self.gates):
            if gate.attribute is not None and gate.attribute not in self.fairness.attributes:
                yield refuse_at(
                    f"/gates/{position}/attribute",
                    f"{gate.attribute!r} is not in `sensitive`, nor one of `intersections`",
                )
            if gate.compares_groups and not self.fairness.attributes:
                yield refuse_at(
                    f"/gates/{position}/figure",
                    f"no attribute has {gate.figure}; name a sensitive one in `sensitive`",
                )

    @property
    def hides_counts(self) -> bool:
        """Whether noise that no one can draw again is on the counts of held-out people. Suppression
        and the memory of earlier reports stand back for it alone: simulated noise hides no one."""
        return self.fairness.noise is not None and self.privacy.noise == "release"

    @property
    def chooses_by_losses(self) -> bool:
        """Whether losses of held-out rows choose the round that is released, and may end training.
        False where noise protects these rows, or where they belong to clients whom the mechanism
        protects: a choice by a loss without noise reveals it. Then the last round is kept."""
        if self.fairness.noise is not None:
            return False
        by_record = self.privacy.draws_by_record
        return by_record or not self.scores_training_clients or not self.privacy.protects

    @property
    def scores_training_clients(self) -> bool:
        """Whether figures are of held-out rows of clients that train, whose unit is the client."""
        return self.federation.holds_out_rows and not self.privacy.draws_by_record

    @property
    def classifies(self) -> bool:
        """Whether the target is a class: always for images, for others with cross-entropy or a
        logistic model, whatever its loss."""
        if self.federation.traits.target == "class":
            return True
        output: TargetKind = self.model.output
        match output:
            case "class":
                return True
            case "number" | "either":
                return self.training.compares_classes
            case _:
                assert_never(output)

    @property
    def declares_outcome(self) -> bool:
        """Whether some outcome is favourable: by a rule, or as a classifier's positive class."""
        return self.fairness.favourable is not None or self.classifies


def spec_hash(spec: ExperimentSpec) -> str:
    """SHA-256 of the canonical form, in hexadecimal. Two specs that mean the same share it."""
    return document_hash(spec.model_dump(mode="json"))


def document_hash(document: dict[str, Any]) -> str:
    """The same of a JSON document, as of a spec with every default explicit."""
    return hashlib.sha256(canonical_json(document)).hexdigest()
