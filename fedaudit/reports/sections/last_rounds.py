"""How far a gap moved from round to round at the end of the run.

An interval over clients takes the model as it is. This range shows what it leaves out, in part:
training goes on, under noise, and each round's model is another. What another seed would have made
of it is in neither.
"""

from collections.abc import Mapping, Sequence

from fedaudit.reports.document.document import FairnessSection, MetricSection
from fedaudit.reports.document.held_out_document import LastRounds
from fedaudit.reports.document.material import ScoredMaterial
from fedaudit.reports.sections.noised_fairness import WITHHELD
from fedaudit.spec.fairness import Fairness, publishes_noised_rounds
from fedaudit.spec.metrics import METRICS

LAST_ROUNDS = 20
"""How many validated rounds count, at most."""
MIN_ROUNDS = 5
_TOO_FEW = f"fewer than {MIN_ROUNDS} of the last rounds that were validated have this gap"
_NOT_BY_ROUND = "rounds have gaps of rates alone"
_NOT_HANDED_OVER = "the figures of the rounds were not handed over"


def with_last_rounds(
    sections: Sequence[FairnessSection], material: ScoredMaterial
) -> list[FairnessSection]:
    """The sections, each gap with its range over the last rounds or the reason for none."""
    return [
        section.model_copy(
            update={
                "metrics": {
                    name: _with_range(name, metric, section.attribute, material)
                    for name, metric in section.metrics.items()
                }
            }
        )
        for section in sections
    ]


def _with_range(
    name: str, metric: MetricSection, attribute: str, material: ScoredMaterial
) -> MetricSection:
    rounds = material.last_fairness.get(attribute)
    found = None if rounds is None else _range(name, rounds)
    if found is not None:
        return metric.model_copy(update={"last_rounds": found, "last_rounds_reason": None})
    if name not in METRICS:
        reason = _NOT_BY_ROUND
    elif _is_withheld(material.spec.fairness):
        reason = WITHHELD
    else:
        reason = _NOT_HANDED_OVER if rounds is None else _TOO_FEW
    return metric.model_copy(update={"last_rounds": None, "last_rounds_reason": reason})


def _is_withheld(fairness: Fairness) -> bool:
    return fairness.noise is not None and not publishes_noised_rounds(fairness)


def _range(name: str, rounds: Sequence[Mapping[str, float | None]]) -> LastRounds | None:
    values = [value for one in rounds if (value := one.get(name)) is not None]
    if len(values) < MIN_ROUNDS:
        return None
    return LastRounds(low=min(values), high=max(values), rounds=len(values))
