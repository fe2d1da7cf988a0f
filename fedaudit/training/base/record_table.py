"""What every single record spent: confidential, and too large for the ledger. No torch."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.records.record_spending import RECORD_OBSERVERS, RecordSpending
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.record_sources import TrainingRecords

RECORD_TABLE_COLUMNS = (
    "client",
    "row",
    "budget",
    "rate",
    "left_out",
    *(f"epsilon_{observer}" for observer in RECORD_OBSERVERS),
)
_LINES_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordTable:
    """Arrays [records], client after client."""

    client: NDArray[np.int64]
    """Index in the federation."""
    row: NDArray[np.int64]
    """The record's place among its client's rows, from 0."""
    budget: NDArray[np.float64]
    rate: NDArray[np.float64]
    """The chance of the record in a local step of its client."""
    left_out: NDArray[np.bool_]
    spent: Mapping[Observer, NDArray[np.float64]]
    """Epsilon against each observer; infinite where nothing was noised."""

    def lines(self, client_names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """One JSON-able line a record, with the columns of RECORD_TABLE_COLUMNS.

        An infinite epsilon is None. Rows are counted from 1.
        """
        for place in range(len(self.client)):
            spent = {
                f"epsilon_{observer}": _finite(values[place])
                for observer, values in self.spent.items()
            }
            yield {
                "client": client_names[self.client[place]],
                "row": int(self.row[place]) + 1,
                "budget": float(self.budget[place]),
                "rate": float(self.rate[place]),
                "left_out": bool(self.left_out[place]),
                **spent,
            }

    def csv(self, client_names: Sequence[str]) -> Iterator[bytes]:
        """The lines as pieces of a CSV file; an infinite epsilon is an empty cell."""
        text = io.StringIO()
        table = csv.DictWriter(text, RECORD_TABLE_COLUMNS, lineterminator="\n")
        table.writeheader()
        lines = self.lines([plain_text(name) for name in client_names])
        while block := list(islice(lines, _LINES_AT_ONCE)):
            table.writerows(block)
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
        yield text.getvalue().encode()


def record_table(
    records: TrainingRecords,
    use: RecordUse,
    spending: RecordSpending | None,
    *,
    rounds: int,
    participations: NDArray[np.int32],
) -> RecordTable:
    """What the records spent in this many rounds, including repeated ones.

    `spending`: None without noise. `participations` [training clients]: rounds that each client
    took part in.
    """
    realised: dict[Observer, NDArray[np.int64] | int] = {
        "final_model": rounds,
        "server": participations.astype(np.int64)[use.client_of],
    }
    unbounded = np.where(use.plan.left_out, 0.0, np.inf)
    return RecordTable(
        client=records.clients[records.client_of],
        row=records.row,
        budget=use.plan.budgets,
        rate=use.plan.rates,
        left_out=use.plan.left_out,
        spent={
            observer: unbounded
            if spending is None
            else spending.epsilons(observer, realised[observer])
            for observer in RECORD_OBSERVERS
        },
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
