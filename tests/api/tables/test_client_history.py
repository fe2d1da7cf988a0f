"""One client's history is what the whole ledger says of the client."""

from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.stored import LedgerRow
from models.repositories import LedgerRepository, SubjectSetRepository
from models.repositories import ledger as stored_ledger
from models.tables.experiments import Experiment
from tests.api.service import Api, spec
from tests.ledger.single_entry import digest_of, link
from tests.models.rows import LAPLACE

ROUNDS = 10
CLIENTS = 6
"""That are drawn."""
_LAYERS = {**LAPLACE, "components": [{"name": "layer-1", "n": 24}, {"name": "layer-2", "n": 3}]}


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
        digest = digest_of(encoder, LedgerRow(**fields, digest=b"", link=b""))
        head = link(head, digest, fields["clusters"])
        rows.append(LedgerRow(**fields, digest=digest, link=head))
    with api.database.write() as session:
        ledger = LedgerRepository(session, api.project_id)
        ledger.insert(id_, rows)
        ledger.put_totals(id_, releases=releases, refusals=0, withheld=0)
        session.get(Experiment, id_).rounds_done = rounds
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
def test_histories_are_those_of_the_whole_ledger(api_on_both, inputs, monkeypatch):
    api = api_on_both
    monkeypatch.setattr(stored_ledger, "_ROWS_AT_ONCE", 4)
    id_ = _stored(api, inputs=inputs)
    everything = _history(api, id_)
    for client in _names(api, id_)[:CLIENTS]:
        expected = [line for line in everything if line["subject"] == client]
        assert _history(api, id_, client=client) == expected
        assert _history(api, id_, client=client, limit=1) == expected
        between = [line for line in expected if 3 <= line["round"] <= 8]
        assert _history(api, id_, client=client, round_from=3, round_to=8) == between
    assert _history(api, id_, client="nobody") == []
