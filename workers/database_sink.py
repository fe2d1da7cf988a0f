"""Store the rounds of a run in the database."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.ledger.chain import Row
from fedaudit.ledger.rows import LedgerEntry, entry_of, stored_fields
from fedaudit.runs.blocks import Block
from fedaudit.runs.figures import FairnessFigures, RoundFigures, values_by_metric
from fedaudit.runs.ledger_writer import WrittenEntry
from models.repositories import FairnessRepository, LedgerRepository, RoundRepository
from models.values import FairnessRow, LedgerRow, RoundRow

ROUND_COMPLETED = "round.completed"
_COSTS = ("leakage_max", "epsilon_max")


class DatabaseSink:
    """A `RunSink` of one stored experiment, within one transaction.

    What is written must be fenced: the caller holds the experiment's unit in the same transaction.
    It also tells of the rounds (`round_events`), for all experiments of the unit together.
    """

    def __init__(self, session: Session, experiment_id: str, project_id: str) -> None:
        self._owner = (experiment_id, project_id)
        self._id = experiment_id
        self._session = session
        self._ledger = LedgerRepository(session)
        self._rounds = RoundRepository(session)

    # These methods are documented in `RunSink`.

    def write(self, block: Block) -> None:
        self._ledger.insert(*self._owner, [ledger_row(one) for one in block.ledger])
        self._rounds.insert(*self._owner, [_round_row(one) for one in block.rounds])
        fairness = [_fairness_row(one) for one in block.fairness]
        FairnessRepository(self._session).insert(*self._owner, fairness)

    def hashed_rows(self) -> Iterator[Row]:
        return self._ledger.digests(self._id)

    def entries_of_round(self, round_: int) -> list[LedgerEntry]:
        rows = self._ledger.rows_after(self._id, round_from=round_, round_to=round_)
        return [entry_of(row) for row in rows]

    def drawn_rounds(self, *, up_to: int) -> list[int]:
        return self._rounds.drawn_rounds(self._id, up_to=up_to)

    def planes(self, rounds: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        return self._rounds.planes(self._id, rounds)

    def last_fairness(self, attribute: str, *, rounds: int) -> list[dict[str, float | None]]:
        rows = FairnessRepository(self._session).last(self._id, attribute, rounds=rounds)
        return [values_by_metric(row.figures) for row in rows]


def round_events(block: Block) -> list[tuple[str, dict[str, Any]]]:
    """An event for each round."""
    return [(ROUND_COMPLETED, _event(one)) for one in block.rounds]


def ledger_row(written: WrittenEntry) -> LedgerRow:
    """The row that holds an entry."""
    fields = stored_fields(written.entry)
    return LedgerRow(**fields, digest=written.digest, link=written.link)


def _round_row(figures: RoundFigures) -> RoundRow:
    plane = None if figures.plane is None else figures.plane.as_dict()
    return RoundRow(**{**vars(figures), "plane": plane})


def _fairness_row(figures: FairnessFigures) -> FairnessRow:
    return FairnessRow(**vars(figures))


def _event(figures: RoundFigures) -> dict[str, Any]:
    return {
        "round": figures.round,
        "selection_loss": figures.selection_loss,
        "validation_loss": figures.validation_loss,
        "leakage_max": figures.leakage_max,
        "epsilon_max": figures.epsilon_max,
        "reasons": {name: figures.reasons[name] for name in _COSTS if name in figures.reasons},
    }
