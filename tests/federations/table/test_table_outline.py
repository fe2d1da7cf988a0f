"""Plans are made from outlines: equal to the loaded data in all but their features, and their
errors the same; and data are the same wherever they are laid out."""

import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.federations import federation as federation_module
from fedaudit.federations.load import load_federation, outline_federation
from fedaudit.federations.reading import table_files, table_rows
from fedaudit.federations.reading.source_files import DataRoom, Files
from fedaudit.federations.table import features
from fedaudit.runs.experiment_plan import plan_experiment
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted, parse_spec
from tests.federations.conftest import CLASSIFIER, assert_alike, assert_outlined, found, spec_value
from tests.processes import completed
from tests.spec.documents import BY_RECORD

FILLED = {"name": "x", "missing": "constant", "fill": 2.5}
DROPPING = {"name": "x", "missing": "drop-row"}
STAGE = {"name": "stage", "kind": "categorical", "categories": ["low", "mid", "high"]}
FEATURES: dict[str, Any] = {
    "gaps that are filled": ["y", FILLED],
    "gaps that leave rows out": [DROPPING, "y"],
    "gaps that are errors": ["y", "x"],
    "a category too few": [{**STAGE, "categories": ["low", "mid"]}, "y"],
    "one-hot": [STAGE, "y"],
    "ordinal": [{**STAGE, "encoding": "ordinal"}],
}
SCALES: dict[str, Any] = {"clamped": {"y": {"low": -1, "high": 0.5}}, "too small": {"*": 1e-40}}
CLIENTS: dict[str, dict[str, Any]] = {
    "named": {},
    "dealt": {
        "federation.client_key": None,
        "federation.drop": ["hospital"],
        "federation.partition": {"method": "iid", "clients": 7},
        "seed": 3,
    },
    "by class": {
        **CLASSIFIER,
        "federation.client_key": None,
        "federation.target": "ill",
        "federation.drop": ["hospital"],
        "federation.partition": {"method": "dirichlet", "clients": 5, "alpha": 0.4},
        "seed": 9,
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "groups": {
        "fairness": {
            "sensitive": ["sex", "age"],
            "edges": {"age": [30, 50]},
            "intersections": [["sex", "age"]],
            "favourable": {"op": "ge", "value": 1},
        }
    },
    "rows without a target": {
        **CLASSIFIER,
        "federation.target": "gappy",
        "federation.missing_values": ["?"],
        "federation.missing_target": "drop-row",
    },
    "standardised": {"federation.standardise": "global"},
    "standardised by clients": {"federation.standardise": "client"},
    "rows held out by their keys": {
        "federation.validation_unit": "record",
        "privacy": {**BY_RECORD, "budgets": {"column": "epsilon"}},
        "training": {
            "loss": "mse",
            "rounds": 2,
            "cohort": {"sampling": "poisson", "rate": 1},
            "local": {"steps": 1},
        },
    },
}


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    for (one, named), (two, scale) in product(FEATURES.items(), SCALES.items()):
        yield f"{one}, {two}", {"federation.features": named, "federation.scale": scale}
    for (one, named), (two, clients) in product(FEATURES.items(), CLIENTS.items()):
        yield f"{one}, {two}", {"federation.features": named, **clients}
    for (one, named), (two, other) in product(FEATURES.items(), OTHERS.items()):
        yield f"{one}, {two}", {"federation.features": named, **other}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as CSV, and with numbers as Parquet."""
    folder, rng = tmp_path_factory.mktemp("sources"), random.Random(4)
    names = ["hospital", "x", "y", "stage", "age", "sex", "ill", "gappy", "epsilon", "cost"]
    cells = [
        [
            f"h{rng.randrange(20)}",
            rng.choice(["", f"{rng.gauss(0, 9):.4f}"]) if rng.random() < 0.1 else "1.5",
            f"{rng.gauss(0, 5):.5f}",
            rng.choice(["low", "mid", "high"]),
            str(rng.randrange(20, 70)),
            rng.choice(["F", "M", "?", ""]),
            rng.choice(["yes", "no"]),
            rng.choice(["", "?", "1", "2.5"]),
            rng.choice(["0.5", "1", "2"]),
            str(rng.randrange(9)),
        ]
        for _ in range(300)
    ]
    (folder / "data.csv").write_text("\n".join(map(",".join, [names, *cells])) + "\n")
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
    for name in ("x", "y", "epsilon", "cost"):
        columns[name] = [float(cell) if cell else None for cell in columns[name]]
    columns["age"] = [*map(int, columns["age"])]
    pq.write_table(pa.table(columns), folder / "data.parquet")
    return folder


@pytest.mark.parametrize("turn", range(4), ids=["csv", "parquet", "large csv", "large parquet"])
def test_a_plan_sees_what_loading_sees(folder, tmp_path, monkeypatch, turn):
    """All variants, each in one of four ways. Large data, whose rows are gathered on disk and whose
    features are laid out there in parts, are the same as in memory."""
    path = "data.parquet" if turn % 2 else "data.csv"
    scratch, no_folder = tmp_path / "scratch", tmp_path / "file"
    no_folder.write_text("no folder")
    rooms = DataRoom(scratch_dir=scratch), DataRoom(scratch_dir=no_folder), DataRoom()
    places = cycle([Files(folder, room=room) for room in rooms])
    for name, changes in list(variants())[turn::4]:
        spec = parse_admitted(spec_value({"federation.path": path, **changes}))
        in_memory = found(partial(load_federation, spec, sources_dir=folder))
        with monkeypatch.context() as patch:
            patch.setattr(table_files, "_TOGETHER", 500)
            if turn >= 2:
                patch.setattr(federation_module, "_SIDE_BY_SIDE_CELLS", 100)
                patch.setattr(table_rows, "_IN_MEMORY", 1000)
                patch.setattr(features, "_CELLS_AT_ONCE", 64)
            try:
                assert_outlined(spec, folder)
                loaded = found(partial(load_federation, spec, files=next(places)))
                if isinstance(in_memory, list) or isinstance(loaded, list):
                    assert loaded == in_memory
                else:
                    assert loaded.is_large == (turn >= 2)
                    assert_alike(loaded, in_memory)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    assert not any(scratch.iterdir()), "what is mapped has no name any more"


@pytest.mark.parametrize("clients", CLIENTS)
def test_a_plan_of_an_outline_is_the_plan_of_the_data(folder, clients):
    """The plan, its reservation and what is stored of it."""
    groups = {"sensitive": ["sex"]}
    changes = {"federation.features": [STAGE, FILLED], **CLIENTS[clients], "fairness": groups}
    spec = parse_spec(spec_value(changes))
    expected = plan_experiment(spec, load_federation(spec, sources_dir=folder))
    planned = plan_experiment(spec, outline_federation(spec, files=Files(folder)))
    for part in ("projection", "profile", "parameters"):
        assert getattr(planned, part) == getattr(expected, part)
    assert planned.ledger_context.subjects == expected.ledger_context.subjects
    with pytest.raises(TypeError, match="not loaded"):
        planned.federation.side_by_side  # noqa: B018


def test_a_column_of_an_odd_type_is_named_and_hinders_no_other(folder, tmp_path):
    """Arrow makes no cell of an extension type empty: such a column can be no feature where texts
    mean gaps."""
    table = pq.read_table(folder / "data.parquet")
    odd = pa.array([bytes(16)] * len(table), pa.uuid())
    pq.write_table(table.append_column("odd", odd), tmp_path / "data.parquet")
    gaps = {"federation.path": "data.parquet", "federation.missing_values": ["?"]}
    used = parse_spec(spec_value({**gaps, "federation.features": ["y", "odd"]}))
    with pytest.raises(InvalidInputError, match=r"'odd' is of type .*uuid.*; store it"):
        load_federation(used, sources_dir=tmp_path)
    for features_ in (["y"], ["y", "odd"]):
        spec = parse_spec(spec_value({**gaps, "federation.features": features_}))
        assert_outlined(spec, tmp_path)


LONG: dict[str, Any] = {
    "name": "long",
    "federation": {
        "source": "table",
        "path": "long.parquet",
        "client_key": "who",
        "target": "y",
        "scale": {"*": 7},
        "validation_fraction": 0.2,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "mse", "rounds": 3, "cohort": {"clients": 20}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1, "clip": 1},
}
_BOUNDED = """
import resource, sys
from pathlib import Path
from fedaudit.federations import federation as federation_module
from fedaudit.federations.load import load_federation, outline_federation
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.parse import parse_spec
from tests.federations.table.test_table_outline import LONG
folder, allowed = Path(sys.argv[1]), int(sys.argv[2])


def spec_of(path, **changes):
    return parse_spec({**LONG, "federation": {**LONG["federation"], "path": path}, **changes})


def bound():
    taken = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (taken + allowed, taken + allowed))
