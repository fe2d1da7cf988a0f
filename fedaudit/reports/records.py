"""Records by their own budgets, as a report may show them: small groups without their figures.

A budget from a column of the data is a cell of it. So is, nearly, what its record spent: the exact
inverse uses budgets up. Where fewer than `minimum_group_size` records share a group, it is shown by
the round numbers around its budgets alone. Drawn budgets are public: their distribution is in the
spec.
"""

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.suppression import shown_groups
from fedaudit.privacy.record_groups import enclosing
from fedaudit.privacy.record_spending import GroupSpending, RecordSpending
from fedaudit.reports.document import RecordGroupSection, RecordsSection
from fedaudit.reports.material import ReportMaterial
from fedaudit.spec.privacy import budget_column


def records_section(material: ReportMaterial, records: RecordSpending) -> RecordsSection:
    """What records of different budgets spent before those who see the final model.

    Raises KeyError where the material lacks the compositions before them.
    """
    rounds = int(np.asarray(material.compositions["final_model"]).max(initial=0))
    size = material.spec.fairness.minimum_group_size
    secret = budget_column(material.spec.privacy) is not None
    found = records.of_groups("final_model", rounds)
    # Records that were left out are a group too: the total less the others would give them away.
    cells = np.array([records.left_out, *(one.records for one in found)])
    shown = shown_groups(cells, minimum_group_size=size)
    left_out = records.left_out if shown[0] or not cells[0] else None
    overspent = _overspent(records.overspent(rounds), cells, shown, minimum_group_size=size)
    few = f"suppressed: fewer than {size} records, or another group's number would follow"
    counts = {"left_out": left_out, "overspent": overspent}
    return RecordsSection(
        left_out=left_out,
        overspent=overspent,
        groups=[
            _group(one, visible=visible, secret=secret, minimum_group_size=size)
            for one, visible in zip(found, shown[1:].tolist(), strict=True)
        ],
        reasons={name: few for name, count in counts.items() if count is None},
    )


def counted(number: int | None) -> str:
    """A number of records that is not 0, at the beginning of a sentence."""
    return "Some" if number is None else str(number)


def _overspent(
    count: int,
    cells: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    minimum_group_size: int,
) -> int | None:
    """How many records passed their budgets, where that tells no small number.

    They are the records of some groups, so beside a hidden one the number would give it away.
    """
    rest = int(cells[1:].sum()) - count
    small = any(0 < number < minimum_group_size for number in (count, rest))
    hidden = bool(((cells > 0) & ~shown).any())
    return None if count and (small or hidden) else count


def _group(
    found: GroupSpending, *, visible: bool, secret: bool, minimum_group_size: int
) -> RecordGroupSection:
    reasons = {}
    if not visible:
        reasons["records"] = (
            f"suppressed: fewer than {minimum_group_size} records, or another group's would follow"
        )
    group, told = found.group, not secret or found.records >= minimum_group_size
    low, high = (group.low, group.high) if told else enclosing(group.low, group.high)
    if not told:
        why = f"suppressed: fewer than {minimum_group_size} records, whose budgets it would tell"
        reasons |= dict.fromkeys(("epsilon_max", "budget_used_share"), why)
    return RecordGroupSection(
        budget_low=low,
        budget_high=high,
        records=found.records if visible else None,
        epsilon_max=found.epsilon_max if told else None,
        budget_used_share=found.budget_used_share if told else None,
        reasons=reasons,
    )
