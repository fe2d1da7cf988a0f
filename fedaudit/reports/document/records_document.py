"""Parts of the report document about records that have privacy budgets of their own.

A figure that is None has its reason in the `reasons` map of the same object.
"""

from pydantic import Field

from fedaudit.reports.document.part import Part


class RecordGroupSection(Part):
    """Records whose budgets lie in one range, against whoever sees the final model."""

    budget_low: float
    """Exclusive lower end of the range, unless it equals the upper end."""
    budget_high: float
    records: int | None
    epsilon_max: float | None
    budget_used_share: float | None
    """The largest share of its own budget that a record spent; above 1 the budget was exceeded."""
    reasons: dict[str, str]


class RecordsSection(Part):
    """What records of different budgets spent."""

    left_out: int | None
    """Records that were never sampled."""
    overspent: int | None
    """Records that exceeded their own budgets."""
    groups: list[RecordGroupSection]
    reasons: dict[str, str] = Field(default_factory=dict)
