"""One client's history: what an index finds is what looking through every row finds."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from api.services import report_evidence
from api.services.report_evidence import HistoryCheck, readable_rows, source_of
from fedaudit.ledger.chain import genesis, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.rows import entry_of
from models.repositories import LedgerRepository, SubjectSetRepository
from models.repositories import ledger as stored_ledger
from models.repositories.ledger import ClientRoundsRepository, index_of, same_index
from models.tables.experiments import Experiment
from models.values import LedgerRow
from tests.api.service import Api, spec
from tests.models.rows import LAPLACE
from workers import upkeep
from workers.upkeep import HistoryIndexer

ROUNDS = 10
CLIENTS = 6
"""That are drawn."""
_LAYERS = {**LAPLACE, "components": [{"name": "layer-1", "n": 24}, {"name": "layer-2", "n": 3}]}


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three rounds, in whichever module names them; two are read at once."""
    for module in (stored_ledger, upkeep, report_evidence):
        monkeypatch.setattr(module, "BLOCK_ROUNDS", 3)
    monkeypatch.setattr(stored_ledger, "_BLOCKS_AT_ONCE", 2)


def _stored(api: Api, *, inputs: dict[str, Any], rounds: int = ROUNDS) -> str:
    """An experiment whose ledger has rounds of three clients, some of them repeated."""
    id_: str = api.submit(spec(training={"rounds": rounds}))["id"]
    names = _names(api, id_)
    rng, encoder, head = np.random.default_rng(7), EntryEncoder(names), genesis(id_)
    releases, parts, rows = np.zeros(len(names), np.int32), len(inputs["components"] or [0]), []
    places = [(number, again) for number in range(1, rounds + 1) for again in range(1 + number % 2)]
    for number, again in places:
        drawn = np.sort(rng.choice(CLIENTS, 3, replace=False)).astype(np.int32)
        outcomes = np.array([0, 0, number % 3])
        releases[drawn[outcomes == 0]] += 1
        radii = np.where(np.repeat(outcomes, parts) == 0, rng.lognormal(size=3 * parts), np.nan)
        fields = {
            "round": number,
            "release": again,
            "subject_kind": "client",
            "observer": "server",
            "subjects": drawn,
            "outcomes": outcomes,
            "radii": radii,
            "releases": releases[drawn],
            "clusters": np.zeros(3, np.int16),
            "inputs": inputs,
        }
        digest = encoder.digest(entry_of(LedgerRow(**fields, digest=b"", link=b"")))
        head = link(head, digest, fields["clusters"])
        rows.append(LedgerRow(**fields, digest=digest, link=head))
    with api.database.write() as session:
        ledger = LedgerRepository(session)
        ledger.insert(id_, api.project_id, rows)
        ledger.put_totals(id_, api.project_id, releases=releases, refusals=0, withheld=0)
        row = session.get(Experiment, id_)
        row.rounds_done = rounds
    return id_


def _names(api: Api, id_: str) -> tuple[str, ...]:
    with api.database.read() as session:
        row = session.get(Experiment, id_)
        return SubjectSetRepository(session).names(row.subject_set_id)


def _history(api: Api, id_: str, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = api.get(f"/v1/experiments/{id_}/privacy-ledger", params=parameters).json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        parameters["cursor"] = page["next_cursor"]


@pytest.mark.parametrize("inputs", [LAPLACE, _LAYERS], ids=["whole", "layers"])
def test_histories_are_those_of_the_whole_ledger(api_on_both: Api, inputs: dict[str, Any]) -> None:
    """Before anything is indexed, as of a ledger from before there was an index, and after."""
    api = api_on_both
    id_ = _stored(api, inputs=inputs)
    everything = _history(api, id_)
    indexer = HistoryIndexer(api.database)
    for blocks in (0, 1, 2):
        assert indexer.index_waiting(blocks) == blocks
        for client in _names(api, id_)[:CLIENTS]:
            expected = [line for line in everything if line["subject"] == client]
            assert _history(api, id_, client=client) == expected
            if blocks == 1:
                assert _history(api, id_, client=client, limit=1) == expected
            between = [line for line in expected if 3 <= line["round"] <= 8]
            assert _history(api, id_, client=client, round_from=3, round_to=8) == between
    assert indexer.index_waiting(5) == 0
    assert _history(api, id_, client="nobody") == []


def test_flushes_leave_the_index_and_its_next_block_is_made(api: Api) -> None:
    id_ = _stored(api, inputs=LAPLACE, rounds=5)
    assert HistoryIndexer(api.database).index_waiting(9) == 1
    with api.database.write() as session:
        totals = {"releases": np.zeros(CLIENTS, np.int32), "refusals": 0, "withheld": 0}
        LedgerRepository(session).put_totals(id_, api.project_id, **totals)
        assert ClientRoundsRepository(session).indexed_rounds(id_) == 3
        assert not ClientRoundsRepository(session).add(id_, api.project_id, 0, {})


def test_a_row_that_cannot_be_read_stops_no_other_index(api_on_both: Api) -> None:
    api = api_on_both
    broken, whole = (_stored(api, inputs=LAPLACE) for _ in range(2))
    unreadable: dict[str, Any] = {"sqlite": b"abc", "postgresql": [None]}
    with api.database.write() as session:
        session.execute(
            text("UPDATE ledger SET subjects = :subjects WHERE experiment_id = :id"),
            {"subjects": unreadable[session.get_bind().dialect.name], "id": broken},
        )
    indexer = HistoryIndexer(api.database)
    assert indexer.index_waiting(9) == 3
    with api.database.read() as session:
        history = ClientRoundsRepository(session)
        assert [history.indexed_rounds(id_) for id_ in (broken, whole)] == [0, ROUNDS // 3 * 3]
    assert indexer.index_waiting(9) == 0


def test_verification_finds_an_index_that_hides_a_round(api: Api) -> None:
    id_ = _stored(api, inputs=LAPLACE)
    assert HistoryIndexer(api.database).index_waiting(9) == 3
    assert _history_check(api, id_) == "pass"
    with api.database.write() as session:
        session.execute(
            text("DELETE FROM client_rounds WHERE block = 1 AND part = 0 AND experiment_id = :id"),
            {"id": id_},
        )
    assert _history_check(api, id_) == "fail"


def _history_check(api: Api, id_: str) -> str:
    with api.database.read() as session:
        row = session.get(Experiment, id_)
        assert row is not None
    watch = HistoryCheck(api.database, id_, api.project_id)
    assert len(list(watch.watched(readable_rows(api.database, source_of(row))))) == 15
    [found] = watch.checks()
    assert found.name == "ledger.history"
    return str(found.outcome)


def test_an_index_holds_each_round_once_and_nothing_of_no_rows() -> None:
    rows = [(1, np.array([0, 128, 5], np.int32)), (1, np.array([5], np.int32)), (2, np.array([5]))]
    found = index_of(rows)
    told = {part: np.stack(pair, axis=1).tolist() for part, pair in found.items()}
    assert told == {0: [[0, 1], [128, 1]], 5: [[5, 1], [5, 2]]}
    assert index_of([]) == {}
    assert same_index(found, index_of(rows))
    assert not same_index(found, index_of(rows[:2]))
