"""Training from features that are laid out on disk."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.processes import completed

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
    one = pa.array(rng.normal(size=rows).astype(np.float32))
    names = ["who", "y", *(f"x{place}" for place in range(columns))]
    table = pa.table([rng.integers(0, 600, rows), *[one] * (columns + 1)], names=names)
    pq.write_table(table, tmp_path / "wide.parquet", compression="none", use_dictionary=False)
    command = [sys.executable, "-c", _LOAD_AND_TRAIN, str(tmp_path), str(24 * 10**6)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3", str(rows * columns * 4)]
