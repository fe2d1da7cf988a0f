"""Stage loading: what differs in the file of one unit changes nothing that is loaded of the others.

The neighbour is made in the file, before anything reads it. Where loading keeps neighbours apart by
their unit alone, the pairs of `neighbour_pair`, which are made of loaded data, are all there are.
"""

import io
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.hospital import CHARGES, known_columns
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading.source_files import Files, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.table.columns import find_columns
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import Femnist, HospitalCharges, Images
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Table
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.records import training_records

Change = Literal["other values", "gone"]
Mask = NDArray[np.bool_]
Cells = dict[str, str]
_LOUD = 1.0e6


@dataclass(frozen=True, eq=False)
class ChangedUnit:
    """Rows of one client of a federation that are otherwise in the file, or no more in it."""

    rows: Mask
    """[rows], in the order of the federation."""
    change: Change
    trains: bool


def check_loading(cell: Cell, findings: Findings, *, sources_dir: Path | None) -> None:
    """Loads neighbours of the spec's file: a unit that trains, and one that is held out."""
    if cell.spec.federation.traits.made_up:
        return  # nobody's data are loaded
    with TemporaryDirectory() as folder:
        for unit in units(cell):
            moved = moved_by(cell.spec, cell.federation, unit, sources_dir, Path(folder))
            findings.expect(
                "loading",
                "what is loaded of the others",
                holds=not moved,
                round_=None,
                allowed="the same",
                measured=f"moved by a unit with {unit.change}: {', '.join(moved)}",
            )


def moved_by(
    spec: ExperimentSpec,
    federation: Federation,
    unit: ChangedUnit,
    sources_dir: Path | None,
    folder: Path,
) -> list[str]:
    """What is loaded otherwise of everybody but the unit. `folder`: for copies of the file."""
    source, found = spec.federation, []
    named = spec
    if isinstance(source, Table):  # a copy names its columns
        named = spec.model_copy(update={"federation": source.model_copy(update={"header": True})})
    for name, changed in (("base", None), ("neighbour", unit)):
        _copy(spec, federation, changed, Files(sources_dir), folder / name)
        found.append(load_federation(named, sources_dir=folder / name))
    base, neighbour = found
    return _differences(base, neighbour, unit)


def units(cell: Cell) -> Iterator[ChangedUnit]:
    """One that trains and one that is held out, where there are such, in each way to differ."""
    federation = cell.federation
    if not cell.spec.privacy.draws_by_record:
        split = split_cells([cell])
        for clients, trains in ((split.training[0], True), (split.validation[0], False)):
            yield ChangedUnit(federation.client_of == clients[0], "other values", trains)
        return
    training = np.zeros(federation.rows, dtype=np.bool_)
    training[training_records(cell.spec, federation).place] = True
    # The last one of a client that has many others, so that no record has it before itself.
    counts = federation.counts
    last = (federation.first[1:] - 1)[np.argsort(-counts, kind="stable")][: (counts > 1).sum()]
    for rows, trains in ((last[training[last]], True), (last[~training[last]], False)):
        for row in rows[:1]:
            one = np.arange(federation.rows) == row
            yield ChangedUnit(one, "other values", trains)
            if not cell.spec.federation.traits.deals_rows:  # by place, which is taken as fixed
                yield ChangedUnit(one, "gone", trains)


def _differences(base: Federation, other: Federation, unit: ChangedUnit) -> list[str]:
    mine = unit.rows
    theirs = mine[~mine] if unit.change == "gone" else mine
    if other.rows != len(theirs):
        return ["which rows there are"]
    named = {
        "clients": (base.client_names, other.client_names),
        "columns": (base.feature_names, other.feature_names),
        "classes": (base.classes, other.classes),
        "groups": tuple([(one.name, one.values) for one in f.attributes] for f in (base, other)),
    }
    arrays = {
        "features": (_features(base), _features(other)),
        "targets": (base.target, other.target),
        "whose rows they are": (base.client_of, other.client_of),
        "budgets": (base.record_budgets, other.record_budgets),
        "coins of records": (base.record_keys, other.record_keys),
        "groups of rows": tuple(
            np.array([one.codes for one in f.attributes]).T for f in (base, other)
        ),
    }
    found = [name for name, (before, after) in named.items() if before != after]
    for name, (before, after) in arrays.items():
        if before is None or after is None or not len(before) or not len(after):
            continue
        if not np.array_equal(before[~mine], after[~theirs]):
            found.append(name)
    return found


def _features(federation: Federation) -> NDArray[Any]:
    kept = federation.features
    return kept.values if isinstance(kept, ClientRows) else kept


