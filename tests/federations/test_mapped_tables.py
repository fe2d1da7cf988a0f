"""Tables that are laid out on disk: the same data as in memory, found again, never half of them."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.federations import federation as federation_module
from fedaudit.federations import mapped as map_folder_module
from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.mapped import MapFolder
from fedaudit.federations.reading import table_files, table_rows
from fedaudit.federations.reading.source_files import DataRoom
from fedaudit.federations.table import features, table_federation
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted, parse_spec
from tests.federations.conftest import CLASSIFIER, spec_value
from tests.federations.outlines import assert_alike

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


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataRoom:
    """Small files are worth a map, and settle at once."""
    monkeypatch.setattr(table_federation, "WORTH_A_MAP", 1)
    monkeypatch.setattr(map_folder_module, "_SETTLED_SECONDS", -1.0)
    return DataRoom(maps_dir=tmp_path / "maps")


def laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large: rows are gathered on disk, and features laid out in parts."""
    monkeypatch.setattr(federation_module, "_SIDE_BY_SIDE_CELLS", 100)
    monkeypatch.setattr(table_rows, "_IN_MEMORY", 1000)
    monkeypatch.setattr(table_files, "_TOGETHER", 500)
    monkeypatch.setattr(features, "_CELLS_AT_ONCE", 64)


def count_readings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    readings: list[None] = []
    load = table_federation.load_table

    def counted(*args: Any, **named: Any) -> Federation:
        readings.append(None)
        return load(*args, **named)

    monkeypatch.setattr(table_federation, "load_table", counted)
    return readings


@pytest.mark.parametrize("changes", WAYS)
def test_data_are_the_same_wherever_they_lie(sources, room, monkeypatch, changes):
    written(sources)
    in_memory = loaded(sources, changes)
    assert_alike(loaded(sources, changes, room), in_memory)
    laid_out(monkeypatch)
    shutil.rmtree(room.maps_dir or Path())
    for where in (room, room, None):
        large = loaded(sources, changes, where)
        assert large.is_large
        assert_alike(large, in_memory)


def test_a_table_is_read_once_and_then_mapped(sources, room, monkeypatch):
    written(sources)
    readings = count_readings(monkeypatch)
    first = loaded(sources, {}, room)
    assert_alike(loaded(sources, {"federation.validation_fraction": 0.2, "seed": 5}, room), first)
    assert len(readings) == 1
    loaded(sources, {"federation.scale": {"y": 2}}, room)
    assert len(readings) == 2


def test_a_changed_file_is_noticed(sources, room, monkeypatch):
    path = written(sources)
    before = loaded(sources, {}, room)
    content = path.read_bytes()
    # As long as before, in the same inode, and with its time of change set back.
    with path.open("r+b") as file:
        file.seek(len(content) - 2)
        file.write(b"8" if content[-2:-1] != b"8" else b"7")
    os.utime(path, ns=(10**18, 10**18))
    after = loaded(sources, {}, room)
    assert after.fingerprint != before.fingerprint
    assert after.raw_target.sum() != before.raw_target.sum()
    readings = count_readings(monkeypatch)
    path.write_bytes(content)
    assert_alike(loaded(sources, {}, room), before)
    assert not readings


def test_half_a_map_is_made_anew(sources, room, monkeypatch):
    written(sources)
    expected = loaded(sources, {})
    loaded(sources, {}, room)
    (folder,) = (room.maps_dir or Path()).glob("?" * 64 + "-*")
    readings = count_readings(monkeypatch)
    for times, spoil in enumerate(("cut", "gone", "about")):
        if spoil == "cut":
            data = (folder / "features.npy").read_bytes()
            (folder / "features.npy").write_bytes(data[:-4])
        elif spoil == "gone":
            (folder / "target.npy").unlink()
        else:
            (folder / "about.json").write_text('{"bytes": ')
        for _ in range(2):
            assert_alike(loaded(sources, {}, room), expected)
            assert len(readings) == times + 1


def test_what_a_killed_process_left_is_not_looked_at_and_goes(sources, room, tmp_path):
    written(sources)
    left = tmp_path / "maps" / ".making-left"
    left.mkdir(parents=True)
    (left / "features.npy").write_bytes(b"half")
    loaded(sources, {}, room)
    assert left.exists()  # somebody may be writing it
    os.utime(left, (0, 0))
    loaded(sources, {"federation.scale": {"y": 2}}, room)
    assert not left.exists()


