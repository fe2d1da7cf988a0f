"""The table of a sweep over what its cells have reported."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from api.shared.security import Caller
from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.sweeps.named_figures import named_figures
from fedaudit.sweeps.sweep_table import CellFigures, SweepTable, sweep_table
from models.repositories import ReportListRepository, SweepRepository
from models.repositories.sweeps import CellRow
from models.tables.experiments import Sweep
from models.values import BookedCost, IndexedFigure


def table_of(session: Session, caller: Caller, sweep: Sweep) -> SweepTable:
    """As far as its cells have ended: those that have not count as seeds without figures."""
    sweeps = SweepRepository(session, caller.project_id)
    cells = sweeps.cells(sweep.id)
    ids = [cell.experiment.id for cell in cells]
    figures = ReportListRepository(session, caller.project_id).figures(ids)
    degenerate = sweeps.degenerate(ids)
    terms = _cost_terms(sweeps.booked(sweep.id))
    return sweep_table(
        [
            _of_cell(
                cell,
                figures[cell.experiment.id],
                degenerate=cell.experiment.id in degenerate,
                terms=terms.get(cell.experiment.id, {}),
            )
            for cell in cells
        ]
    )


def _cost_terms(booked: Sequence[BookedCost]) -> dict[str, dict[str, str]]:
    """By experiment and what is counted, what training was booked under."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in booked:
        # What a report reveals of the people held out is not in the figures of training.
        if one.observer != REPORT:
            term = f"{one.observer}, {one.terms}, {one.unit}, {one.delta}"
            found.setdefault(one.experiment_id, {}).setdefault(one.figure, set()).add(term)
    return {
        id_: {figure: "; ".join(sorted(terms)) for figure, terms in of_figure.items()}
        for id_, of_figure in found.items()
    }


def _of_cell(
    cell: CellRow, figures: Sequence[IndexedFigure], *, degenerate: bool, terms: Mapping[str, str]
) -> CellFigures:
    return CellFigures(
        experiment_id=cell.experiment.id,
        values=cell.values,
        succeeded=cell.experiment.status == "succeeded",
        degenerate=degenerate,
        figures=named_figures(figures),
        # Simulated noise protects nobody, so its costs are not those of noise that does.
        cost_terms={name: f"{cell.experiment.noise}: {said}" for name, said in terms.items()},
    )
