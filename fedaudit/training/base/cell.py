"""One experiment as input to training. No torch."""

from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.split import training_clients
from fedaudit.networks.shape import NetworkShape, network_shape
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import refuse_small_clip
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.length_classes import are_even
from fedaudit.training.base.planted import Planted


@dataclass(frozen=True)
class Cell:
    """A spec and its data."""

    spec: ExperimentSpec
    federation: Federation
    start: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    """[hypotheses, n]: the parameters of the artifact that the spec starts from."""
    planted: Planted | None = field(default=None, compare=False, repr=False)
    """What an audit plants; such a cell is trained alone. None in every run itself."""

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a spec that can be read, and must not be trained."""
        refuse_small_clip(self.spec)

    @property
    def shape(self) -> NetworkShape:
        """The network's layers over this federation's features."""
        return network_shape(
            self.spec.model, features=self.federation.width, classes=len(self.federation.classes)
        )


def is_client_by_client(cell: Cell) -> bool:
    """Whether clients are computed one after the other, because their rows are not padded."""
    return isinstance(cell.federation.features, ClientRows)


def is_by_length(cell: Cell) -> bool:
    """Whether clients are computed in classes of about the same length, because padding all of them
    to the longest would cost too much, or because all of them together are too large."""
    if is_client_by_client(cell):
        return False
    return cell.federation.is_large or not are_even(cell.federation.counts)


def stands_alone(cell: Cell) -> bool:
    """Whether a cell has nothing to gain from others beside it, and is always trained alone."""
    return is_client_by_client(cell) or is_by_length(cell) or cell.planted is not None


def cohort_clients(cell: Cell) -> int:
    """How many clients are drawn in a round. Raises ValueError where coins decide the number."""
    cohort = cell.spec.training.cohort
    match cohort:
        case FixedCohort():
            return cohort.clients
        case PoissonCohort():
            raise ValueError(f"cohorts here have a fixed size; {cohort.sampling} sampling has none")
        case _:
            assert_never(cohort)


def expected_cohort(cell: Cell) -> float:
    """How many clients take part in a round on average, which is public; it may be below 1."""
    cohort = cell.spec.training.cohort
    match cohort:
        case FixedCohort():
            return float(cohort.clients)
        case PoissonCohort():
            return cohort.rate * training_clients(cell.federation.clients, cell.spec.federation)
        case _:
            assert_never(cohort)


def charges_population(cell: Cell) -> bool:
    """Whether the population is charged for every round as one subject.

    With a trusted server, ledger rows for participants would reveal who was drawn.
    """
    kind = mechanism_of(cell.spec).facts.subject_kind
    match kind:
        case "population":
            return True
        case "client" | "record_group":
            return False
        case _:
            assert_never(kind)


def ledger_subjects(cell: Cell) -> int:
    """Number of subjects in the ledger of this cell: the population as one, or every client."""
    return 1 if charges_population(cell) else cell.federation.clients


def counts_clients(spec: ExperimentSpec) -> bool:
    """Whether rounds count the held-out rows client by client: where the counts of rounds get
    noise that bounds how many rows of a client count."""
    noise = spec.fairness.noise
    return noise is not None and noise.rounds and noise.max_rows_per_client is not None


def draws_in_secret(cell: Cell) -> bool:
    """Whether coins and noise come from the operating system's entropy, and not from the seed."""
    noise = cell.spec.privacy.noise
    match noise:
        case "release":
            return True
        case "simulation":
            return False
        case _:
            assert_never(noise)
