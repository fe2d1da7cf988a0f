"""The figures of rounds, and the fairness figures of rounds, as lines."""

from collections.abc import Mapping, Sequence

import numpy as np
from api.services.tables.table_pages import Line
from sqlalchemy.orm import Session

from api.schemas.experiment_tables import FairnessFilters, FairnessLine, RoundBody
from api.services.tables import Key, LinesByRow
from fedaudit.fairness.gaps import group_rates
from fedaudit.spec.metrics import COUNTS, RATES
from models.repositories import FairnessRepository, RoundRepository
from models.values import FairnessRow, RoundRow

_NO_INTERVAL = "intervals are computed once, for the report"
_ADDED = ("leakage_by_cluster", "plane")
_NOT_STORED = "the round was stored by a version that did not record it"


class RoundTable:
    """The rounds of one experiment."""

    columns: Sequence[str] = tuple(RoundBody.model_fields)

    def __init__(self, project_id: str, experiment_id: str) -> None:
        self._project_id = project_id
        self._experiment_id = experiment_id

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[RoundRow]:
        """Rounds after a key (round,)."""
        rounds = RoundRepository(session, self._project_id)
        return rounds.after(self._experiment_id, 0 if after is None else after[0], limit)

    def key(self, row: RoundRow) -> Key:
        """The round."""
        return (row.round,)

    @property
    def lines_a_row(self) -> int:
        """One."""
        return 1

    def lines(self, rows: Sequence[RoundRow]) -> LinesByRow:
        """One line each."""
        return LinesByRow([[self._line(row)] for row in rows])

    def _line(self, row: RoundRow) -> Line:
        line = {name: getattr(row, name) for name in self.columns}
        missing = [name for name in _ADDED if line[name] is None]
        line["reasons"] = {**dict.fromkeys(missing, _NOT_STORED), **row.reasons}
        return line


class FairnessTable:
    """The fairness figures of one experiment, a line for each metric."""

    columns: Sequence[str] = tuple(FairnessLine.model_fields)

    def __init__(self, project_id: str, experiment_id: str, filters: FairnessFilters) -> None:
        self._project_id = project_id
        self._experiment_id = experiment_id
        self._attribute = filters.attribute

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[FairnessRow]:
        """Rows after a key (round, attribute)."""
        round_, attribute = (0, None) if after is None else after
        return FairnessRepository(session, self._project_id).after(
            self._experiment_id, round_, limit, attribute=self._attribute, after_attribute=attribute
        )

    def key(self, row: FairnessRow) -> Key:
        """Round and attribute."""
        return (row.round, row.attribute)

    @property
    def lines_a_row(self) -> None:
        """As many as metrics."""
        return None

    def lines(self, rows: Sequence[FairnessRow]) -> LinesByRow:
        """A line for each metric."""
        return LinesByRow([self._lines(row) for row in rows])

    def _lines(self, row: FairnessRow) -> list[Line]:
        return [
            {
                "round": row.round,
                "attribute": row.attribute,
                "metric": figure["metric"],
                "value": figure["value"],
                "reason": figure["reason"],
                "interval": None,
                "interval_reason": _NO_INTERVAL,
            }
            for figure in row.figures
        ]


def group_lines(row: FairnessRow, attributes: Mapping[str, Sequence[str]]) -> list[Line]:
    """The counts and rates of each group, of groups of any size: for confidential use.

    Empty where no favourable outcome was declared, so that nothing was counted.
    """
    counts = np.asarray(row.counts, dtype=np.int64).reshape(-1, 4)
    if not len(counts):
        return []
    groups = attributes[row.attribute]
    rates = group_rates(counts).T.tolist()
    return [
        _group_line(row, group, numbers, dict(zip(RATES, measured, strict=True)))
        for group, numbers, measured in zip(groups, counts.tolist(), rates, strict=True)
    ]


def _group_line(
    row: FairnessRow, group: str, numbers: Sequence[int], rates: Mapping[str, float]
) -> Line:
    shown = {name: None if np.isnan(rate) else rate for name, rate in rates.items()}
    return {
        "round": row.round,
        "attribute": row.attribute,
        "value": group,
        "count": sum(numbers),
        **dict(zip(COUNTS, numbers, strict=True)),
        **shown,
        "reasons": {
            name: RATES[name].why_undefined for name, rate in shown.items() if rate is None
        },
    }
