"""Tables that cannot be used: the field, the column, the row and the remedy are named."""

import gzip
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.federations.load import load_federation
from fedaudit.federations.reading import table_files
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import CLASSIFIER, Refuse, spec_value

PATH, FIRST = "/federation/path", "/federation/features/0"
GOOD = "hospital,x,cost\na,1,2\nb,3,4\na,1,2\n"
ONE_OF_CLASSES = {**CLASSIFIER, "federation.positive": "1"}


@pytest.mark.parametrize(
    ("changes", "pointer", "says"),
    [
        ({"federation.client_key": "city"}, "/federation/client_key", "'city'; it has 'hospital'"),
        ({"federation.target": "price"}, "/federation/target", "'price'"),
        ({"federation.target": "hospital"}, "/federation/target", "client key"),
        ({"federation.features": ["x", "y"]}, "/federation/features/1", "'y'"),
        ({"federation.features": ["x", "x"]}, "/federation/features/1", "twice"),
        ({"federation.features": ["cost"]}, FIRST, "is the target"),
        ({"federation.features": ["hospital"]}, FIRST, "is the client key"),
        ({"federation.drop": ["y"]}, "/federation/drop/0", "'y'"),
        ({"federation.drop": ["x"]}, "/federation/features", "no column is left"),
        ({"federation.drop": ["cost"]}, "/federation/drop/0", "do not drop it"),
        ({"federation.drop": ["x"], "federation.features": ["x"]}, FIRST, "under `drop` too"),
        ({"fairness": {"sensitive": ["race"]}}, "/fairness/sensitive/0", "'race'"),
        ({"fairness": {"sensitive": ["x", "cost"]}}, "/fairness/sensitive/1", "is the target"),
        ({"federation.scale": {"a/b": 2}}, "/federation/scale/a~1b", "neither a feature"),
        ({"federation.scale": {"hospital": 2}}, "/federation/scale/hospital", "neither"),
        ({"federation.scale": {"x": 1e-300}}, "/federation/scale/x", "larger scale"),
        ({"federation.scale": {"cost": 1e-300}}, "/federation/scale/cost", "larger scale"),
        ({"federation.positive": "4"}, "/federation/positive", "leave it out"),
        ({**CLASSIFIER, "federation.positive": "5"}, "/federation/positive", "'2', '4'"),
        ({**CLASSIFIER, "federation.scale": {"cost": 2}}, "/federation/scale/cost", "class"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_the_table(refuse, changes, pointer, says):
    faults = refuse(changes, data=GOOD)
    assert list(faults) == [pointer]
    assert says in faults[pointer]


def test_all_missing_columns_are_named_at_once(refuse: Refuse) -> None:
    changes = {"federation.client_key": "k", "federation.target": "t", "federation.drop": ["d"]}
    assert list(refuse(changes, data=GOOD)) == [
        "/federation/client_key",
        "/federation/target",
        "/federation/drop/0",
    ]


@pytest.mark.parametrize(
    ("rows", "changes", "pointer", "says"),
    [
        ("a,1,2\na,3,4\n", {}, "client_key", "at least two"),
        ("a,1,2\nb,3,4\nc,3,4\n", {}, "client_key", "different in every one of the 3"),
        ("a,1,yes\nb,1,no\na,1,\n", CLASSIFIER, "target", "row 3 of column 'cost' is empty"),
        ("a,1,yes\nb,1,yes\na,1,yes\n", CLASSIFIER, "target", "one value only"),
        ("a,1,1\nb,1,2\na,1,3\n", ONE_OF_CLASSES, "positive", "3 classes"),
    ],
)
def test_client_keys_and_classes(refuse, rows, changes, pointer, says):
    faults = refuse(changes, data="hospital,x,cost\n" + rows)
    assert says in faults[f"/federation/{pointer}"]


def test_a_measurement_makes_no_classes(refuse: Refuse) -> None:
    lines = "".join(f"{'ab'[row % 2]},1,{row}.5\n" for row in range(1001))
    message = refuse(CLASSIFIER, data="hospital,x,cost\n" + lines)["/federation/target"]
    assert "1001 distinct values" in message
    assert "rmse" in message


def test_parquet_gaps_and_infinities(refuse: Refuse, sources: Path) -> None:
    for gap, says in ((None, "is empty"), (float("nan"), "not finite"), (2**63, "past 64 bits")):
        x = pa.array([1, gap, 1], pa.uint64() if isinstance(gap, int) else pa.float64())
        table = pa.table({"hospital": ["a", "b", "b"], "x": x, "cost": [1, 2, 3]})
        pq.write_table(table, sources / "data.csv")
        message = refuse()["/federation/features"]
        assert "row 2 of column 'x'" in message
        assert says in message


def test_columns_are_bounded(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "MAX_COLUMNS", 2)
    assert "3 columns" in refuse(data=GOOD)[PATH]


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """A few bytes changed, cut out or put in."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.6:
            data[place] = rng.choice([rng.randrange(256), *b'\n",\0'])
        elif kind < 0.8:
            del data[place : place + rng.randint(1, 9)]
        else:
            data[place:place] = rng.randbytes(rng.randint(1, 5))
        data = data or bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet"])
def test_damaged_files_are_refused_or_read_and_never_worse(sources: Path, kind: str) -> None:
    rng = random.Random(7)
    text = b"hospital,x,cost\n" + b'a,1,2\n"b, c",3,4\n' * 5
    table = pa.table({"hospital": ["a", "b", "b"], "x": [1.5, 2, 3], "cost": [1, 2, 3]})
    pq.write_table(table, sources / "good")
    whole = {"csv": text, "gzip": gzip.compress(text), "parquet": (sources / "good").read_bytes()}
    spec = parse_spec(spec_value({}))
    pointers: list[str] = []
    for _ in range(150):
        (sources / "data.csv").write_bytes(_damaged(rng, whole[kind]))
        try:
            federation = load_federation(spec, sources_dir=sources)
        except InvalidInputError as error:
            pointers += [fault.pointer for fault in error.errors]
        else:
            assert np.isfinite(federation.features).all()
    assert len(pointers) > 50
    assert all(pointer.startswith("/federation/") for pointer in pointers)
