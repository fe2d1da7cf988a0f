"""What a run will cost the people held out of training, known before it runs."""

from dataclasses import replace

from fedaudit.ledger.ledger_context import HeldOutContext
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.reports.sections.fairness_privacy import NO_NOISE

RELEASES = 1
"""The report is published once."""


def with_fairness_epsilon(projection: Projection, held_out: HeldOutContext | None) -> Projection:
    """The projection with what the fairness figures cost, or why nothing bounds that."""
    if held_out is None:
        reasons = {**projection.reasons, "fairness_epsilon": NO_NOISE}
        return replace(projection, fairness_epsilon=None, reasons=reasons)
    release = held_out.release
    entry: dict[str, object] = {
        "observer": release.observer,
        "delta": release.delta,
        "adjacency": release.adjacency,
        "unit": release.unit,
        "value": release.epsilon(RELEASES),
    }
    return replace(projection, fairness_epsilon=entry)
