"""Where the rounds of a run go, and where its report reads them again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fedaudit.ledger.chain import Row
from fedaudit.ledger.rows import LedgerEntry
from fedaudit.runs.blocks import Block


class RunSink(Protocol):
    """Keeps the rounds of one run."""

    def write(self, block: Block) -> None:
        """Keep what the next rounds left behind."""

    def hashed_rows(self) -> Iterable[Row]:
        """What the ledger hash takes in of every entry, in their order."""

    def entries_of_round(self, round_: int) -> Sequence[LedgerEntry]:
        """The ledger's entries of one round, repeats included."""

    def drawn_rounds(self, *, up_to: int) -> list[int]:
        """The rounds up to that one that have a plane, ascending."""

    def planes(self, rounds: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """The planes of some rounds (`RoundPlot.as_dict`), by round."""

    def last_fairness(self, attribute: str, *, rounds: int) -> Sequence[Mapping[str, float | None]]:
        """The gaps of an attribute in the last rounds that were validated, at most so many, by
        metric; ascending."""
