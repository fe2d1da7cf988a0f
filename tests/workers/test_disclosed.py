"""A worker reads once what was disclosed, and always knows what others add."""

from datetime import timedelta
from itertools import count

import numpy as np
import pytest
from sqlalchemy import delete, select

from fedaudit.fairness.scored_groups import DisclosedRows, DisclosureDecision, RowSet
from models.database import Database
from models.repositories import DisclosureRepository, disclosures
from models.tables.experiments import DisclosedSet
from models.values import utc_now
from workers.disclosed import Disclosed, Memory

pytestmark = pytest.mark.both_databases

FILE = Memory("data", "rows of the file", ())


def by_cells(*anchors: str) -> Memory:
    return Memory(anchors[0], "rows by their cells", (), anchors)


def rows(*numbers: int) -> DisclosedRows:
    return DisclosedRows(RowSet.of(np.array(numbers)), RowSet.of(np.zeros(0, dtype=np.int64)))


class Worker:
    """One worker on a database."""

    def __init__(self, database: Database) -> None:
        self.database, self.disclosed = database, Disclosed()

    def decide(self, memory: Memory, *sets: DisclosedRows) -> None:
        self.disclosed.beside(self.database, memory)
        self.disclosed.add([memory], DisclosureDecision(frozenset(), [sets], {}))

    def store(self) -> bool:
        with self.database.write() as session:
            stored = self.disclosed.store(session)
        if stored:
            self.disclosed.keep()
        return stored

    def disclose(self, memory: Memory, *sets: DisclosedRows) -> None:
        self.disclosed.begin()
        self.decide(memory, *sets)
        assert self.store()

    def known(self, memory: Memory) -> list[int]:
        """The first rows of all sets that it compares with."""
        self.disclosed.begin()
        _, (sets, names) = self.disclosed.beside(self.database, memory)
        places = [place for name in names for place in sets.places[name].values()]
        return sorted(int(sets.sets[place].rows.numbers[0]) for place in places)


@pytest.fixture
def workers(database: Database) -> tuple[Worker, Worker]:
    return Worker(database), Worker(database)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sets each question brought."""
    found: list[int] = []
    sets = DisclosureRepository.sets

    def counted(*asked: object, **more: object) -> object:
        answer = sets(*asked, **more)  # type: ignore[arg-type]
        found.append(len(answer))
        return answer

    monkeypatch.setattr(DisclosureRepository, "sets", counted)
    return found


def test_each_knows_what_the_other_added_and_reads_only_that(workers, read):
    one, other = workers
    for number in range(6):
        (one, other)[number % 2].disclose(FILE, rows(number, 100))
        assert [worker.known(FILE) for worker in workers] == [list(range(number + 1))] * 2
    # The last that each had seen is read again, as another may have been stored at that time.
    assert max(read) <= 2
    read.clear()
    assert one.known(FILE) == list(range(6))
    assert read == []


def test_what_is_stored_by_a_clock_that_is_behind_is_read(workers, monkeypatch):
    one, other = workers
    one.disclose(FILE, rows(1))
    assert other.known(FILE) == [1]
    turns = count(1)
    monkeypatch.setattr(disclosures, "utc_now", lambda: utc_now() - timedelta(hours=next(turns)))
    for number in (2, 3):
        one.disclose(FILE, rows(number))
        assert other.known(FILE) == list(range(1, number + 1))


def test_what_was_decided_and_not_stored_is_not_known(workers):
    one, other = workers
    one.disclosed.begin()
    one.decide(FILE, rows(1))
    other.disclose(FILE, rows(2))
    assert not one.store(), "the other was quicker"
    assert one.known(FILE) == [2]
    one.disclose(FILE, rows(1))
    assert [worker.known(FILE) for worker in workers] == [[1, 2]] * 2


@pytest.mark.parametrize("instead", [[], [3], [3, 4, 5]])
def test_a_set_that_a_restored_database_lost_is_stored_again(database, workers, instead):
    one, other = workers
    one.disclose(FILE, rows(1), rows(2))
    with database.write() as session:
        session.execute(delete(DisclosedSet).where(DisclosedSet.digest == rows(1).rows.digest))
    if instead:
        other.disclose(FILE, *map(rows, instead))
    one.disclosed.begin()
    one.decide(FILE, rows(1))
    if not one.store():
        one.disclose(FILE, rows(1))
    assert Worker(database).known(FILE) == [1, 2, *instead]


def test_memories_of_one_numbering_are_told_apart(database, workers):
    one, other = workers
    one.disclose(by_cells("a", "b"), rows(1))
    other.disclose(by_cells("c"), rows(2))
    other.disclose(by_cells("b", "c"), rows(3))
    for worker in (*workers, Worker(database)):
        assert worker.known(by_cells("a")) == [1]
        assert worker.known(by_cells("b")) == [1, 3]
        assert worker.known(by_cells("c")) == [2, 3]
        assert worker.known(by_cells("d")) == []
    with database.read() as session:
        assert len(session.execute(select(DisclosedSet.digest)).all()) == 3


def test_too_much_is_not_kept(workers, monkeypatch, read):
    one, _ = workers
    one.disclose(FILE, rows(1, 100), rows(2, 100))
    monkeypatch.setattr("workers.disclosed._MOST_WORDS", 3)
    assert one.known(FILE) == [1, 2]
    assert read == [2]
