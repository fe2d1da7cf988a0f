"""What a run's report says of its hypotheses, from the rounds that its sink has kept."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import Outcome, charges_report
from fedaudit.reports.document.hypotheses_document import Plane
from fedaudit.reports.document.material import HypothesesFacts
from fedaudit.reports.sections.parameter_plot_section import (
    NOT_KEPT,
    NOT_VALIDATED,
    build_parameter_plot,
    rounds_to_draw,
)
from fedaudit.runs.run import Run
from fedaudit.runs.sink import RunSink
from fedaudit.training.base.first_hypotheses import first_hypotheses
from fedaudit.training.base.parameter_plot import axis_names, truth_points
from fedaudit.training.base.round_records import FinalResult


def hypotheses_facts(run: Run, result: FinalResult, sink: RunSink) -> HypothesesFacts:
    """The hypotheses, and the radii of the round that they came of."""
    return HypothesesFacts(hypotheses=result.hypotheses, radii=_radii(run, sink, result.best_round))


def parameter_plot_of_run(run: Run, result: FinalResult, sink: RunSink) -> Plane | str:
    """The plane of the run's two parameters, or why there is none."""
    cell, best = run.cell, result.best_round
    if run.plot_unavailable_reason is not None:
        return run.plot_unavailable_reason
    if best == 0:
        return NOT_VALIDATED
    rounds = rounds_to_draw(sink.drawn_rounds(up_to=best), best_round=best)
    if not rounds:
        return NOT_KEPT
    return build_parameter_plot(
        sink.planes(rounds),
        best_round=best,
        start=first_hypotheses(cell),
        truth=truth_points(cell),
        parameters=axis_names(cell),
    )


def _radii(run: Run, sink: RunSink, round_: int) -> NDArray[np.float64] | None:
    """Of the releases of a round, [releases, parts]; None where no radius is secret."""
    inputs = run.ledger.inputs
    if inputs.radius_floor is None:
        return None
    # Of a round that was interrupted and repeated, only the repeat has radii.
    found = [
        entry.radii.reshape(len(entry.subjects), len(inputs.noised_sizes))[
            entry.outcomes == Outcome.RELEASED
        ]
        for entry in sink.entries_of_round(round_)
        if not entry.interrupted and not charges_report(entry.observer)
    ]
    return np.concatenate(found) if found else None
