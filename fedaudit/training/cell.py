"""One experiment as training sees it. No torch."""

from dataclasses import dataclass

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.split import training_clients
from fedaudit.networks.shape import NetworkShape, network_shape
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import GaussianCentral, is_per_layer
from fedaudit.spec.training import FixedCohort


@dataclass(frozen=True)
class Cell:
    """A spec and its data."""

    spec: ExperimentSpec
    federation: Federation

    @property
    def shape(self) -> NetworkShape:
        """The network's layers over this federation's features."""
        return network_shape(
            self.spec.model,
            features=self.federation.width,
            classes=len(self.federation.classes),
        )


def is_client_by_client(cell: Cell) -> bool:
    """Whether clients are computed one after the other, because their rows are not padded."""
    return isinstance(cell.federation.features, ClientRows)


def cohort_clients(cell: Cell) -> int:
    """How many clients are drawn in a round. Raises ValueError where that is left to coins."""
    cohort = cell.spec.training.cohort
    if not isinstance(cohort, FixedCohort):
        raise ValueError(f"cohorts here have a fixed size; {cohort.sampling} sampling has none")
    return cohort.clients


def expected_cohort(cell: Cell) -> float:
    """How many clients take part in a round on average, which is public; it may be below 1."""
    cohort = cell.spec.training.cohort
    if isinstance(cohort, FixedCohort):
        return float(cohort.clients)
    return cohort.rate * training_clients(cell.federation.clients, cell.spec.federation)


def pays_together(cell: Cell) -> bool:
    """Whether everyone is charged for every round as one subject.

    Under `gaussian-central`, rows for those who took part would tell who was drawn.
    """
    return isinstance(cell.spec.privacy, GaussianCentral)


def ledger_subjects(cell: Cell) -> int:
    """How many subjects the ledger of this cell has: everyone as one, or every client."""
    return 1 if pays_together(cell) else cell.federation.clients


def _clip_moves(cell: Cell) -> bool:
    privacy = cell.spec.privacy
    return isinstance(privacy, GaussianCentral) and privacy.adaptive_clip is not None


def stack_key(cell: Cell) -> tuple[object, ...]:
    """Cells with equal keys can be trained side by side.

    Seeds, noise multipliers, radii, clips, budgets, deltas, rounds and patience may differ between
    them. A cell that is computed client by client has nothing to gain from others and is always
    alone.
    """
    training = cell.spec.training
    return (
        id(cell) if is_client_by_client(cell) else None,
        cell.shape,
        (cell.federation.longest, cell.federation.width),
        tuple((attribute.name, attribute.values) for attribute in cell.federation.attributes),
        cell.federation.clients,
        cell.federation.classes,
        cell.federation.target_scale,
        cell.spec.federation.validation_fraction,
        cell.spec.federation.scoring,
        training.loss,
        training.hypotheses,
        training.cohort,
        training.local,
        training.clustering,
        training.stopping.validate_every,
        training.stopping.validation_clients,
        cell.spec.privacy.mechanism,
        is_per_layer(cell.spec.privacy),
        _clip_moves(cell),
        cell.spec.privacy.noise,
        cell.spec.fairness.model_dump_json(),
    )
