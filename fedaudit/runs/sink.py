"""Where the rounds of a run go, and where its report reads them again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from fedaudit.ledger.chain import Row
from fedaudit.ledger.columns import ledger_lines
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.ledger.rows import LedgerEntry
from fedaudit.reports.charts.line_chart import Series, series_of
from fedaudit.runs.blocks import Block, FairnessFigures, RoundFigures, values_by_metric
from fedaudit.runs.ledger_writer import WrittenEntry


class RunSink(Protocol):
    """Keeps the rounds of one run."""

    def write(self, block: Block) -> None:
        """Keep what the next rounds left behind."""

    def hashed_rows(self) -> Iterable[Row]:
        """What the ledger hash takes in of every entry, in their order."""

    def entries_of_round(self, round_: int) -> Sequence[LedgerEntry]:
        """The ledger's entries of one round, repeats included."""

    def last_fairness(self, attribute: str, *, rounds: int) -> Sequence[Mapping[str, float | None]]:
        """The gaps of an attribute in the last rounds that were validated, at most so many, by
        metric; ascending."""


class MemorySink:
    """A `RunSink` without a database."""

    def __init__(self, ledger_context: LedgerContext) -> None:
        """`ledger_context`: that of the run."""
        self._account = ledger_context
        self._written: list[WrittenEntry] = []
        self.rounds: list[RoundFigures] = []
        """The figures of each round."""
        self.fairness: list[FairnessFigures] = []
        """Those of each attribute in rounds that were validated. Counts are confidential."""

    # What these do is said in `RunSink`.

    def write(self, block: Block) -> None:
        self._written += block.ledger
        self.rounds += block.rounds
        self.fairness += block.fairness

    def hashed_rows(self) -> Iterator[Row]:
        return (written.hashed for written in self._written)

    def entries_of_round(self, round_: int) -> list[LedgerEntry]:
        return [entry for entry in self.entries if entry.round == round_]

    def last_fairness(self, attribute: str, *, rounds: int) -> list[dict[str, float | None]]:
        own = [one for one in self.fairness if one.attribute == attribute]
        return [values_by_metric(one.figures) for one in own[-rounds:]]

    # -- what the files of a run are made from ----------------------------------------------------

    @property
    def entries(self) -> list[LedgerEntry]:
        """The ledger, in its order."""
        return [written.entry for written in self._written]

    def lines(self) -> Iterator[dict[str, Any]]:
        """One line per round, observer and subject, as the service's privacy ledger gives them."""
        for entry in self.entries:
            yield from ledger_lines(entry, self._account.subjects)

    def series(self) -> Series:
        """The public figures of each round, for the report's page."""
        return series_of(self.rounds, self.fairness)
