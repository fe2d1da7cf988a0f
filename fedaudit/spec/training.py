"""How the model is trained: the arguments of Algorithm 1 (Galli et al., section 4), and the method.

A method says what clients send in a round, and whether a held-out client makes its own model
before it is scored. No method changes what a mechanism covers: where it would, it is refused.
"""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self, assert_never, get_args

from pydantic import BeforeValidator, Field, model_validator

from fedaudit.spec.base import FILLED, InForm, SpecPart
from fedaudit.spec.errors import Refusals, refuse, refuse_at
from fedaudit.spec.models import (
    DEFAULT_SCHEDULE,
    DEFAULT_SERVER,
    Decay,
    Optimiser,
    Schedule,
    ServerOptimiser,
    StepSize,
)
from fedaudit.spec.sources import LeaveOneOut, RowSplit, Source

_PERSONAL_STEPS = InForm(
    "Personal steps", "10", "Local steps, each over all rows that a client tunes its own model on."
)
_PERSONAL_STEP_SIZE = InForm("Personal step size", hint="Empty: the step size of rounds.")
PersonalStepCount = Annotated[int, Field(ge=1, le=10_000)]


class MethodPart(SpecPart):
    """A method; its class answers every question here."""

    personalises: ClassVar[bool]
    """Whether a held-out client is scored by its own model, made from some of its rows."""
    releases: ClassVar[bool]
    """Whether anything leaves a client that trains."""
    offers_hypotheses: ClassVar[bool]
    """Whether clients may choose from several hypotheses."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The literal of `kind`."""
        found: tuple[str, ...] = get_args(cls.model_fields["kind"].annotation)
        return found

    @abstractmethod
    def uncovered(self, mechanism: str) -> str | None:
        """What the method sends that a mechanism's clip and noise do not cover, and the remedy;
        None where they cover all of it. Not asked without a mechanism."""

    def disagreements(self, training: "Training", *, mechanism: str, source: Source) -> Refusals:
        """Every fault between the method and the rest, each with its field and the remedy."""
        kind = self.names()[0]
        match source.scoring:
            case LeaveOneOut() if self.personalises and not source.holds_out_rows:
                yield refuse_at(
                    "/federation/scoring",
                    f"{kind} makes a model of each held-out client's rows, which must not be scored"
                    " on the same rows; use {method: split, fraction: 0.5}",
                )
            case LeaveOneOut() | RowSplit():
                pass
            case _:
                assert_never(source.scoring)
        if training.hypotheses > 1 and not self.offers_hypotheses:
            yield refuse_at(
                "/training/hypotheses", f"{kind} gives clients no hypotheses to choose from; use 1"
            )
        if mechanism != "none" and (fault := self.uncovered(mechanism)) is not None:
            yield refuse_at("/training/method/kind", fault)


class Hypotheses(MethodPart):
    """k hypotheses (Galli et al., Algorithm 1), of which FedAvg (k = 1) and IFCA are cases."""

    personalises, releases, offers_hypotheses = False, True, True
    kind: Literal["hypotheses"]

    def uncovered(self, mechanism: str) -> None:
        return None


class _TunedMethod(MethodPart):
    """A method that ends with each client's own steps."""

    def uncovered(self, mechanism: str) -> str | None:
        """Training record by record has its own way, which does not go with these."""
        if mechanism != "record-personalised":
            return None
        return (
            f"{mechanism} gives each record a budget for training, and none for {self.names()[0]}; "
            "use `hypotheses`, or a mechanism of whole updates"
        )


class FineTuning(_TunedMethod):
    """Like `hypotheses`; then each client takes steps from its hypothesis on its own rows."""

    personalises, releases, offers_hypotheses = True, True, True
    kind: Literal["fine-tuning"]
    steps: Annotated[PersonalStepCount, _PERSONAL_STEPS] = 10
    """Local steps, each over all rows that the client tunes on, by the optimiser of `local`."""
    step_size: Annotated[StepSize | None, _PERSONAL_STEP_SIZE] = None
    """Null takes the step size of `local`."""


class Ditto(_TunedMethod):
    """A model by FedAvg, and for each client its own model that is held near it (Li et al. 2021).

    The personal model descends its client's loss plus `proximal`/2 times the squared distance from
    the common model.
    """

    personalises, releases, offers_hypotheses = True, True, False
    kind: Literal["ditto"]
    proximal: Annotated[
        Annotated[float, Field(ge=0, le=1e6)],
        InForm("Pull towards the common model (lambda)", "0.1", "0: none, as fine-tuning."),
    ] = 0.1
    """lambda."""
    steps: Annotated[PersonalStepCount, _PERSONAL_STEPS] = 10
    """The same as in `fine-tuning`."""
    step_size: Annotated[StepSize | None, _PERSONAL_STEP_SIZE] = None
    """Null takes the step size of `local`."""