def _copy(
    spec: ExperimentSpec,
    federation: Federation,
    unit: ChangedUnit | None,
    files: Files,
    folder: Path,
) -> None:
    """The source's file below `folder`, by the same name, with the unit changed."""
    source = spec.federation
    assert isinstance(source, FileSource)
    if source.path is None:
        raise ValueError("a federation that was uploaded is replayed where its file is")
    place = folder / source.path
    place.parent.mkdir(parents=True, exist_ok=True)
    with open_source(source, files=files) as file:
        match source:
            case Table():
                table = TableFile(file, header=source.header)
                cells = _cells_of_table(spec, table.names, federation)
                _copy_table(table, cells, federation, unit, place)
            case HospitalCharges():
                table = TableFile(file)
                paid = known_columns(table.names, CHARGES)[source.traits.target_name]
                _copy_table(table, {paid: str(_LOUD)}, federation, unit, place)
                if source.zip_table is not None and files.sources_dir is not None:
                    shutil.copy(files.sources_dir / source.zip_table, folder / source.zip_table)
            case Images():
                _copy_images(file.read_all(), source.client_key, federation, unit, place)
            case Femnist():
                _copy_leaf(file.read_all(), federation, unit, place)
            case _:
                raise ValueError(f"no neighbour is made of {source.source}")


def _cells_of_table(spec: ExperimentSpec, names: Sequence[str], federation: Federation) -> Cells:
    """By column what the unit's cells become: numbers far out, and another category or class."""
    source = spec.federation
    assert isinstance(source, Table)
    budgets = spec.privacy.budget_column
    columns = find_columns(source, names, spec.fairness.sensitive, budgets=budgets)
    cells: Cells = {one.name: (*one.categories, str(_LOUD))[0] for one in columns.features}
    if not source.traits.deals_rows:  # by the target too, which is taken as fixed
        cells[source.target] = federation.classes[0] if federation.classes else str(_LOUD)
    return cells


def _copy_table(
    table: TableFile, cells: Cells, federation: Federation, unit: ChangedUnit | None, place: Path
) -> None:
    """As Parquet, whatever the file is, with every cell of the others as it is."""
    assert federation.row_numbers is not None
    numbers = federation.row_numbers[unit.rows] if unit else np.zeros(0, dtype=np.int64)
    writer = None
    for rows in table.batches(table.names):
        mine, columns = np.isin(rows.row_numbers, numbers), dict(rows.columns)
        for name, cell in cells.items():
            value = pa.scalar(cell).cast(columns[name].type)
            columns[name] = pc.if_else(pa.array(mine), value, columns[name])
        written = pa.table(columns)
        if unit and unit.change == "gone":
            written = written.filter(pa.array(~mine))
        writer = writer or pq.ParquetWriter(place, written.schema)
        writer.write_table(written)
    if writer is not None:
        writer.close()


def _own(federation: Federation, unit: ChangedUnit | None) -> dict[str, NDArray[np.int64]]:
    """By name of a client: the places of the unit's rows among its rows, as the file has them."""
    if unit is None:
        return {}
    rows = np.flatnonzero(unit.rows)
    of, first = federation.client_of[rows], federation.first
    return {federation.client_names[one]: rows[of == one] - first[one] for one in np.unique(of)}


def _copy_images(
    content: bytes, key: str, federation: Federation, unit: ChangedUnit | None, place: Path
) -> None:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names, images = arrays[key].astype(np.str_), len(arrays["x"])
    kept = np.ones(images, dtype=np.bool_)
    for client, places in _own(federation, unit).items():
        mine = np.flatnonzero(names == client)[places]
        top = 255 if arrays["x"].dtype == np.uint8 else 1
        arrays["x"][mine] = top - arrays["x"][mine]
        arrays["y"][mine] = arrays["y"][0]
        kept[mine] = unit is None or unit.change != "gone"
    with place.open("wb") as out:
        np.savez(out, **{k: v[kept] if len(v) == images else v for k, v in arrays.items()})


def _copy_leaf(
    content: bytes, federation: Federation, unit: ChangedUnit | None, place: Path
) -> None:
    """One JSON file, or a zip of several."""
    with zipfile.ZipFile(place, "w") as out:
        shards = {"all.json": content}
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                shards = {name: archive.read(name) for name in archive.namelist()}
        for name, shard in shards.items():
            value = orjson.loads(shard)
            for client, places in _own(federation, unit).items():
                if (own := value["user_data"].get(client)) is not None:
                    for row in places.tolist()[::-1]:
                        own["x"][row] = [1 - pixel for pixel in own["x"][row]]
                        own["y"][row] = 0
                        if unit is not None and unit.change == "gone":
                            del own["x"][row], own["y"][row]
                    value["num_samples"][value["users"].index(client)] = len(own["y"])
            out.writestr(name, orjson.dumps(value))
