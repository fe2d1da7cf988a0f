"""Runs compared bit for bit."""

from collections.abc import Sequence

from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.training.federations import threads
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import play


def fingerprint(records: list[RoundRecord]) -> list[tuple[object, ...]]:
    """Everything in the records, bit for bit."""
    return [
        (
            record.round,
            record.subjects.tobytes(),
            record.outcomes.tobytes(),
            record.radii.tobytes(),
            record.releases.tobytes(),
            {observer: counts.tobytes() for observer, counts in record.compositions.items()},
            record.chosen.tobytes(),
            record.clusters.tobytes(),
            record.selection_loss,
            record.validation_loss,
            record.accuracy,
            record.cluster_sizes,
            record.separation,
            tuple((name, counts.tobytes()) for name, counts in record.fairness.items()),
        )
        for record in records
    ]


def assert_repeats(cell: Cell, *, stops: Sequence[int] = (1, 1, 2)) -> list[RoundRecord]:
    """A run leaves the same on other threads, in other cuts, and interrupted after so many rounds
    each time. Gives its records."""
    with threads(1):
        whole = Stack([cell])
        records = play(whole)
    with threads(2):
        cut = Stack([cell])
        cut_records = play(cut, (1, 2))
    resumed, resumed_records = Stack([cell]), []
    for rounds in (*stops, 1000):
        if resumed.active:
            resumed_records += records_of(resumed.advance(rounds)[0])
        resumed = Stack([cell], checkpoints=[resumed.checkpoint(0)])
    expected = whole.result(0)
    for found, stack in ((cut_records, cut), (resumed_records, resumed)):
        assert fingerprint(found) == fingerprint(records)
        assert stack.active == []
        assert stack.checkpoint(0) == whole.checkpoint(0)
        result = stack.result(0)
        assert result.hypotheses.tobytes() == expected.hypotheses.tobytes()
        assert (result.best_round, result.stopped_by) == (expected.best_round, expected.stopped_by)
        assert (result.records is None) == (expected.records is None)
        if result.records is not None and expected.records is not None:
            for observer, spent in expected.records.spent.items():
                assert result.records.spent[observer].tolist() == spent.tolist()
    return records
