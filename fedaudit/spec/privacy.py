"""Which mechanism protects what a client sends.

A figure holds for one kind of sampling, one unit and one form of update; a combination that no
accountant covers is refused, with the one that would fit.
"""

from typing import Annotated, Any, ClassVar, Literal, assert_never

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from fedaudit.spec.base import FILLED, InForm, SpecPart, Text
from fedaudit.spec.errors import Refusals, refuse, refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.mechanism_part import MechanismPart, UpdateMechanism, check_one_hypothesis
from fedaudit.spec.training import PoissonCohort, Training


def one_client_rate(spec: Any) -> Any:
    """The raw spec with `privacy.client_rate` and the rate of the cohort filled in from each other.

    Only for `record-personalised`, where both mean the same; where both are given, or neither,
    the spec is left as it is.
    """
    privacy, training = _part(spec, "privacy"), _part(spec, "training")
    if privacy.get("mechanism") != "record-personalised" or not training:
        return spec
    rate, cohort = privacy.get("client_rate"), training.get("cohort")
    if cohort is None and rate is not None:
        cohort = {"sampling": "poisson", "rate": rate}
        return {**spec, "training": {**training, "cohort": cohort}}
    if rate is None and isinstance(cohort, dict) and cohort.get("sampling") == "poisson":
        return {**spec, "privacy": {**privacy, "client_rate": cohort.get("rate")}}
    return spec


def one_delta(spec: Any) -> Any:
    """The raw spec with `privacy.delta` and that of `privacy.target` filled in from each other.

    Where both are given, or neither, the spec is left as it is.
    """
    privacy = _part(spec, "privacy")
    target = _part(privacy, "target")
    given = [part["delta"] for part in (privacy, target) if "delta" in part]
    gaussian = privacy.get("mechanism") in ("gaussian-central", "gaussian-local")
    if not (gaussian and target) or len(given) != 1:
        return spec
    [delta] = given
    target = {**target, "delta": delta}
    return {**spec, "privacy": {**privacy, "delta": delta, "target": target}}


def _part(spec: Any, name: str) -> dict[Any, Any]:
    part = spec.get(name) if isinstance(spec, dict) else None
    return part if isinstance(part, dict) else {}


