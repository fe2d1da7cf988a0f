"""Rates and gaps of the rows that each hypothesis predicted."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import NO_OUTCOME, gaps_between, scored_rows
from fedaudit.reports.document.document import FigureSection, HypothesisGroup, HypothesisSection
from fedaudit.reports.sections.fairness_groups import NOT_HANDED_OVER, shown_rates
from fedaudit.spec.metrics import RATES

_ONE = "there is one hypothesis, and its figures are those of all rows"
_MAX_CELLS = 5000


def hypothesis_sections(
    counts: NDArray[np.int64] | None,
    values: Sequence[str],
    disclosure: Disclosure,
    cells: Disclosure | None,
) -> tuple[list[HypothesisSection], str | None]:
    """A section for each hypothesis from counts [k, groups, 4], or an empty list and the reason.

    `disclosure`: of the groups' figures over all hypotheses; `cells`: of each hypothesis's
    [k, groups], None where that was not handed over. What is disclosed about a hypothesis
    does not distinguish an empty group from one that is too small.
    """
    if not disclosure.rule.has_favourable_outcome:
        return [], NO_OUTCOME
    if counts is None or (cells is None and len(counts) > 1):
        return [], NOT_HANDED_OVER
    if cells is None or len(counts) == 1:
        return [], _ONE
    k, groups, _ = counts.shape
    if k * groups > _MAX_CELLS:
        return [], f"{k} hypotheses by {groups} groups are more than {_MAX_CELLS} cells"
    rows = scored_rows(counts)
    cells.check(rows)
    figures = gaps_between(counts, cells.shown, reference=cells.reference, rows=np.ones_like(rows))
    return [
        HypothesisSection(
            hypothesis=hypothesis,
            groups=_groups(values, counts[hypothesis], cells.shown[hypothesis], cells.reason),
            metrics={
                figure.metric: FigureSection(value=figure.value, reason=figure.reason)
                for figure in figures[hypothesis]
            },
        )
        for hypothesis in range(k)
    ], None


def _groups(
    values: Sequence[str], counts: NDArray[np.int64], shown: NDArray[np.bool_], hidden: str
) -> list[HypothesisGroup]:
    rates = shown_rates(counts, has_favourable_outcome=True)
    found = []
    for place, value in enumerate(values):
        figures, reasons = rates[place]
        if not shown[place]:
            figures, reasons = dict.fromkeys(RATES), dict.fromkeys(RATES, hidden)
        found.append(
            HypothesisGroup(value=value, suppressed=not shown[place], reasons=reasons, **figures)
        )
    return found
