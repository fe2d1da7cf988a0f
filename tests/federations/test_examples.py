"""The example specs, and real data where they are at hand."""

from pathlib import Path

import numpy as np
import pytest

from fedaudit.federations.load import load_federation
from fedaudit.federations.outcomes import favourable_rows
from fedaudit.spec.parse import parse_spec, parse_spec_text

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_spec_that_loads(path: Path, request: pytest.FixtureRequest) -> None:
    spec = parse_spec_text(path.read_text(encoding="utf-8"))
    folder = None
    if hasattr(spec.federation, "path"):
        folder = request.getfixturevalue("shared_data")
    federation = load_federation(spec, sources_dir=folder)

    assert (federation.mask.sum(axis=1) >= 1).all()
    assert np.isfinite(federation.features).all()
    assert np.abs(federation.features).max() < 20, "in the range of the units"
    if spec.fairness.sensitive:
        favourable = favourable_rows(federation, spec.fairness)[federation.mask]
        assert 0.05 < favourable.mean() < 0.95, "both outcomes occur"


def test_examples_are_there() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "hospital",
        "synthetic-linear",
        "synthetic-groups-k1",
        "synthetic-groups-k2",
        "federated-averaging",
        "ifca",
        "table-income",
    }


def hospital(**federation: object) -> object:
    return {
        "name": "real",
        "federation": {"source": "hospital-charges", **federation},
        "model": {"kind": "mlp", "hidden": [2]},
        "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 100}},
        "privacy": {"mechanism": "none"},
        "fairness": {"sensitive": ["state"], "favourable": {"op": "le", "value": 7000}},
    }


@pytest.mark.parametrize(("key", "clients"), [("zip", 2948), ("provider_id", 3151)])
def test_the_whole_hospital_file_and_the_derived_one_agree(
    shared_data: Path, key: str, clients: int
) -> None:
    derived = load_federation(
        parse_spec(hospital(path="hospital_charges/four_conditions.csv.gz", client_key=key)),
        sources_dir=shared_data,
    )
    whole = load_federation(
        parse_spec(
            hospital(
                path="hospital_charges/ipps_fy2011_top100_drg.csv.gz",
                zip_table="zip_codes/us_zip_lat_lon.csv.gz",
                client_key=key,
            )
        ),
        sources_dir=shared_data,
    )

    assert derived.clients == clients
    assert derived.rows == 11_915
    left_out = 11_915 - whole.rows
    assert whole.notes == (f"rows without coordinates, left out: {left_out}",) * bool(left_out)
    shared = [derived.client_names.index(name) for name in whole.client_names]
    assert len(shared) >= 0.95 * clients
    for here, there in zip(range(whole.clients), shared, strict=True):
        a, b = whole.mask[here], derived.mask[there]
        if a.sum() == b.sum():
            one = np.column_stack([whole.raw_target[here][a], whole.features[here][a]])
            two = np.column_stack([derived.raw_target[there][b], derived.features[there][b]])
            assert np.array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])


def test_hearts_without_the_columns_that_have_gaps(shared_data: Path) -> None:
    value = {
        "name": "hearts",
        "federation": {
            "source": "table",
            "path": "heart_disease/heart_disease_4hospitals.csv",
            "client_key": "hospital",
            "target": "target",
            "features": ["age", "cp"],
        },
        "model": {"kind": "logistic"},
        "training": {"loss": "cross-entropy", "rounds": 1, "cohort": {"clients": 3}},
        "privacy": {"mechanism": "none"},
        "fairness": {"sensitive": ["sex"]},
    }
    federation = load_federation(parse_spec(value), sources_dir=shared_data)
    rows = dict(zip(federation.client_names, federation.mask.sum(axis=1).tolist(), strict=True))
    assert rows == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    assert federation.classes == ("0", "1")
    assert federation.attribute("sex").values == ("0.0", "1.0")
