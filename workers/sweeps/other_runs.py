"""The sweep of an experiment, and the figures of its other seeds, as they stand in the database."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.reports.document.sweep_document import RepeatsSection, SweepSection
from fedaudit.sweeps.report_section import (
    SUMS,
    CellPlace,
    SeedFigures,
    larger_sums,
    named_figures,
    repeats_section,
    shown_figures,
    sweep_section,
)
from fedaudit.sweeps.sweep_costs import sweep_costs
from models.repositories import ReportListRepository, SweepRepository
from workers.running_experiment import RunningExperiment


def sweep_of(session: Session, experiment: RunningExperiment) -> SweepSection | None:
    """What its sweep costs; None where it is a cell of none."""
    sweeps = SweepRepository(session, experiment.project_id)
    found = sweeps.cell_of(experiment.id)
    if found is None:
        return None
    sweep, cell = found
    tries = sweeps.tries(sweep.id)
    costs = sweep_costs(sweeps.booked(sweep.id), runs=tries, facts=sweep.facts)
    place = CellPlace(
        sweep_id=sweep.id,
        name=sweep.name,
        cells=sweep.cells,
        position=cell.position,
        values=cell.values,
        facts=sweep.facts,
        tries=len(tries),
    )
    return sweep_section(place, costs)


def is_as_stated(
    session: Session, experiment: RunningExperiment, document: Mapping[str, Any]
) -> bool:
    """Whether its sweep had no more runs, and costs no more, than its report states.

    Holds the sweep until the transaction ends: whoever tries cells again meanwhile waits for the
    report, and sees which of its gates passed.
    """
    stated = document["sweep"]
    if stated is None:
        return True
    sweeps = SweepRepository(session, experiment.project_id)
    sweeps.hold(stated["id"])
    if len(sweeps.tries(stated["id"])) != stated["tries"]:
        return False
    if all(stated[name] is None for name in SUMS):
        return True  # where no sum is stated, none can have become larger
    now = sweep_of(session, experiment)
    return now is None or not larger_sums(now.model_dump(), stated)


def repeats_of(
    session: Session, experiment: RunningExperiment, document: Mapping[str, Any]
) -> RepeatsSection | None:
    """The figures over the seeds that have a report, its own document among them; None where it is
    not repeated."""
    asked = experiment.run.spec.repeats
    sweeps = SweepRepository(session, experiment.project_id)
    found = sweeps.cell_of(experiment.id) if asked > 1 else None
    if found is None:
        return None
    own = SeedFigures(experiment.run.spec.seed, experiment.id, shown_figures(document))
    others = [
        cell.experiment
        for cell in sweeps.cells(found[0].id)
        if cell.experiment.id != experiment.id and cell.experiment.status == "succeeded"
    ]
    figures = ReportListRepository(session, experiment.project_id).figures(
        [one.id for one in others]
    )
    found_others = [SeedFigures(one.seed, one.id, named_figures(figures[one.id])) for one in others]
    return repeats_section([own, *found_others], asked=asked)
