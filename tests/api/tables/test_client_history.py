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
from tests.api.tables.test_experiment_tables import _pages
from tests.ledger.single_entry import digest_of, link
from tests.models.rows import LAPLACE

ROUNDS = 10
CLIENTS = 6
"""That are drawn."""
_LAYERS = {**LAPLACE, "components": [{"name": "layer-1", "n": 24}, {"name": "layer-2", "n": 3}]}


def _stored(api: Api, *, inputs: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The ledger of an experiment with rounds of three clients, some of them repeated, and the
    names of the clients."""
    id_: str = api.submit(spec(training={"rounds": ROUNDS}))["id"]
    with api.database.read() as session:
        names = SubjectSetRepository(session).names(api.stored(id_).subject_set_id)
    rng, encoder, head = np.random.default_rng(7), EntryEncoder(names), genesis(id_)
    releases, parts, rows = np.zeros(len(names), np.int32), len(inputs["components"] or [0]), []
    places = [(number, again) for number in range(1, ROUNDS + 1) for again in range(1 + number % 2)]
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
        session.get_one(Experiment, id_).rounds_done = ROUNDS
    return f"/v1/experiments/{id_}/privacy-ledger", names


@pytest.mark.parametrize("inputs", [LAPLACE, _LAYERS], ids=["whole", "layers"])
def test_histories_are_those_of_the_whole_ledger(api_on_both, inputs, monkeypatch):
    api = api_on_both
    monkeypatch.setattr(stored_ledger, "_ROWS_AT_ONCE", 4)
    path, names = _stored(api, inputs=inputs)
    everything = _pages(api, path)
    for client in names[:CLIENTS]:
        expected = [line for line in everything if line["subject"] == client]
        assert expected
        assert _pages(api, path, client=client) == expected
        assert _pages(api, path, client=client, limit=1) == expected
        between = [line for line in expected if 3 <= line["round"] <= 8]
        assert _pages(api, path, client=client, round_from=3, round_to=8) == between
    assert _pages(api, path, client="nobody") == []
    assert _pages(api, path, round_from=ROUNDS + 1) == []
