"""Rows of each group that clients train on."""

import numpy as np

from fedaudit.federations.load import load_federation
from fedaudit.federations.split import split_clients, training_group_rows
from fedaudit.spec.parse import parse_spec

SPEC = {
    "name": "rows",
    "seed": 5,
    "federation": {
        "source": "synthetic-groups",
        "clients_per_group": [12, 8],
        "rows_per_client": 7,
        "validation_fraction": 0.25,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "rounds": 3, "cohort": {"clients": 3}},
    "privacy": {"mechanism": "none"},
    "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 0}},
}


def test_only_training_clients_have_rows():
    spec = parse_spec(SPEC)
    federation = load_federation(spec, sources_dir=None)
    rows = training_group_rows(federation, spec)["group"]
    split = split_clients(20, validation_fraction=0.25, seed=5)
    assert rows.shape == (20, 2)
    assert rows.dtype == np.int32
    assert (rows[split.validation] == 0).all()
    assert (rows[split.training].sum(axis=1) == 7).all()
    assert set(np.count_nonzero(rows[split.training], axis=1)) == {1}
    codes = federation.attribute("group").codes[federation.first[split.training]]
    np.testing.assert_array_equal(rows[split.training].argmax(axis=1), codes)
