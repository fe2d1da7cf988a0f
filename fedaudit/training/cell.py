"""One experiment as training sees it. No torch."""

from dataclasses import dataclass

from fedaudit.federations.federation import Federation
from fedaudit.networks.shape import DenseShape, dense_shape
from fedaudit.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class Cell:
    """A spec and its data."""

    spec: ExperimentSpec
    federation: Federation

    @property
    def shape(self) -> DenseShape:
        """The network's layers over this federation's features."""
        return dense_shape(
            self.spec.model,
            features=self.federation.features.shape[2],
            classes=len(self.federation.classes),
        )


def stack_key(cell: Cell) -> tuple[object, ...]:
    """Cells with equal keys can be trained side by side.

    Seeds, noise multipliers, radii, budgets, rounds and patience may differ between them.
    """
    training = cell.spec.training
    return (
        cell.shape,
        cell.federation.features.shape[1:],
        tuple((attribute.name, attribute.values) for attribute in cell.federation.attributes),
        cell.federation.clients,
        cell.federation.classes,
        cell.federation.target_scale,
        cell.spec.federation.validation_fraction,
        training.loss,
        training.hypotheses,
        training.cohort,
        training.local,
        training.clustering,
        training.stopping.validate_every,
        training.stopping.validation_clients,
        cell.spec.privacy.mechanism,
        cell.spec.privacy.noise,
        cell.spec.fairness.model_dump_json(),
    )
