"""The costs of a sweep that a gate is held to: those of now, where the report knew of fewer."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from api.services.sweeps.sweep_bodies import costs_of
from api.shared.security import Caller
from fedaudit.sweeps.report_section import CellPlace, larger_sums, sweep_section
from models.repositories import SweepRepository


def with_costs_of_now(
    session: Session, caller: Caller, experiment_id: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A report with what its sweep has booked by now, and never less than it states.

    Cells that were cancelled may have been tried again since, and whoever chose this run has looked
    at them too.
    """
    section = document.get("sweep")
    sweeps = SweepRepository(session, caller.project_id)
    found = sweeps.cell_of(experiment_id)
    if section is None or found is None:
        return document
    sweep, cell = found
    place = CellPlace(
        sweep_id=sweep.id,
        name=sweep.name,
        cells=sweep.cells,
        position=cell.position,
        values=cell.values,
        facts=sweep.facts,
        tries=len(sweeps.tries(sweep.id)),
    )
    now = sweep_section(place, costs_of(session, caller, sweep), when="by now").model_dump()
    more = larger_sums(now, section)
    changed = {
        **section,
        **{name: now[name] for name in more},
        "epsilon": (now if "sweep_epsilon_max" in more else section)["epsilon"],
        "reasons": {**section["reasons"], **{name: now["reasons"][name] for name in more}},
    }
    return {**document, "sweep": changed}
