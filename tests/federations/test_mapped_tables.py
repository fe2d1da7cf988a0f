"""Tables that are laid out on disk: the same data as in memory."""

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.federations import federation as federation_module
from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading import table_files, table_rows
from fedaudit.federations.reading.source_files import DataRoom
from fedaudit.federations.table import features
from fedaudit.spec.parse import parse_admitted
from tests.federations.conftest import CLASSIFIER, spec_value
from tests.federations.outlines import assert_alike
from tests.processes import completed

COLOUR = {
    "name": "colour",
    "kind": "categorical",
    "categories": ["red", "blue"],
    "missing": "drop-row",
}
NUMBER = {"name": "x", "missing": "constant", "fill": 0.5}
SEX = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 3}}
WAYS: list[dict[str, Any]] = [
    {},
    {"federation.features": [NUMBER, COLOUR], "federation.missing_values": ["?"], "fairness": SEX},
    {"federation.features": ["y"], "federation.standardise": "client"},
    {"federation.features": ["y"], "federation.standardise": "global"},
    {
        "federation.client_key": None,
        "federation.drop": ["hospital"],
        "federation.features": ["y"],
        "federation.partition": {"method": "iid", "clients": 7},
    },
    {
        **CLASSIFIER,
        "federation.target": "sex",
        "federation.features": ["y"],
        "federation.missing_target": "drop-row",
    },
]


def written(folder: Path, *, rows: int = 400, seed: int = 1) -> Path:
    """A table with gaps, whose clients are in no order."""
    rng = random.Random(seed)
    lines = ["hospital,x,y,colour,sex,cost"]
    for _ in range(rows):
        x = rng.choice(["?", f"{rng.gauss(0, 1):.6f}"])
        colour, sex = rng.choice(["red", "blue", "?"]), rng.choice(["F", "M", ""])
        lines.append(
            f"h{rng.randrange(20)},{x},{rng.gauss(0, 1)},{colour},{sex},{rng.randrange(9)}"
        )
    path = folder / "data.csv"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, ns=(10**18, 10**18))
    return path


def loaded(sources: Path, changes: dict[str, Any], room: DataRoom | None = None) -> Federation:
    value = spec_value({"federation.features": ["y"], **changes})
    return load_federation(parse_admitted(value), sources_dir=sources, room=room)


def laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large: rows are gathered on disk, and features laid out in parts."""
    monkeypatch.setattr(federation_module, "_SIDE_BY_SIDE_CELLS", 100)
    monkeypatch.setattr(table_rows, "_IN_MEMORY", 1000)
    monkeypatch.setattr(table_files, "_TOGETHER", 500)
    monkeypatch.setattr(features, "_CELLS_AT_ONCE", 64)


@pytest.mark.parametrize("changes", WAYS)
def test_data_are_the_same_wherever_they_lie(sources, tmp_path, monkeypatch, changes):
    written(sources)
    scratch, no_folder = tmp_path / "scratch", tmp_path / "file"
    no_folder.write_text("no folder")
    in_memory = loaded(sources, changes)
    laid_out(monkeypatch)
    for where in (DataRoom(scratch_dir=scratch), DataRoom(scratch_dir=no_folder), None):
        large = loaded(sources, changes, where)
        assert large.is_large
        assert_alike(large, in_memory)
    assert not list(scratch.iterdir()), "what is mapped has no name any more"


WIDE: dict[str, Any] = {
    "name": "wide",
    "federation": {
        "source": "table",
        "path": "wide.parquet",
        "client_key": "who",
        "target": "y",
        "validation_fraction": 0.2,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "mse", "rounds": 3, "cohort": {"clients": 20}},
    "privacy": {"mechanism": "none"},
}
_LOAD_AND_TRAIN = """
import resource, sys
from pathlib import Path
from fedaudit.federations import federation as federation_module
from fedaudit.federations.load import load_federation
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.federations.test_mapped_tables import WIDE
federation_module._SIDE_BY_SIDE_CELLS = 2**20
spec, folder, allowed = parse_spec(WIDE), Path(sys.argv[1]), int(sys.argv[2])
federation = load_federation(spec, sources_dir=folder)
taken = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (taken + allowed, taken + allowed))
stack = Stack([Cell(spec, federation)])
stack.advance(3)
print(stack.result(0).rounds, federation.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system must bound a process's data")
def test_large_data_are_trained_in_a_quarter_of_the_memory_that_they_take(tmp_path):
    """A process that has loaded 96 MB of features is allowed 24 MB beyond what it has, to train
    three rounds and to score every held-out client."""
    rng = np.random.default_rng(1)
    rows, columns = 40_000, 600
    values = rng.normal(size=(columns + 1, rows)).astype(np.float32)
    names = ["who", "y", *(f"x{place}" for place in range(columns))]
    table = pa.table([rng.integers(0, 600, rows), *values], names=names)
    pq.write_table(table, tmp_path / "wide.parquet", compression="none", use_dictionary=False)
    command = [sys.executable, "-c", _LOAD_AND_TRAIN, str(tmp_path), str(24 * 10**6)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3", str(rows * columns * 4)]
