"""Loaded data are kept for specs that would load the same, and for no others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from api.shared.federation_data import FederationCache, Uploads
from fedaudit.federations.federation import Federation
from fedaudit.spec.parse import parse_admitted

ROWS = "place,age,cost\n" + "".join(f"p{row % 8},{row},{row % 3}\n" for row in range(80))
BY_KEY = {"client_key": "place"}
DEALT = {"partition": {"method": "iid", "clients": 8}, "features": ["age"]}
SENSITIVE = {"sensitive": ["age"], "favourable": {"op": "ge", "value": 1}}


def spec(federation: dict[str, Any], **changes: Any) -> dict[str, Any]:
    table = {"source": "table", "path": "a.csv", "target": "cost"}
    return {
        "name": "cached",
        "federation": {**table, **federation},
        "model": {"kind": "linear"},
        "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 1}},
        "privacy": {"mechanism": "none"},
        **changes,
    }


def loaded(cache: FederationCache, value: dict[str, Any]) -> Federation:
    # No spec here names an upload, so nothing is asked of the project's.
    return cache.load(
        parse_admitted(value),
        uploads=Uploads(
            "project",
            database=None,  # type: ignore[arg-type]
            storage=None,  # type: ignore[arg-type]
            sources_dir=None,
        ),
    )


def rows_of(federation: Federation) -> NDArray[np.int64]:
    assert federation.is_outline
    assert federation.row_numbers is not None
    return federation.row_numbers


@pytest.fixture
def cache(tmp_path: Path) -> FederationCache:
    (tmp_path / "a.csv").write_text(ROWS)
    return FederationCache(tmp_path)


@pytest.mark.parametrize(
    ("federation", "drawn"),
    [
        (BY_KEY, False),
        ({**BY_KEY, "standardise": "client"}, False),
        ({**BY_KEY, "standardise": "global"}, True),
        (DEALT, True),
    ],
)
def test_another_seed_is_other_data_only_where_data_are_drawn(cache, federation, drawn):
    one = loaded(cache, spec(federation, seed=1))
    other = loaded(cache, spec(federation, seed=2))
    assert (one is not other) == drawn
    dealt = federation is DEALT  # what is standardised otherwise is left out here
    assert (not np.array_equal(rows_of(one), rows_of(other))) == dealt
    assert loaded(cache, spec(federation, seed=1)) is one


def test_other_edges_are_other_groups(cache: FederationCache) -> None:
    features = {**BY_KEY, "features": ["age"]}
    one = loaded(cache, spec(features, fairness={**SENSITIVE, "edges": {"age": [40]}}))
    other = loaded(cache, spec(features, fairness={**SENSITIVE, "edges": {"age": [50]}}))
    assert one.attribute("age").values == ("<40", ">=40")
    assert other.attribute("age").values == ("<50", ">=50")