Noise = Literal["simulation", "release"]
"""`simulation` is repeatable from the seed; `release` comes from the system's entropy."""
Clip = Annotated[float, Field(gt=0, le=1e12)]
"""Bound on the Euclidean norm of what one unit adds to a sum."""
LEAST_CLIP = 1e-30
"""Smallest clip of a run. Below it, many components of a clipped update are so small that float32
holds them with a few bits only (subnormal below 1.2e-38), and rounded they may pass the clip."""
Delta = Annotated[float, Field(gt=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(gt=0, le=1)]
AccountantName = Literal["rdp", "pld"]


def _some_noise(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        raise ValueError("must be greater than 0; for no noise ask for `mechanism: none`")
    return value


GAUSSIAN_DECADES, LAPLACE_DECADES = (-3, 6), (-12, 12)
"""The powers of ten between which a noise multiplier may be."""
GaussianNoise = Annotated[float, Field(ge=1e-3, le=1e6), BeforeValidator(_some_noise)]
"""Standard deviation of the noise over the clip. Outside these bounds an accountant loses its
digits, and its figures would be worthless."""


UNSOLVED = 0.0
"""A noise multiplier that follows from the `target` and is not computed yet. No event and no
release can be computed with it, and no cell is made."""
_OR_TARGET = Field(
    default_factory=lambda: UNSOLVED,
    validate_default=False,
    exclude_if=lambda noise_multiplier: noise_multiplier == UNSOLVED,
)
_TARGET = Field(exclude_if=lambda target: target is None)

Radius = Annotated[float, Field(ge=1e-12, le=1e12)]
"""A distance between uploads. Below these, n/(nu*r) has no digits left or is infinite."""


def _adaptive_or_a_radius(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1e-12:
        return value
    if value == "adaptive":
        return value
    raise ValueError("must be `adaptive`, or a public distance: a number of at least 1e-12")


# Of fields that several mechanisms have.
_NU = InForm("Noise multiplier (nu)", "1", "More is more noise, and costs less.")
_RADIUS = InForm(
    "Radius",
    "2",
    "A public number of at least twice the clip makes the guarantee formal for all data: two "
    "clipped updates never lie farther apart. It is in force once the noise is `release`. "
    "adaptive: heuristic.",
)
_CLIP = InForm(
    "Clip",
    "1",
    "Bound on the norm of an update, or of a record's gradient. laplace-l2 may go without: its "
    "guarantee then covers some data only.",
)
_DELTA = InForm("Delta", "1e-5")
_ACCOUNTANT = InForm("Accountant", "rdp")
_EPSILON_BUDGET = InForm(
    "Epsilon budget", hint="Empty: none. Epsilon at delta that is never passed."
)
_NOISE = InForm(
    "Noise",
    "simulation",
    "simulation: repeatable, and the model is not for release. release: secret noise.",
)


class NoMechanism(UpdateMechanism):
    """Updates leave as they are: no guarantee."""

    gains_from_coins, hides_choices, protects = False, True, False
    mechanism: Literal["none"]
    noise: Annotated[Noise, _NOISE] = "simulation"


class EpsilonTarget(SpecPart):
    """The epsilon, at the mechanism's delta, that all planned rounds may cost the most charged
    subject, in place of a noise multiplier: the smallest multiplier that meets it is computed."""

    epsilon: Annotated[
        Epsilon,
        InForm(
            "Budget: epsilon",
            hint="In place of the noise multiplier: the smallest that meets it for all rounds "
            "together is found. Empty: the multiplier counts.",
        ),
    ]
    delta: Annotated[Delta, FILLED]
    """That of the mechanism: either is filled in from the other."""

    @property
    def amount(self) -> float:
        """The figure that is asked for."""
        return self.epsilon


class LeakageTarget(SpecPart):
    """Leakage of a client drawn in every round, likewise."""

    leakage: Annotated[
        Annotated[float, Field(gt=0, le=1e15)],
        InForm(
            "Budget: leakage",
            hint="In place of the noise multiplier: the smallest that meets it for a client drawn "
            "in every round is found. Empty: the multiplier counts.",
        ),
    ]

    @property
    def amount(self) -> float:
        """The figure that is asked for."""
        return self.leakage


class NoisedUpdates(UpdateMechanism):
    """A mechanism whose noise is set by a multiplier, or by a target that it meets."""

    noise_multiplier: float
    target: EpsilonTarget | LeakageTarget | None

    def faults(self) -> Refusals:
        if self.target is None and self.is_unsolved:
            yield refuse_at(
                "/privacy/noise_multiplier",
                "is required; or give `target`, the budget of all rounds together, and the "
                "smallest multiplier that meets it is found",
            )

    @property
    def is_unsolved(self) -> bool:
        """Whether the noise multiplier is yet to be found."""
        return self.noise_multiplier == UNSOLVED


class LaplaceL2(NoisedUpdates):
    """The Laplace mechanism under Euclidean distance (Galli et al., Lemma 4.1, Algorithm 2)."""

    gains_from_coins, hides_choices = False, True
    mechanism: Literal["laplace-l2"]
    noise_multiplier: Annotated[
        Annotated[float, Field(ge=1e-12, le=1e12), BeforeValidator(_some_noise)], _NU, _OR_TARGET
    ]
    """nu: a release costs n/nu within its radius, a number that must stay finite."""
    target: Annotated[LeakageTarget | None, _TARGET] = None
    """A budget in place of `noise_multiplier`; answered and stored with the multiplier found."""
    radius: Annotated[
        Literal["adaptive"] | Radius, BeforeValidator(_adaptive_or_a_radius), _RADIUS
    ] = "adaptive"
    """`adaptive` is the update's norm (Algorithm 2, heuristic); a number is public and fixed."""
    radius_floor: Radius = 1e-6
    """Public lower bound on an adaptive radius."""
    clip: Annotated[Clip | None, _CLIP] = None
    """Bound on the norm of a whole update before noise."""
    per_layer: Annotated[bool, InForm("Each layer by itself")] = False
    """Whether each layer of the network has its own noise, with its dimension and radius: an
    adaptive radius is the norm of the layer's update, a number holds for every layer."""
    client_budget: Annotated[
        Annotated[float, Field(gt=0, le=1e15)] | None,
        InForm(
            "Client budget",
            hint="Leakage that no client passes; it then takes no further part. Empty: none.",
        ),
    ] = None
    """Leakage that no client may pass; it takes no further part before it would."""
    noise: Annotated[Noise, _NOISE] = "simulation"

    @property
    def has_noise_per_layer(self) -> bool:
        return self.per_layer

    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        yield from super().disagreements(training=training, federation=federation)
        adaptive = self.radius == "adaptive"
        if adaptive and self.clip is not None and self.clip < self.radius_floor:
            yield refuse_at(
                "/privacy/clip",
                f"must not lie below radius_floor ({self.radius_floor}), which it would never "
                "reach; raise the clip or lower the floor",
            )


class AdaptiveClip(SpecPart):
    """A clip that follows a quantile of the updates' norms (Andrew et al. 2021)."""

    initial: Clip
    quantile: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The share of updates that the clip should leave as they are."""
    step_size: Annotated[float, Field(gt=0, le=10)] = 0.2
    count_noise: Annotated[float, Field(gt=0, le=1e9)]
    """Standard deviation of the noise on the number of updates within the clip. It takes part of
    `noise_multiplier`, which bounds both together; a twentieth of the cohort is usual."""


class Adaptive(SpecPart):
    """`{adaptive: {...}}`, in place of a number."""

    adaptive: AdaptiveClip


class GaussianUpdates(NoisedUpdates):
    """What both Gaussian mechanisms of whole updates have."""

    noise_multiplier: Annotated[GaussianNoise, _NU, _OR_TARGET]
    """With an adaptive clip this bounds the update and the count together."""
    target: Annotated[EpsilonTarget | None, _TARGET] = None
    """A budget in place of `noise_multiplier`; answered and stored with the multiplier found."""
    delta: Annotated[Delta, _DELTA, FILLED]

    def faults(self) -> Refusals:
        yield from super().faults()
        if self.target is not None and self.target.delta != self.delta:
            yield refuse_at(
                "/privacy/target/delta",
                f"is that of the mechanism, which is {self.delta:g}; give one of the two, or both "
                "alike",
            )


class Correlation(SpecPart):
    """Noise that is correlated over rounds, which is retired: stored specs have it."""

    kind: Literal["banded"] = "banded"
    bands: Annotated[int, Field(ge=2, le=64)]
    """Rounds, one after the other, that the noise of one was spread over."""


class GaussianCentral(GaussianUpdates):
    """Clipped updates are added up by a trusted server, which adds Gaussian noise to the sum.

    Protects clients against those who see models, not against the server. A fixed cohort is
    accounted for under replace-one, by `rdp`; others under add-or-remove-one, by `rdp` or `pld`.
    """

    gains_from_coins, hides_choices = True, True
    mechanism: Literal["gaussian-central"]
    clip: Annotated[
        Annotated[Clip, Tag("[number]")] | Annotated[Adaptive, Tag("[adaptive]")],
        Discriminator(
            lambda clip: "[adaptive]" if isinstance(clip, dict | Adaptive) else "[number]"
        ),
        _CLIP,
    ]
    accountant: Annotated[AccountantName, _ACCOUNTANT] = "rdp"
    epsilon_budget: Annotated[Epsilon | None, _EPSILON_BUDGET] = None
    """Epsilon at `delta` that no model may pass: the run ends before the round that would."""
    correlation: Annotated[
        Correlation | None, Field(exclude_if=lambda correlation: correlation is None)
    ] = None
    """Retired."""
    noise: Annotated[Noise, _NOISE] = "simulation"

    @property
    def adaptive_clip(self) -> AdaptiveClip | None:
        """How the clip moves; None where it is a number."""
        return self.clip.adaptive if isinstance(self.clip, Adaptive) else None

    @property
    def initial_clip(self) -> float:
        return self.clip.adaptive.initial if isinstance(self.clip, Adaptive) else self.clip

    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        yield from super().disagreements(training=training, federation=federation)
        match self.accountant:
            case "pld" if training.asked_clients is not None:
                yield refuse_at(
                    "/privacy/accountant",
                    "a cohort of fixed size has a bound from `rdp` only: use `accountant: rdp`, or "
                    "keep `pld` with `cohort: {sampling: poisson, rate: ...}`",
                )
            case "pld" | "rdp":
                pass
            case _:
                assert_never(self.accountant)
        every = training.block
        fewer = training.rounds // every * every
        if fewer != training.rounds:
            instead = f"{fewer} or {fewer + every}" if fewer else str(every)
            yield refuse_at(
                "/training/rounds",
                f"must be a multiple of cohort.every = {every}: clients are drawn, and charged, "
                f"for whole blocks of rounds; use {instead}",
            )
        if training.hypotheses > 1 and not training.reports_choices:
            yield refuse_at(
                "/training/clustering/method",
                "the server of gaussian-central sees sums and no single uploads to cluster: with "
                "several hypotheses each client says which one it chose; use `method: reported`",
            )
        clip = self.adaptive_clip
        if clip is not None and 2 * clip.count_noise <= self.noise_multiplier:
            yield refuse_at(
                "/privacy/clip/adaptive/count_noise",
                "is too little: the count alone would spend what noise_multiplier allows for both; "
                f"it must exceed {self.noise_multiplier / 2:g}",
            )


class GaussianDistance(UpdateMechanism):
    """The server's noise depends on how far apart clients are, which proves nothing: heuristic.

    Sainz-Pardo Diaz et al., "Metric-privacy-inspired noise calibration in federated learning",
    Knowledge-Based Systems 343 (2026), section 6: clipped updates are averaged, with noise of
    standard deviation noise_multiplier * clip / (clients * d), d being the largest distance between
    two clients' models in that round. The server is trusted with every model.
    """

    gains_from_coins, hides_choices = False, False
    mechanism: Literal["gaussian-distance"]
    noise_multiplier: Annotated[GaussianNoise, _NU]
    """Over the clip, at a distance of 1: there is less noise the farther apart clients are."""
    clip: Annotated[Clip, _CLIP]
    distance_floor: Radius = 1e-6
    """Public lower bound on the distance: models that are all alike would get endless noise."""
    noise: Annotated[Noise, _NOISE] = "simulation"

    @property
    def initial_clip(self) -> float:
        return self.clip

    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        yield from super().disagreements(training=training, federation=federation)
        if training.asked_clients == 1:
            yield refuse_at(
                "/training/cohort/clients",
                f"{self.mechanism} measures the distance between two clients; draw at least 2",
            )


class GaussianLocal(GaussianUpdates):
    """Each client clips its own update and adds Gaussian noise before sending it. Protects a
    client's dataset against the server and everyone after it, between any two datasets that it may
    hold."""

    gains_from_coins, hides_choices = False, False
    mechanism: Literal["gaussian-local"]
    clip: Annotated[Clip, _CLIP]
    accountant: Annotated[AccountantName, _ACCOUNTANT] = "rdp"
    epsilon_budget: Annotated[Epsilon | None, _EPSILON_BUDGET] = None
    """Epsilon at `delta` that no client may pass; it takes no further part before it would."""
    noise: Annotated[Noise, _NOISE] = "simulation"


Distribution = Literal["three-levels", "bounded-pareto", "bounded-mix-gauss"]


class RecordBudgets(SpecPart):
    """Where the records' budgets come from: one of the two."""

    distribution: Annotated[Distribution | None, InForm("Records' budgets", "three-levels")] = None
    """Drawn for each record with the experiment's seed, and brought into [epsilon_min,
    epsilon_max] (rPDP-FL, CCS 2024)."""
    column: Text | None = None
    """A column of the table with each record's budget: lowered to epsilon_max, never raised."""

    def faults(self) -> Refusals:
        if (self.distribution is None) == (self.column is None):
            yield refuse("give either a `distribution` or a `column` of the table")


Baseline = Literal["privacy-free", "uniform", "strong-for-all", "dropout", "filter"]


class RecordPersonalised(MechanismPart):
    """Every record is sampled as often as its own budget allows (rPDP-FL, CCS 2024).

    The noise is the least with which a record in every batch spends at most `epsilon_max`, by
    public numbers alone; the records' rates follow from their budgets.
    """

    has_noise_per_layer: ClassVar[bool] = False
    draws_by_record: ClassVar[bool] = True
    initial_clip: ClassVar[None] = None
    mechanism: Literal["record-personalised"]
    budgets: RecordBudgets
    epsilon_min: Annotated[Epsilon, InForm("Smallest budget", "0.1")] = 0.1
    epsilon_max: Annotated[Epsilon, InForm("Largest budget", "10")] = 10.0
    delta: Annotated[Delta, _DELTA]
    clip: Annotated[Clip, _CLIP] = 1.0
    """Bound on the norm of a record's gradient."""
    client_rate: Rate | None = None
    """The rate of the training cohort: either is filled in from the other."""
    inversion: Literal["exact", "curve-fit"] = "exact"
    """How a budget becomes a rate: by the accountant itself, or by the authors' fit, which lets
    small budgets be exceeded."""
    baseline: Baseline | None = None
    """What the paper compares with, in place of personalised rates."""
    uniform_epsilon: Epsilon = 5.0
    """What every record may spend under the baseline `uniform`."""
    noise: Annotated[Noise, _NOISE] = "simulation"

    @model_validator(mode="before")
    @classmethod
    def _has_no_target(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("target") is not None:
            raise refuse_at(
                "/privacy/target",
                "record-personalised finds its noise from the records' budgets; give the largest "
                "as `epsilon_max` in its place",
            )
        return value

    def faults(self) -> Refusals:
        if self.epsilon_min > self.epsilon_max:
            yield refuse_at(
                "/privacy/epsilon_min",
                f"must not exceed epsilon_max = {self.epsilon_max:g}; lower it or raise the other",
            )

    @property
    def budget_column(self) -> str | None:
        return self.budgets.column

    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        cohort = training.cohort
        if not isinstance(cohort, PoissonCohort):
            yield refuse_at(
                "/training/cohort/sampling",
                "record-personalised draws clients by coins: use {sampling: poisson, rate: ...}, "
                "rate 1 for everyone in every round",
            )
        elif self.client_rate not in (None, cohort.rate):
            yield refuse_at(
                "/privacy/client_rate",
                f"is the rate of the cohort, which is {cohort.rate:g}; give one of the two, or "
                "both alike",
            )
        yield from self._check_steps(training)
        yield from self._check_budgets(federation)

    def _check_steps(self, training: Training) -> Refusals:
        yield from check_one_hypothesis(self.mechanism, training)
        if training.local.steps is None:
            yield refuse_at(
                "/training/local/steps",
                "is required: records are drawn anew in every step, and epsilon counts steps; give "
                "`steps` in place of `epochs`",
            )
        if training.root_mean:
            yield refuse_at(
                "/training/loss",
                "the root of a mean has no gradient for each record to clip; use `mse` or "
                "`cross-entropy`",
            )
        if self.baseline is not None and training.local.batch_size is None:
            yield refuse_at(
                "/training/local/batch_size",
                f"is required: the baseline {self.baseline} draws so many records in each step on "
                "average",
            )

    def _check_budgets(self, federation: FederationSpec) -> Refusals:
        column = self.budgets.column
        if column is None:
            return
        training_columns = federation.traits.training_columns
        if training_columns is None:
            yield refuse_at(
                "/privacy/budgets/column",
                f"{federation.source} has no columns of its caller's; use a `distribution`, or the "
                "source `table`",
            )
        elif column in training_columns:
            yield refuse_at(
                "/privacy/budgets/column",
                f"{column!r} is a feature or the target; budgets need a separate column",
            )


PrivacySpec = Annotated[
    NoMechanism
    | LaplaceL2
    | GaussianCentral
    | GaussianDistance
    | GaussianLocal
    | RecordPersonalised,
    Field(discriminator="mechanism"),
]
