"""Shadow runs as cells: the run's spec on random halves of all its clients. No torch.

A shadow run trains as the run did, from a seed of its own: another half of the clients, and with
them another start, other cohorts and other noise. The halves are of *all* clients, those that the
run held out included, so whether a shadow trained on a row says nothing of whether the run did.
Where records are held out, the halves are of all records.
"""

from dataclasses import replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.membership.attacked_rows import AttackedRows, trained_rows
from fedaudit.federations.federation import Federation
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.split import training_clients, validation_clients
from fedaudit.privacy.records.record_use import drawn_budgets
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.training import Cohort, FixedCohort, PoissonCohort
from fedaudit.training.base.cell import Cell

HALF = 0.5
_ATTEMPTS = 50
_BUDGETS = "budget"


def shadow_training_clients(clients: int) -> int:
    """How many of a federation's clients a shadow run trains on, where clients are held out."""
    return clients - validation_clients(clients, validation_fraction=HALF)


def draw_shadows(
    cell: Cell, rows: AttackedRows, source: Source, *, shadows: int, least: int
) -> tuple[list[Cell], NDArray[np.bool_]]:
    """The cells of the shadow runs, and which rows each trains on: bool [shadows, rows].

    Every row is in at least `least` of them and outside of as many: halves are drawn anew until
    that holds. Raises RuntimeError where it does not come about; `requirements_of_membership`
    refuses specs for which that is likely.
    """
    base = _shadow_cell(cell)
    for attempt in range(_ATTEMPTS):
        words = source.wide_words(
            purpose=Purpose.SHADOWS, round_=attempt, counters=np.arange(shadows), count=1
        )
        seeds = (words.reshape(-1) >> np.uint64(11)).tolist()  # below 2**53
        cells = [_with_seed(base, seed) for seed in seeds]
        trained = np.stack([trained_rows(one)[rows.place] for one in cells])
        within = trained.sum(0)
        if within.min() >= least and (shadows - within).min() >= least:
            return cells, trained
    raise RuntimeError(
        f"of {shadows} shadow runs no draw of halves has every row in {least} and outside of "
        f"{least}; more shadow runs would"
    )


def _with_seed(cell: Cell, seed: int) -> Cell:
    return replace(cell, spec=cell.spec.model_copy(update={"seed": seed}))


def _shadow_cell(cell: Cell) -> Cell:
    """The cell of any shadow run: no groups are counted, and its noise is nobody's release.

    All of them share one federation, so that a stack holds its rows once.
    """
    spec, federation = cell.spec, replace(cell.federation, attributes=())
    privacy = spec.privacy.model_copy(update={"noise": "simulation"})
    if isinstance(privacy, RecordPersonalised) and privacy.budgets.column is None:
        # A record's budget goes by the seed, and a shadow's record is to have the run's.
        federation = replace(federation, record_budgets=_budgets(spec, federation))
        column = privacy.budgets.model_copy(update={"distribution": None, "column": _BUDGETS})
        privacy = privacy.model_copy(update={"budgets": column})
    cohort = _cohort(spec, federation)
    changed = spec.model_copy(
        update={
            "federation": spec.federation.model_copy(update={"validation_fraction": HALF}),
            "training": spec.training.model_copy(update={"cohort": cohort}),
            "privacy": privacy,
            "fairness": Fairness(),
            "attacks": [],
            "gates": [],
            "repeats": 1,
        }
    )
    return replace(cell, spec=changed, federation=federation)


def _budgets(spec: ExperimentSpec, federation: Federation) -> NDArray[np.float64]:
    return drawn_budgets(spec, keys=record_keys(federation))


def _cohort(spec: ExperimentSpec, federation: Federation) -> Cohort:
    """The same share of those who train as in the run, so that a client takes part as often."""
    cohort = spec.training.cohort
    match cohort:
        case FixedCohort():
            most = shadow_training_clients(federation.clients)
            share = cohort.clients / training_clients(federation.clients, spec.federation)
            # As many as there are hypotheses, which could not be clustered otherwise.
            least = min(most, spec.training.hypotheses)
            clients = max(least, min(most, round(share * most)))
            return cohort.model_copy(update={"clients": clients})
        case PoissonCohort():
            return cohort
        case _:
            assert_never(cohort)
