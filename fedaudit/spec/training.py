"""How the model is trained: the arguments of Algorithm 1 (Galli et al., section 4)."""

from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import BeforeValidator, Field, model_validator

from fedaudit.spec.base import SpecPart
from fedaudit.spec.methods.method_kinds import DEFAULT_METHOD, TrainingMethod


class FixedCohort(SpecPart):
    """A fixed number of clients each round, without replacement."""

    sampling: Literal["fixed"] = "fixed"
    clients: Annotated[int, Field(ge=1, le=1_000_000)]
    """U: clients asked to take part in a round."""


class PoissonCohort(SpecPart):
    """Every training client takes part in a round by a coin of its own; nobody may come."""

    sampling: Literal["poisson"]
    rate: Annotated[float, Field(gt=0, le=1)]
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

    epochs: Annotated[int, Field(ge=1, le=1000)] | None = 1
    """E; null where `steps` is given."""
    steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Local steps, instead of epochs."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """B_s; null is the client's whole data."""
    step_size: Annotated[float, Field(gt=0, le=1e6)] = 0.1
    optimiser: Optimiser = "sgd"
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

    patience: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Validations in a row without a lower selection loss; null never stops early."""
    validate_every: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    validation_clients: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Held-out clients drawn for each validation; null takes them all."""


def is_validated(number: int, *, every: int, last_round: int) -> bool:
    """Whether a round is validated: each that `every` divides, and always the last one."""
    return number % every == 0 or number == last_round


class Training(SpecPart):
    """Rounds of sampling, local updates, clustering and averaging."""

    loss: Loss
    # Specs came before this field: where it is the default it is left out of what is hashed.
    method: Annotated[TrainingMethod, Field(exclude_if=lambda method: method == DEFAULT_METHOD)] = (
        DEFAULT_METHOD
    )
    """What clients send, and whether those held out make models of their own."""
    hypotheses: Annotated[int, Field(ge=1, le=1000)] = 1
    """k."""
    rounds: Annotated[int, Field(ge=1, le=1_000_000)]
    """T."""
    cohort: Cohort
    local: Local = Local()
    clustering: Clustering = KMeans(method="k-means")
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
