"""How the model is trained: the arguments of Algorithm 1 (Galli et al., section 4)."""

from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import BeforeValidator, Field, model_validator

from fedaudit.spec.base import SpecPart
from fedaudit.spec.in_form import InForm
from fedaudit.spec.methods.method_kinds import DEFAULT_METHOD, METHOD_WORDS, TrainingMethod


class FixedCohort(SpecPart):
    """A fixed number of clients each round, without replacement."""

    sampling: Literal["fixed"] = "fixed"
    clients: Annotated[int, Field(ge=1, le=1_000_000), InForm("Clients drawn (U)", "70")]
    """U: clients asked to take part in a round."""


class PoissonCohort(SpecPart):
    """Every training client takes part in a round by a coin of its own; nobody may come."""

    sampling: Literal["poisson"]
    rate: Annotated[
        float,
        Field(gt=0, le=1),
        InForm("Chance of each client", "0.1", "1: every client in every round."),
    ]
    """The chance of each client in each round."""


def _fixed_unless_said(cohort: Any) -> Any:
    if isinstance(cohort, dict) and "sampling" not in cohort:
        return {"sampling": "fixed", **cohort}
    return cohort


Loss = Literal["rmse", "mse", "cross-entropy"]
Optimiser = Literal["sgd", "adam", "rmsprop"]
Cohort = Annotated[
    FixedCohort | PoissonCohort,
    Field(discriminator="sampling"),
    BeforeValidator(_fixed_unless_said),
]


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
    step_size: Annotated[float, Field(gt=0, le=1e6), InForm("Step size", "0.1")] = 0.1
    optimiser: Annotated[
        Optimiser, InForm("Optimiser", "sgd", "adam and rmsprop are for record-personalised.")
    ] = "sgd"
    """`adam` and `rmsprop` are for `record-personalised`, whose steps have noise in them."""

    @model_validator(mode="before")
    @classmethod
    def _steps_replace_epochs(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("steps") is not None:
            return {"epochs": None, **value}
        return value

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either `epochs` or `steps`")
        return self


class KMeans(SpecPart):
    """The server clusters the sanitised uploads, starting from the current hypotheses."""

    method: Literal["k-means"]
    empty_cluster: Literal["keep", "relocate"] = "keep"
    """`keep` the hypothesis, or `relocate` it to the farthest upload."""

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        match self.empty_cluster:
            case "keep":
                return False
            case "relocate":
                return True
            case _:
                assert_never(self.empty_cluster)


class Reported(SpecPart):
    """Clients report the hypothesis they chose: IFCA (Ghosh et al. 2020)."""

    method: Literal["reported"]


Clustering = Annotated[KMeans | Reported, Field(discriminator="method")]


class Stopping(SpecPart):
    """When training ends before its last round."""

    patience: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000)] | None,
        InForm("Patience", "30", "Validations in a row without a lower loss. Empty: all rounds."),
    ] = None
    """Validations in a row without a lower selection loss; null never stops early."""
    validate_every: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    validation_clients: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Held-out clients drawn for each validation; null takes them all."""


def is_validated(number: int, *, every: int, last_round: int) -> bool:
    """Whether a round is validated: each that `every` divides, and always the last one."""
    return number % every == 0 or number == last_round


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
            METHOD_WORDS,
        ),
    ] = DEFAULT_METHOD
    """What clients send, and whether those held out make models of their own."""
    hypotheses: Annotated[
        int,
        Field(ge=1, le=1000),
        InForm("Hypotheses (k)", "2", "Models that clients choose from. 1: the same for everyone."),
    ] = 1
    """k."""
    rounds: Annotated[int, Field(ge=1, le=1_000_000), InForm("Rounds at most (T)", "200")]
    """T."""
    cohort: Annotated[
        Cohort,
        InForm(
            "Clients of a round",
            "fixed",
            "Coins go with gaussian-central and record-personalised.",
            {"fixed": "fixed number", "poisson": "poisson coins"},
        ),
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
    stopping: Stopping = Stopping()

    @property
    def rounds_played(self) -> int:
        """Rounds at most: none where clients send nothing."""
        return self.rounds if self.method.releases else 0

    @property
    def root_mean(self) -> bool:
        """Whether a loss is the root of the mean of its rows' values."""
        match self.loss:
            case "rmse":
                return True
            case "mse" | "cross-entropy":
                return False
            case _:
                assert_never(self.loss)

    @property
    def compares_classes(self) -> bool:
        """Whether the loss is that of classes, and not of numbers."""
        match self.loss:
            case "cross-entropy":
                return True
            case "rmse" | "mse":
                return False
            case _:
                assert_never(self.loss)

    @property
    def relocates(self) -> bool:
        """Whether an empty cluster is moved to the farthest upload."""
        match self.clustering:
            case KMeans():
                return self.clustering.relocates
            case Reported():
                return False
            case _:
                assert_never(self.clustering)

    @property
    def reports_choices(self) -> bool:
        """Whether clients say which hypothesis they chose."""
        match self.clustering:
            case KMeans():
                return False
            case Reported():
                return True
            case _:
                assert_never(self.clustering)
