"""The costs of a sweep that a gate is held to: those of now, where the report knew of fewer."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from api.services.sweeps.sweep_bodies import costs_of
from api.shared.security import Caller
from fedaudit.sweeps.report_section import CellPlace, sweep_section
from models.repositories import SweepRepository

_FIGURES = ("sweep_epsilon_max", "sweep_log_ratio_max", "sweep_leakage")


def with_costs_of_now(
    session: Session, caller: Caller, experiment_id: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A report with what its sweep has booked by now, and never less than it states.

    Cells that were cancelled may have been tried again since, and whoever chose this run has looked
    at them too.
    """
    section = document.get("sweep")
    found = SweepRepository(session, caller.project_id).cell_of(experiment_id)
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
    )
    now = sweep_section(place, costs_of(session, caller, sweep), when="by now").model_dump()
    more = [name for name in _FIGURES if _is_more(now[name], than=section[name])]
    changed = {
        **section,
        **{name: now[name] for name in more},
        "epsilon": (now if "sweep_epsilon_max" in more else section)["epsilon"],
        "reasons": {**section["reasons"], **{name: now["reasons"][name] for name in more}},
    }
    return {**document, "sweep": changed}


def _is_more(now: float | None, *, than: float | None) -> bool:
    """Whether a cost is larger; one that nothing bounds is larger than any."""
    return than is not None and (now is None or now > than)