def test_maps_stay_within_their_bound(sources: Path, room: DataRoom, tmp_path: Path) -> None:
    written(sources)
    expected = loaded(sources, {}, room)
    (first,) = (tmp_path / "maps").glob("?" * 64 + "-*")
    size = sum(path.stat().st_size for path in first.iterdir())
    os.utime(first, (0, 0))
    for bound, kept in ((2.5, 2), (1.5, 1), (0.5, 1)):
        tight = DataRoom(maps_dir=room.maps_dir, maps_bytes=int(size * bound))
        found = loaded(sources, {"federation.scale": {"y": 4 + bound}}, tight)
        np.testing.assert_array_equal(found.target, expected.target)
        assert len(list((tmp_path / "maps").glob("?" * 64 + "-*"))) == kept
    assert not first.exists()
    assert not list((tmp_path / "maps").glob(".making-*"))


def test_maps_of_contents_that_nobody_keeps_go(sources, room, tmp_path):
    written(sources)
    federation = loaded(sources, {}, room)
    maps = MapFolder(tmp_path / "maps", 2**30)
    maps.tidy(lambda asked: {one for one in asked if one != federation.fingerprint})
    assert maps.find(federation.fingerprint, _key(maps)) is not None
    maps.tidy(set)
    assert not list((tmp_path / "maps").glob("?" * 64 + "-*"))
    assert federation.features.sum() != 0  # type: ignore[union-attr]


def _key(maps: MapFolder) -> str:
    (found,) = maps.folder.glob("?" * 64 + "-*")
    return found.name.partition("-")[2]


def test_a_folder_that_cannot_be_written_changes_nothing(sources: Path, room: DataRoom) -> None:
    written(sources)
    (room.maps_dir or Path()).write_text("no folder")
    assert_alike(loaded(sources, {}, room), loaded(sources, {}))


def test_a_map_answers_nobody_who_may_not_read_the_file(sources: Path, room: DataRoom) -> None:
    written(sources)
    loaded(sources, {}, room)
    spec = parse_spec(spec_value({"federation.features": ["y"]}))
    with pytest.raises(InvalidInputError, match="there is no file"):
        load_federation(spec, sources_dir=sources, room=room, may_read=lambda _: False)


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
_MAP_AND_TRAIN = """
import resource, sys
from pathlib import Path
from fedaudit.federations import federation as federation_module
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading.source_files import DataRoom
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.federations.test_mapped_tables import WIDE
federation_module._SIDE_BY_SIDE_CELLS = 2**20
spec, folder, allowed = parse_spec(WIDE), Path(sys.argv[1]), int(sys.argv[2])
taken = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (taken + allowed, taken + allowed))
federation = load_federation(spec, sources_dir=folder, room=DataRoom(maps_dir=folder / "maps"))
stack = Stack([Cell(spec, federation)])
stack.advance(3)
print(stack.result(0).rounds, federation.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system must bound a process's data")
def test_large_data_are_trained_in_a_quarter_of_the_memory_that_they_take(tmp_path, monkeypatch):
    """A process that maps 96 MB of features is allowed 24 MB beyond its libraries: to map them, to
    train three rounds and to score every held-out client."""
    rng = np.random.default_rng(1)
    rows, columns = 40_000, 600
    values = rng.normal(size=(columns + 1, rows)).astype(np.float32)
    names = ["who", "y", *(f"x{place}" for place in range(columns))]
    table = pa.table([rng.integers(0, 600, rows), *values], names=names)
    pq.write_table(table, tmp_path / "wide.parquet", compression="none", use_dictionary=False)
    monkeypatch.setattr(federation_module, "_SIDE_BY_SIDE_CELLS", 2**20)
    room = DataRoom(maps_dir=tmp_path / "maps")
    load_federation(parse_spec(WIDE), sources_dir=tmp_path, room=room)
    command = [sys.executable, "-c", _MAP_AND_TRAIN, str(tmp_path), str(24 * 10**6)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["3", str(rows * columns * 4)]