"""
_PLAN = """
from fedaudit.runs.experiment_plan import plan_experiment


def plan(path):
    spec = spec_of(path)
    found = outline_federation(spec, files=Files(folder))
    return plan_experiment(spec, found).parameters, found.is_outline


plan("short.parquet")  # libraries
bound()
print(*plan("long.parquet"))
"""
_LOAD_AND_TRAIN = """
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
federation_module._SIDE_BY_SIDE_CELLS = 2**20
spec = spec_of("long.parquet", privacy={"mechanism": "none"})
federation = load_federation(spec, sources_dir=folder)
bound()
stack = Stack([Cell(spec, federation)])
stack.advance(3)
print(stack.result(0).rounds, federation.nbytes)
"""


def bounded(script: str, folder: Path, *, rows: int, columns: int, allowed: int) -> list[str]:
    """What a process prints that works on a table of so many features, of which it may have so many
    megabytes beyond what it has when it calls `bound`."""
    rng = np.random.default_rng(1)
    one = pa.array(rng.normal(size=rows).astype(np.float32))
    names = ["who", "y", *(f"x{place}" for place in range(columns))]
    table = pa.table([rng.integers(0, 600, rows), *[one] * (columns + 1)], names=names)
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    pq.write_table(table, folder / "long.parquet", 2**15, **plain)
    pq.write_table(table.slice(0, 900).select(names[:9]), folder / "short.parquet")
    environment = {
        **os.environ,
        **{"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "PYTHONPATH": str(Path.cwd())},
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    command = [sys.executable, "-c", _BOUNDED + script, str(folder), str(allowed * 10**6)]
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the system must bound its data")


@on_linux
def test_a_plan_takes_no_memory_for_features(tmp_path: Path) -> None:
    """A table of 192 MB of features: a process that plans it is allowed 120 MB beyond its
    libraries."""
    assert bounded(_PLAN, tmp_path, rows=300_000, columns=160, allowed=120) == ["161", "True"]


@on_linux
def test_large_data_are_trained_in_a_quarter_of_the_memory_that_they_take(tmp_path: Path) -> None:
    """A process that has loaded 96 MB of features is allowed 24 MB beyond what it has, to train
    three rounds and to score every held-out client."""
    found = bounded(_LOAD_AND_TRAIN, tmp_path, rows=40_000, columns=600, allowed=24)
    assert found == ["3", str(40_000 * 600 * 4)]
