"""What the ways of drawing a cohort cost under `gaussian-central`, with the same noise.

Each figure is for its kind of neighbours: a smaller one under zero-out does not promise what a
larger one under replace-one does.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fedaudit.privacy.accounting.privacy_events import Adjacency, adjacency_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.privacy.mechanisms.gaussian import GaussianCentralMechanism
from fedaudit.privacy.planning.cost_projection import mean_cohort
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import GaussianCentral
from fedaudit.spec.training import (
    MOST_ROUNDS_OF_BLOCK,
    AllocationCohort,
    Cohort,
    FixedCohort,
    PoissonCohort,
    RotationCohort,
)

_WORTH_SAYING = 0.9
"""Of the cohort's own cost: what is nearer to it is no reason to change."""


@dataclass(frozen=True)
class CohortCost:
    """The epsilon of a whole run, by Renyi orders at the spec's delta."""

    cohort: Cohort
    rounds: int
    epsilon: float
    adjacency: Adjacency

    def words(self) -> str:
        """As a spec writes the cohort, and what it costs."""
        fields = ", ".join(f"{name}: {value}" for name, value in self.cohort.model_dump().items())
        return (
            f"{{{fields}}} over {self.rounds} rounds, epsilon {at_most(self.epsilon, digits=3)} "
            f"under {adjacency_words(self.adjacency)}"
        )


def cohort_costs(spec: ExperimentSpec, *, training_clients: int) -> list[CohortCost]:
    """Of the spec's own cohort, and then of the other kinds with as many clients a round.

    Empty for another mechanism than `gaussian-central`, and for cohorts in rotation: those are for
    federations whose cohorts are no secret, which the other kinds' cost rests on, and correlated
    noise is not that of another cohort. Raises ValueError where no client trains.
    """
    own = spec.training.cohort
    if not isinstance(spec.privacy, GaussianCentral) or isinstance(own, RotationCohort):
        return []
    others = [one for one in _alike(own, training_clients) if type(one) is not type(own)]
    return [_cost(spec, cohort, training_clients=training_clients) for cohort in (own, *others)]


def cheaper_cohort_words(spec: ExperimentSpec, *, training_clients: int) -> str | None:
    """What other cohorts would cost with the same noise, where one costs less by a tenth or
    more; None elsewhere."""
    costs = cohort_costs(spec, training_clients=training_clients)
    cheaper = [one for one in costs[1:] if one.epsilon < _WORTH_SAYING * costs[0].epsilon]
    if not cheaper:
        return None
    return (
        f"the same noise on as many clients a round costs less with another cohort, by Renyi "
        f"orders: {costs[0].words()} as asked for; "
        + "; ".join(one.words() for one in cheaper)
        + ". Figures of different neighbours do not promise the same"
    )


def _alike(cohort: Cohort, training_clients: int) -> Iterator[Cohort]:
    """Cohorts of each kind that have about as many clients a round."""
    drawn = mean_cohort(cohort, training_clients)
    yield FixedCohort(clients=max(1, min(round(drawn), training_clients)))
    yield PoissonCohort(sampling="poisson", rate=min(1.0, float(f"{drawn / training_clients:.3g}")))
    every = round(training_clients / drawn)
    if 2 <= every <= MOST_ROUNDS_OF_BLOCK:
        yield AllocationCohort(sampling="allocation", every=every)


def _cost(spec: ExperimentSpec, cohort: Cohort, *, training_clients: int) -> CohortCost:
    assert isinstance(spec.privacy, GaussianCentral)
    rounds = spec.training.rounds
    if isinstance(cohort, AllocationCohort):
        rounds = -(-rounds // cohort.every) * cohort.every
    privacy = spec.privacy.model_copy(update={"accountant": "rdp"})
    training = spec.training.model_copy(update={"cohort": cohort, "rounds": rounds})
    changed = spec.model_copy(update={"training": training, "privacy": privacy})
    mechanism = GaussianCentralMechanism(changed, privacy)
    figure = mechanism.targeted_figure(n=1, training_clients=training_clients)
    epsilon = figure.projected(privacy.noise_multiplier)
    return CohortCost(cohort, rounds, epsilon, mechanism.adjacency)
