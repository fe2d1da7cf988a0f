"""Records by their own budgets, in a form that a report may show: small groups without figures.

A budget from a column of the data is a cell of that data, and so, very nearly, is what its record
spent: the exact inverse uses budgets up. Where fewer than `minimum_group_size` records share a
group, only the round numbers around its budgets are shown. Drawn budgets are public: their
distribution is in the spec.
"""

import numpy as np

from fedaudit.fairness.disclosure import Disclosure, size_rule
from fedaudit.privacy.records.record_spending import GroupSpending, RecordSpending, enclosing
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.document.records_document import RecordGroupSection, RecordsSection


def records_section(material: ReportMaterial, records: RecordSpending) -> RecordsSection:
    """What records of different budgets spent against an observer of the final model.

    Raises KeyError where the material lacks the compositions against that observer.
    """
    rounds = int(np.asarray(material.compositions["final_model"]).max(initial=0))
    secret = material.spec.privacy.budget_column is not None
    found = records.of_groups("final_model", rounds)
    # Records that were left out are a group too: otherwise the total minus the others reveals them.
    cells = np.array([records.left_out, *(one.records for one in found)])
    disclosure = size_rule(material.spec.fairness).decide(cells, of="records")
    shown = disclosure.shown
    left_out = records.left_out if shown[0] or not cells[0] else None
    overspent = _overspent(records.overspent(rounds), disclosure)
    few = f"suppressed: {disclosure.too_few}, or another group's number would follow"
    counts = {"left_out": left_out, "overspent": overspent}
    return RecordsSection(
        left_out=left_out,
        overspent=overspent,
        groups=[
            _group(one, disclosure, visible=visible, secret=secret)
            for one, visible in zip(found, shown[1:].tolist(), strict=True)
        ],
        reasons={name: few for name, count in counts.items() if count is None},
    )


def _overspent(count: int, disclosure: Disclosure) -> int | None:
    """How many records exceeded their budgets, where that reveals no small number.

    They are the records of some groups, so beside a hidden group the number could reveal its size.
    """
    rest = int(disclosure.rows[1:].sum()) - count
    small = any(disclosure.rule.is_small(number) for number in (count, rest))
    return None if count and (small or disclosure.suppresses) else count


def _group(
    found: GroupSpending, disclosure: Disclosure, *, visible: bool, secret: bool
) -> RecordGroupSection:
    reasons = {}
    if not visible:
        reasons["records"] = f"suppressed: {disclosure.too_few}, or another group's would follow"
    group, stated = found.group, not secret or disclosure.rule.is_large(found.records)
    low, high = (group.low, group.high) if stated else enclosing(group.low, group.high)
    if not stated:
        why = f"suppressed: {disclosure.too_few}, whose budgets it would reveal"
        reasons |= dict.fromkeys(("epsilon_max", "budget_used_share"), why)
    return RecordGroupSection(
        budget_low=low,
        budget_high=high,
        records=found.records if visible else None,
        epsilon_max=found.epsilon_max if stated else None,
        budget_used_share=found.budget_used_share if stated else None,
        reasons=reasons,
    )
