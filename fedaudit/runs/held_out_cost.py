"""What a run will cost the people held out of training, known before it runs."""

from dataclasses import replace

from fedaudit.ledger.ledger_context import HeldOutContext
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.reports.sections.held_out_privacy import NO_NOISE
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness_agreement import publishes_noised_rounds
from fedaudit.spec.training import is_validated


def planned_releases(spec: ExperimentSpec) -> int:
    """How often counts with noise are published, if no budget ends training earlier: the report
    once, and every validated round where these are asked for."""
    if not publishes_noised_rounds(spec.fairness):
        return 1
    last, every = spec.training.rounds_played, spec.training.stopping.validate_every
    return 1 + sum(is_validated(one, every=every, last_round=last) for one in range(1, last + 1))


def with_fairness_epsilon(
    projection: Projection, held_out: HeldOutContext | None, *, releases: int
) -> Projection:
    """The projection with what so many releases of the fairness figures cost, or why nothing
    bounds that."""
    if held_out is None:
        reasons = {**projection.reasons, "fairness_epsilon": NO_NOISE}
        return replace(projection, fairness_epsilon=None, reasons=reasons)
    release = held_out.release
    entry: dict[str, object] = {
        "observer": release.observer,
        "delta": release.delta,
        "adjacency": release.adjacency,
        "unit": release.unit,
        "value": release.epsilon(releases),
    }
    return replace(projection, fairness_epsilon=entry)