class QFfl(MethodPart):
    """Clients with a larger loss count for more: q-FedAvg (Li et al. 2020, Algorithm 2)."""

    personalises, releases, offers_hypotheses = False, True, False
    kind: Literal["q-ffl"]
    q: Annotated[
        Annotated[float, Field(ge=0, le=100)],
        InForm("Weight of large losses (q)", "1", "0: FedAvg."),
    ] = 1.0
    """The power of a client's loss that its update is weighted by."""

    def disagreements(self, training: "Training", *, mechanism: str, source: Source) -> Refusals:
        yield from super().disagreements(training, mechanism=mechanism, source=source)
        local = training.local
        for name, changed in (
            ("optimiser", local.optimiser != "sgd"),
            ("momentum", local.momentum > 0),
            ("schedule", local.schedule != DEFAULT_SCHEDULE),
        ):
            if changed:
                yield refuse_at(
                    f"/training/local/{name}",
                    "q-ffl takes 1 / step_size for how fast gradients change, which is for plain "
                    "gradient descent with one step size; leave it out, or use another method",
                )

    def uncovered(self, mechanism: str) -> str:
        return (
            "q-ffl weights an update by the client's loss and sends a number made of both beside "
            f"it, by which the server divides; clip and noise of {mechanism} are for the update "
            "alone, and its figures would not hold; use `mechanism: none`, or another method"
        )


class LocalOnly(MethodPart):
    """Every client trains its own model on its own rows, and nothing is sent.

    No round is played: of `rounds`, `cohort`, `server`, `stopping` and `local` nothing has an
    effect but the step size and the optimiser.
    """

    personalises, releases, offers_hypotheses = True, False, False
    kind: Literal["local-only"]
    steps: Annotated[PersonalStepCount, _PERSONAL_STEPS] = 100
    """Local steps from `model.start`, each over all rows that the client trains on, by the
    optimiser of `local`."""
    step_size: Annotated[StepSize | None, _PERSONAL_STEP_SIZE] = None
    """Null takes the step size of `local`."""

    def uncovered(self, mechanism: str) -> str:
        return (
            f"local-only sends nothing that {mechanism} could protect, and a figure of it would be "
            "of nothing; use `mechanism: none`, or another method"
        )


TrainingMethod = Annotated[
    Hypotheses | FineTuning | Ditto | QFfl | LocalOnly,
    Field(discriminator="kind"),
    BeforeValidator(lambda method: {"kind": method} if isinstance(method, str) else method),
]
"""Given by its fields, or by its kind alone."""
DEFAULT_METHOD = Hypotheses(kind="hypotheses")


class FixedCohort(SpecPart):
    """A fixed number of clients each round, without replacement."""

    every: ClassVar = 1
    sampling: Literal["fixed"] = "fixed"
    clients: Annotated[int, Field(ge=1, le=1_000_000), InForm("Clients drawn (U)", "70")]
    """U: clients asked to take part in a round."""


class PoissonCohort(SpecPart):
    """Every training client takes part in a round by its own coin; a round may be empty."""

    every: ClassVar = 1
    sampling: Literal["poisson"]
    rate: Annotated[
        float,
        Field(gt=0, le=1),
        InForm("Chance of each client", "0.1", "1: every client in every round."),
    ]
    """The chance of each client in each round."""


MOST_ROUNDS_OF_BLOCK = 1000


class AllocationCohort(SpecPart):
    """Every training client takes part in exactly one round of every block of rounds, which is
    drawn for it anew in each block and kept secret: random allocation, or balls-and-bins."""

    sampling: Literal["allocation"]
    every: Annotated[
        int,
        Field(ge=2, le=MOST_ROUNDS_OF_BLOCK),
        InForm("Rounds of a block", "10", "Each client takes part in one round of every block."),
    ]
    """Rounds of a block."""


class RotationCohort(SpecPart):
    """Every training client takes part in the same public round of every block. Retired: stored
    specs have it, and nothing is trained by it any more."""

    sampling: Literal["rotation"]
    every: Annotated[int, Field(ge=2, le=MOST_ROUNDS_OF_BLOCK)]
    """Rounds of a block."""


