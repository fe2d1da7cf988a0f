"""How a spec's `record-personalised` uses the records of a federation."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.records.record_baselines import baseline_plan
from fedaudit.privacy.records.record_budgets import draw_budgets
from fedaudit.privacy.records.record_plans import RecordPlan, RecordSettings, personalised_plan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.training import Cohort, FixedCohort, PoissonCohort


@dataclass(frozen=True, eq=False)
class RecordUse:
    """The plan of the records, and which client holds each."""

    plan: RecordPlan
    client_of: NDArray[np.int64]
    """[records]: the training client that holds each record, from 0."""


def client_rate(cohort: Cohort) -> float:
    """The chance of a client in a round.

    Raises ValueError for a cohort of fixed size, which the spec's rules leave to other mechanisms.
    """
    match cohort:
        case PoissonCohort():
            return cohort.rate
        case FixedCohort():
            raise ValueError("records are accounted for with a coin for each client")
        case _:
            assert_never(cohort)


def record_settings(spec: ExperimentSpec) -> RecordSettings:
    """The public numbers of a run. Budgets are kept against an observer of the final model.

    Raises ValueError for a spec of another mechanism, or with a cohort of fixed size.
    """
    privacy, training = spec.privacy, spec.training
    steps = training.local.steps
    if not isinstance(privacy, RecordPersonalised) or steps is None:
        raise ValueError(f"{privacy.mechanism} does not sample records")
    observer: Observer = "final_model"
    return RecordSettings(
        client_rate=client_rate(training.cohort),
        steps=steps,
        rounds=training.rounds,
        delta=privacy.delta,
        epsilon_max=privacy.epsilon_max,
        observer=observer,
    )


def drawn_budgets(spec: ExperimentSpec, *, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The budgets of a spec with a `distribution`: float64 [records].

    `keys` [records]: see `fedaudit.federations.record_keys`. Raises ValueError for a spec without a
    distribution.
    """
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised) or privacy.budgets.distribution is None:
        raise ValueError("the spec has no distribution of budgets")
    return draw_budgets(
        privacy.budgets.distribution,
        seed=spec.seed,
        keys=keys,
        epsilon_min=privacy.epsilon_min,
        epsilon_max=privacy.epsilon_max,
    )


def record_use(
    spec: ExperimentSpec,
    *,
    budgets: NDArray[np.float64],
    client_of: NDArray[np.int64],
    clients: int,
) -> RecordUse:
    """How the spec uses records with these budgets.

    `client_of` ascends, below the number of training `clients`; a client may have no record. Raises
    InvalidInputError where no noise is enough.
    """
    settings, privacy = record_settings(spec), spec.privacy
    assert isinstance(privacy, RecordPersonalised)
    if privacy.baseline is None:
        plan = personalised_plan(budgets, settings, clients=clients, inversion=privacy.inversion)
    else:
        assert spec.training.local.batch_size is not None
        plan = baseline_plan(
            budgets,
            settings,
            baseline=privacy.baseline,
            client_of=client_of,
            clients=clients,
            batch_size=spec.training.local.batch_size,
            uniform_epsilon=privacy.uniform_epsilon,
        )
    return RecordUse(plan, client_of)