Loss = Literal["rmse", "mse", "cross-entropy"]
_ROOT_MEAN: dict[Loss, bool] = {"rmse": True, "mse": False, "cross-entropy": False}
_COMPARES_CLASSES: dict[Loss, bool] = {"rmse": False, "mse": False, "cross-entropy": True}
_WORDS: dict[Optimiser, str] = {"sgd": "gradient descent", "adam": "Adam", "rmsprop": "RMSprop"}
Cohort = Annotated[
    FixedCohort | PoissonCohort | AllocationCohort | RotationCohort,
    Field(discriminator="sampling"),
    BeforeValidator(
        lambda cohort: {"sampling": "fixed", **cohort} if isinstance(cohort, dict) else cohort
    ),
]
DrawnCohort = FixedCohort | PoissonCohort | AllocationCohort
"""Cohorts of runs that can be trained."""


StoppedBy = Literal["rounds", "patience", "budget", "audit", "diverged"]
"""Why training ended: all rounds were played, validation losses did not improve, another round
would pass `epsilon_budget`, canaries beside it proved its noise too small, or a loss was not
finite."""


class Local(SpecPart):
    """What a client does with the hypothesis it chose."""

    epochs: Annotated[
        Annotated[int, Field(ge=1, le=1000)] | None,
        InForm("Local epochs (E)", hint="Empty: 1, or steps instead."),
    ] = 1
    """E; null where `steps` is given."""
    steps: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        InForm("Local steps", hint="Instead of epochs; record-personalised needs them."),
    ] = None
    """Local steps, instead of epochs."""
    batch_size: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000)] | None,
        InForm("Batch size", hint="Empty: all of a client's data."),
    ] = None
    """B_s; null is the client's whole data."""
    step_size: Annotated[StepSize, InForm("Step size", "0.1")] = 0.1
    optimiser: Annotated[
        Optimiser, InForm("Optimiser", "sgd", "adam needs less care with the step size.")
    ] = "sgd"
    """`sgd`, or with the constants of their papers `adam` (Kingma and Ba 2015) or `rmsprop`. It
    starts anew in each client's round: a client remembers nothing between rounds."""
    momentum: Annotated[
        Decay,
        Field(exclude_if=lambda momentum: momentum == 0),
        InForm("Momentum", hint="Of sgd, below 1. Empty: none."),
    ] = 0.0
    """How much of the last step's direction `sgd` keeps (heavy ball, not Nesterov's)."""
    schedule: Annotated[
        Schedule, Field(exclude_if=lambda schedule: schedule == DEFAULT_SCHEDULE)
    ] = DEFAULT_SCHEDULE
    """How the step size changes over rounds. Steps of models that clients keep do not follow it."""

    @model_validator(mode="before")
    @classmethod
    def _steps_replace_epochs(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("steps") is not None:
            return {"epochs": None, **value}
        return value

    def faults(self) -> Refusals:
        if (self.epochs is None) == (self.steps is None):
            yield refuse("give either `epochs` or `steps`")
        if self.momentum and self.optimiser != "sgd":
            yield refuse_at(
                "/training/local/momentum",
                f"{self.optimiser} keeps its own means; leave `momentum` out, or use `sgd`",
            )

    @property
    def descends_plainly(self) -> bool:
        """Whether a step is the step size times the gradient."""
        return self.optimiser == "sgd" and not self.momentum

    @property
    def whole_steps(self) -> int:
        """Steps of a client that sees all of its rows in each."""
        return self.steps or self.epochs or 1

    @property
    def words(self) -> str:
        """The optimiser, for a sentence."""
        return _WORDS[self.optimiser] + (" with momentum" if self.momentum else "")


EmptyCluster = Literal["keep", "relocate"]
_RELOCATES: dict[EmptyCluster, bool] = {"keep": False, "relocate": True}


class KMeans(SpecPart):
    """The server clusters the sanitised uploads, starting from the current hypotheses."""

    reports_choices: ClassVar = False
    method: Literal["k-means"]
    empty_cluster: EmptyCluster = "keep"
    """`keep` the hypothesis, or `relocate` it to the farthest upload."""


class Reported(SpecPart):
    """Clients report the hypothesis they chose: IFCA (Ghosh et al. 2020)."""

    reports_choices: ClassVar = True
    method: Literal["reported"]


Clustering = Annotated[KMeans | Reported, Field(discriminator="method")]


class Stopping(SpecPart):
    """When training ends before its last round."""

    patience: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000)] | None,
        InForm("Patience", hint="Validations in a row without a lower loss. Empty: all rounds."),
    ] = None
    """Validations in a row without a lower selection loss; null never stops early."""
    validate_every: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    validation_clients: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Held-out clients drawn for each validation; null takes them all."""


class Training(SpecPart):
    """Rounds of sampling, local updates, clustering and averaging."""

    loss: Annotated[Loss, InForm("Loss", "rmse")]
    # Specs came before this field: where it is the default it is left out of what is hashed.
    method: Annotated[
        TrainingMethod,
        Field(exclude_if=lambda method: method == DEFAULT_METHOD),
        InForm(
            "Method",
            DEFAULT_METHOD.kind,
            "Clients' own models are scored on rows that they were not made from: for these choose "
            "how held-out rows are split, under Data.",
            {
                "hypotheses": "hypotheses: clients choose among k models",
                "fine-tuning": "fine-tuning: of these, each client makes its own",
                "ditto": "ditto: a common model, and each client's own near it",
                "q-ffl": "q-ffl: large losses count for more",
                "local-only": "local-only: nothing is sent",
            },
        ),
    ] = DEFAULT_METHOD
    """What clients send, and whether those held out make their own models."""
    hypotheses: Annotated[
        int,
        Field(ge=1, le=1000),
        InForm("Hypotheses (k)", "1", "Models that clients choose from. 1: the same for everyone."),
    ] = 1
    """k."""
    rounds: Annotated[int, Field(ge=1, le=1_000_000), InForm("Rounds at most (T)", "100")]
    """T."""
    cohort: Annotated[
        Cohort,
        InForm(
            "Clients of a round",
            "fixed",
            "Coins go with gaussian-central and record-personalised, blocks with gaussian-central.",
            {
                "fixed": "fixed number",
                "poisson": "poisson coins",
                "allocation": "once in every block of rounds, in secret",
            },
            left_out=("rotation",),
        ),
        FILLED,
    ]
    local: Local = Local()
    clustering: Annotated[
        Clustering,
        InForm(
            "Clustering",
            "k-means",
            "k-means: the server clusters uploads. reported: clients say what they chose.",
        ),
    ] = KMeans(method="k-means")
    server: Annotated[
        ServerOptimiser,
        Field(exclude_if=lambda server: server == DEFAULT_SERVER),
        InForm(
            "Server",
            DEFAULT_SERVER.optimiser,
            "What it makes of a round's average, which costs no privacy.",
            {
                "average": "average: takes it",
                "momentum": "momentum: FedAvgM",
                "adam": "adam: FedAdam",
            },
        ),
    ] = DEFAULT_SERVER
    """How a hypothesis moves by the average of the uploads in its cluster less itself. A hypothesis
    without an upload stays as it is; one that is relocated starts anew."""
    stopping: Stopping = Stopping()

    def faults(self) -> Refusals:
        if self.local.schedule.warm_up >= self.rounds:
            yield refuse_at(
                "/training/local/schedule/warm_up",
                f"must be below `rounds` ({self.rounds}), so that a round takes whole steps",
            )

    def step_size(self, round_: int) -> float:
        """What a local step of a round, from 1, multiplies its direction by."""
        return self.local.step_size * self.local.schedule.share(round_, rounds=self.rounds)

    @property
    def of_one_round(self) -> Self:
        """The same for a round beside the run: with the whole step size, and averages as they
        are."""
        local = self.local.model_copy(update={"schedule": DEFAULT_SCHEDULE})
        return self.model_copy(update={"local": local, "server": DEFAULT_SERVER})

    @property
    def asked_clients(self) -> int | None:
        """How many clients each round asks; None where that is left to chance."""
        match self.cohort:
            case FixedCohort():
                return self.cohort.clients
            case PoissonCohort() | AllocationCohort() | RotationCohort():
                return None
            case _:
                assert_never(self.cohort)

    @property
    def drawn_cohort(self) -> DrawnCohort:
        """How cohorts are drawn. Raises ValueError for a retired way (`Cell` refuses it before)."""
        if isinstance(self.cohort, RotationCohort):
            raise ValueError("cohorts in rotation are retired")
        return self.cohort

    @property
    def block(self) -> int:
        """Rounds whose cohorts are drawn together, and only together are what a charge is for."""
        return self.cohort.every

    @property
    def rounds_played(self) -> int:
        """Rounds at most: none where clients send nothing."""
        return self.rounds if self.method.releases else 0

    @property
    def root_mean(self) -> bool:
        """Whether a loss is the root of the mean of its rows' values."""
        return _ROOT_MEAN[self.loss]

    @property
    def compares_classes(self) -> bool:
        """Whether the loss compares classes, and not numbers."""
        return _COMPARES_CLASSES[self.loss]

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        match self.clustering:
            case Reported():
                return False
            case KMeans():
                return _RELOCATES[self.clustering.empty_cluster]
            case _:
                assert_never(self.clustering)

    @property
    def reports_choices(self) -> bool:
        """Whether clients say which hypothesis they chose."""
        return self.clustering.reports_choices
