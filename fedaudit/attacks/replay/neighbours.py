"""Two federations that differ by one unit, as far apart as the guarantee's adjacency lets them be,
and what a replay observes of runs on them.

The guarantee covers all data, so in both the unit is one whose gradients are as large as the loss
lets them be: what nothing bounds is then seen. The rows of all others are the spec's.

Stage loading: what differs in the file of one unit changes nothing that is loaded of the others.
There the neighbour is made in the file, before anything reads it. If loading keeps neighbours apart
by their unit alone, the pairs made of loaded data are all there are.
"""

import io
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, assert_never

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.watched_run import UploadsPassed, WatchedRun, same, wide
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.hospital import CHARGES, known_columns
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading.source_files import Files, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.table.columns import find_columns
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import Femnist, HospitalCharges, Images
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Table
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.cohort import Block, draw_block
from fedaudit.training.base.records import (
    TrainingRecords,
    record_use_of,
    split_of,
    training_records,
)
from fedaudit.training.mechanisms.base import ClientProtection
from fedaudit.training.stacked.stack_round import build_draws

_LOUD = 1000.0
"""How many times the largest target of the data a loud unit's target is."""
_QUIET = 1e-3
"""Steps, and features and targets of records, of a run whose updates do not reach their clip."""
_LOUD_FEATURES = 100.0
"""Features of a loud unit, if slopes grow with these alone."""


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """The cells of the runs of a replay."""

    base: Cell
    neighbour: Cell
    held_out: Cell
    """The base, but for a unit that is held out for validation."""
    quiet: Cell
    """The spec's data, with updates that do not reach their clip."""
    client: int
    record: int | None
    """The record that differs, among those that train; None if all of the client does."""
    words: str


def neighbour_pair(cell: Cell, ledger_context: LedgerContext, *, rounds: int) -> NeighbourPair:
    """A pair by the adjacency that the ledger charges; the unit is one that takes part often.

    If the adjacency is a distance, or there is none, the unit has other values.
    """
    # Keys of records are fixed, so that other values keep their coins.
    keyed = replace(cell.federation, record_keys=record_keys(cell.federation))
    cell = replace(cell, federation=keyed)
    inputs = ledger_context.inputs
    sends_nothing = inputs.adjacency == "add-or-remove-one"
    often = _participations(cell, rounds)
    record, records = None, training_records(cell.spec, keyed)
    client_of = records.clients[records.client_of]
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        # The record that is expected in most steps.
        use = record_use_of(cell.spec, keyed)
        assert use is not None
        weight: Floats = use.rates * use.rounds * (often[client_of] + 0.5)
        record = int(weight.argmax())
        client, place = int(client_of[record]), records.place[[record]]
    else:
        client = int(often.argmax())
        # Its held-out rows, if any, differ in the run of those alone.
        place = records.place[client_of == client]
    bounded = mechanism_of(cell.spec).cost_kind == "epsilon" or inputs.clip
    factor = 1.0 if not bounded else _LOUD
    # A root of a mean, and a cross-entropy, have slopes that no target makes larger.
    scale = _LOUD_FEATURES if bounded and cell.spec.training.loss != "mse" else 1.0
    base = _with_loud_rows(keyed, place, (factor, scale), sign=1)
    if sends_nothing:
        other = _with_silent_rows(base, place)
    else:
        other = _with_loud_rows(keyed, place, (factor, scale), sign=-1)
    # The rows of one unit that is held out: of this client, if any of its rows are.
    others = cell.validation_rows
    own = client if client in others.clients else others.clients[0]
    of_unit = others.place[others.clients[others.client_of] == own]
    if cell.spec.scores_training_clients:  # their losses must not even end the run
        held_out = _with_silent_rows(base, of_unit)
    else:
        held_out = _with_loud_rows(base, of_unit, (1.0, 1.0), sign=-1)
    unit = "a client" if record is None else "a record"
    difference = "sends nothing" if sends_nothing else "has other values"
    return NeighbourPair(
        base=replace(cell, federation=base),
        neighbour=replace(cell, federation=other),
        held_out=replace(cell, federation=held_out),
        quiet=_quiet(cell),
        client=client,
        record=record,
        words=f"{unit} that trains {difference}",
    )


def _quiet(cell: Cell) -> Cell:
    """The cell with short updates, or gradients of records: noise must not follow their length."""
    federation, training = cell.federation, cell.spec.training
    if mechanism_of(cell.spec).facts.applied_by != "local-steps":
        step_size = {"step_size": _QUIET * training.local.step_size}
        shorter = training.model_copy(update={"local": training.local.model_copy(update=step_size)})
        return replace(cell, spec=cell.spec.model_copy(update={"training": shorter}))
    if not isinstance(federation.features, ClientRows):
        federation = replace(federation, features=_QUIET * federation.features)
    if not federation.classes:
        federation = replace(federation, target=_QUIET * federation.target)
    return replace(cell, federation=federation)


def _participations(cell: Cell, rounds: int) -> Ints:
    """How often each client of the federation is drawn: [clients]. It does not depend on data."""
    block = drawn_block(cell, first=1, rounds=rounds)
    drawn = slice(None) if block.drawn is None else block.drawn
    return np.bincount(block.cohort[drawn].ravel(), minlength=cell.federation.clients)


def drawn_block(cell: Cell, *, first: int, rounds: int) -> Block:
    """The cohorts of some rounds, as the engine draws them."""
    splits = split_cells([cell])
    return draw_block(
        build_draws([cell]),
        first_rounds=np.array([first]),
        rounds=rounds,
        training=splits.training,
        cohort=cell.spec.training.drawn_cohort,
        validation=splits.validation,
        validation_size=None,
    )


def _with_loud_rows(
    federation: Federation, place: Ints, factors: tuple[float, float], *, sign: int
) -> Federation:
    """These rows with other values: targets as far out as the first factor says, and features as
    many times as large as the second, unless they are images."""
    factor, scale = factors
    target, raw = federation.target.copy(), federation.raw_target.copy()
    features = federation.features
    if federation.classes:
        target[place] = 0 if sign > 0 else len(federation.classes) - 1
    else:
        largest = float(np.abs(federation.target[np.isfinite(federation.target)]).max()) + 1.0
        target[place] = sign * factor * largest
    if scale > 1 and not isinstance(features, ClientRows):
        scaled = features.copy()
        scaled[place] *= scale
        features = scaled
    raw[place] = federation.target_mean + target[place] * federation.target_scale
    return replace(federation, target=target, raw_target=raw, features=features)


def _with_silent_rows(federation: Federation, place: Ints) -> Federation:
    """These rows give gradients that are not finite, which no sum takes in."""
    features = federation.features
    if isinstance(features, ClientRows):
        values = features.values.astype(np.float32)
        values[place] = np.nan
        return replace(federation, features=replace(features, values=values))
    silent = features.copy()
    silent[place] = np.nan
    return replace(federation, features=silent)


@dataclass(frozen=True, eq=False)
class Replayed:
    """A run, the run of its neighbour, and one in which a held-out unit differs; the latter two
    release what the first did."""

    pair: NeighbourPair
    base: WatchedRun
    neighbour: WatchedRun
    held_out: WatchedRun

    @property
    def spec(self) -> ExperimentSpec:
        """What was asked for."""
        return self.base.cell.spec

    @property
    def charged(self) -> MechanismParameters:
        """The mechanism that the ledger states."""
        return self.base.ledger_context.inputs

    @property
    def sensitivity(self) -> float:
        """How many clips apart neighbouring sums may lie, by the adjacency charged."""
        return 1.0 if self.charged.adjacency == "add-or-remove-one" else 2.0

    @cached_property
    def role(self) -> str:
        """Where the mechanism is applied: clients, server or local-steps."""
        return mechanism_of(self.spec).facts.applied_by

    @property
    def laplace_sizes(self) -> tuple[int, ...] | None:
        """Parameters of each part that has separate Laplace noise; None of Gaussian noise.

        Raises ValueError if the mechanism draws no noise.
        """
        law = mechanism_of(self.spec).facts.noise_law
        match law:
            case "laplace":
                return self.charged.noised_sizes
            case "gaussian":
                return None
            case "none":
                raise ValueError(f"{self.charged.mechanism} draws no noise")
            case _:
                assert_never(law)

    @property
    def rounds(self) -> range:
        """The rounds that the first run played."""
        return range(1, self.base.rounds + 1)

    @property
    def together(self) -> range:
        """Rounds that both runs played from one transcript."""
        last = min(self.base.rounds, self.neighbour.rounds)
        for round_ in range(1, last + 1):
            before = self.base.hypotheses[round_ - 1], self.neighbour.hypotheses[round_ - 1]
            if not np.array_equal(*before, equal_nan=True):
                return range(1, round_)
        return range(1, last + 1)

    def clip(self, round_: int) -> float | None:
        """What updates of a round may be clipped to: the ledger's number, or the clip that was
        released the round before."""
        released = self.base.states[round_ - 1].clip
        return self.charged.clip if self.charged.clip is not None else released

    def charged_clients(self, round_: int) -> Ints:
        """Who was asked to take part in a round, by the ledger."""
        entries = [entry for entry in self.base.entries if entry.keys[0].round == round_]
        return entries[0].subjects.astype(np.int64) if entries else np.zeros(0, dtype=np.int64)

    def uploads(self, round_: int) -> Iterator[tuple[Ints, UploadsPassed]]:
        """The clients and uploads of each part of a round, in the order in which they passed."""
        cohort = self.base.passed.cohorts.get(round_)
        for part in self.base.passed.uploads[round_]:
            known = part.clients if part.clients is not None else cohort
            yield self.charged_clients(round_) if known is None else known, part

    def bare(self, part: UploadsPassed) -> Floats:
        """What would have left of uploads without noise: [clients, n]."""
        protection = self.base.passed.protection
        assert isinstance(protection, ClientProtection)
        noise = None if part.noise is None else np.zeros_like(part.noise)[None]
        return wide(protection.protect(part.start[None], part.updated[None], noise).uploads[0])

    def rounds_of_clients(self) -> Ints:
        """How many rounds each client of the federation took local steps in: [clients]."""
        stepped = np.concatenate([self.base.silos(round_) for round_ in self.rounds])
        return np.bincount(stepped, minlength=self.base.cell.federation.clients)

    @cached_property
    def record_plan(self) -> RecordPlan:
        """How records are sampled; of a mechanism that is applied to them."""
        use = record_use_of(self.spec, self.base.cell.federation)
        assert use is not None
        return use

    def records_of(self, silo: int) -> slice:
        """Which of the records that train a client of the federation has."""
        records = self._records
        client = int(np.searchsorted(records.clients, silo))
        end = int(records.counts[: client + 1].sum())
        return slice(end - int(records.counts[client]), end)

    @cached_property
    def _records(self) -> TrainingRecords:
        return training_records(self.spec, self.base.cell.federation)


_FAR_OUT = "1000000.0"


@dataclass(frozen=True, eq=False)
class ChangedUnit:
    """Rows of one client of a federation that differ in the file, or are missing from it."""

    rows: Bools
    """[rows], in the order of the federation."""
    change: Literal["other values", "gone"]

    def kept(self, mine: Bools) -> Bools:
        """Which rows of a file stay, given which are the unit's."""
        return ~mine if self.change == "gone" else mine | True

    def by_client(self, federation: Federation) -> dict[str, Ints]:
        """The places of these rows among those of their client in the file, by client name."""
        rows, first = np.flatnonzero(self.rows), federation.first
        of = federation.client_of[rows]
        return {federation.client_names[one]: rows[of == one] - first[one] for one in np.unique(of)}


def check_loading(cell: Cell, findings: Findings, *, sources_dir: Path | None) -> None:
    """Loads neighbours of the spec's file: a unit that trains, and one that is held out."""
    if cell.spec.federation.traits.made_up:
        return  # no one's data are loaded
    with TemporaryDirectory() as folder:
        for unit in units(cell):
            moved = moved_by(cell.spec, cell.federation, unit, sources_dir, Path(folder))
            findings.at("loading").expect(
                "what is loaded of the others",
                not moved,
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
    """What is loaded differently of all but the unit. `folder`: for copies of the file."""
    source, named = spec.federation, spec
    if isinstance(source, Table):  # a copy names its columns
        named = spec.model_copy(update={"federation": source.model_copy(update={"header": True})})
    unchanged = ChangedUnit(unit.rows & False, "other values")
    for name, changed in (("base", unchanged), ("neighbour", unit)):
        _copy(spec, federation, changed, Files(sources_dir), folder / name)
    base, neighbour = (
        load_federation(named, sources_dir=folder / name) for name in ("base", "neighbour")
    )
    theirs = unit.rows[~unit.rows] if unit.change == "gone" else unit.rows
    if neighbour.rows != len(theirs):
        return ["which rows there are"]
    before, after = _loaded(base, ~unit.rows), _loaded(neighbour, ~theirs)
    return [name for name, value in before.items() if not same(value, after.get(name))]


def units(cell: Cell) -> Iterator[ChangedUnit]:
    """One that trains and one that is held out, where there are such, in each way to differ."""
    federation = cell.federation
    if not cell.spec.privacy.draws_by_record:
        for clients in split_of(cell.spec, federation):
            yield ChangedUnit(federation.client_of == clients[0], "other values")
        return
    training = np.zeros(federation.rows, dtype=np.bool_)
    training[training_records(cell.spec, federation).place] = True
    # The last one of a client that has many others, so that no record has it before itself.
    counts = federation.counts
    last = (federation.first[1:] - 1)[np.argsort(-counts, kind="stable")][: (counts > 1).sum()]
    for row in (*last[training[last]][:1], *last[~training[last]][:1]):
        one = np.arange(federation.rows) == row
        yield ChangedUnit(one, "other values")
        if not cell.spec.federation.traits.deals_rows:  # by place, which is taken as fixed
            yield ChangedUnit(one, "gone")


def _loaded(federation: Federation, others: Bools) -> dict[str, Any]:
    """What is loaded, keyed by its name; of rows, that of the `others`."""
    features, attributes = federation.features, federation.attributes
    of_rows = {
        "features": features.values if isinstance(features, ClientRows) else features,
        "targets": federation.target,
        "whose rows they are": federation.client_of,
        "budgets": federation.record_budgets,
        "coins of records": federation.record_keys,
        "groups of rows": np.array([one.codes for one in attributes]).T,
    }
    return {
        "clients": federation.client_names,
        "columns": federation.feature_names,
        "classes": federation.classes,
        "groups": [(one.name, one.values) for one in attributes],
        **{name: rows[others] for name, rows in of_rows.items() if rows is not None and len(rows)},
    }


def _copy(
    spec: ExperimentSpec, federation: Federation, unit: ChangedUnit, files: Files, folder: Path
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
                table, sensitive = TableFile(file, header=source.header), spec.fairness.sensitive
                budgets = spec.privacy.budget_column
                columns = find_columns(source, table.names, sensitive, budgets=budgets)
                # Numbers far out, and another category or class.
                cells = {one.name: (*one.categories, _FAR_OUT)[0] for one in columns.features}
                if not source.traits.deals_rows:  # by the target, too, which is taken as fixed
                    cells[source.target] = (*federation.classes, _FAR_OUT)[0]
                _copy_table(table, cells, federation, unit, place)
            case HospitalCharges():
                table = TableFile(file)
                paid = known_columns(table.names, CHARGES)[source.traits.target_name]
                _copy_table(table, {paid: _FAR_OUT}, federation, unit, place)
                if source.zip_table is not None and files.sources_dir is not None:
                    shutil.copy(files.sources_dir / source.zip_table, folder / source.zip_table)
            case Images():
                _copy_images(file.read_all(), source.client_key, federation, unit, place)
            case Femnist():
                _copy_leaf(file.read_all(), federation, unit, place)
            case _:
                raise ValueError(f"no neighbour is made of {source.source}")


def _copy_table(
    table: TableFile, cells: dict[str, str], federation: Federation, unit: ChangedUnit, place: Path
) -> None:
    """Write Parquet, whatever the file is, with every cell of the others unchanged."""
    assert federation.row_numbers is not None
    numbers, writer = federation.row_numbers[unit.rows], None
    for rows in table.batches(table.names):
        mine, columns = np.isin(rows.row_numbers, numbers), dict(rows.columns)
        for name, cell in cells.items():
            value = pa.scalar(cell).cast(columns[name].type)
            columns[name] = pc.if_else(pa.array(mine), value, columns[name])
        written = pa.table(columns).filter(pa.array(unit.kept(mine)))
        writer = writer or pq.ParquetWriter(place, written.schema)
        writer.write_table(written)
    if writer is not None:
        writer.close()


def _copy_images(
    content: bytes, key: str, federation: Federation, unit: ChangedUnit, place: Path
) -> None:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names, images = arrays[key].astype(np.str_), len(arrays["x"])
    mine = np.zeros(images, dtype=np.bool_)
    for client, places in unit.by_client(federation).items():
        mine[np.flatnonzero(names == client)[places]] = True
    arrays["x"][mine] = (255 if arrays["x"].dtype == np.uint8 else 1) - arrays["x"][mine]
    arrays["y"][mine] = arrays["y"][0]
    kept = unit.kept(mine)
    with place.open("wb") as out:
        np.savez(out, **{k: v[kept] if len(v) == images else v for k, v in arrays.items()})


def _copy_leaf(content: bytes, federation: Federation, unit: ChangedUnit, place: Path) -> None:
    """One JSON file, or a zip of several."""
    with zipfile.ZipFile(place, "w") as out:
        shards = {"all.json": content}
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                shards = {name: archive.read(name) for name in archive.namelist()}
        for name, shard in shards.items():
            value = orjson.loads(shard)
            for client, places in unit.by_client(federation).items():
                if (own := value["user_data"].get(client)) is not None:
                    for row in places.tolist()[::-1]:
                        own["x"][row] = [1 - pixel for pixel in own["x"][row]]
                        own["y"][row] = 0
                        if unit.change == "gone":
                            del own["x"][row], own["y"][row]
                    value["num_samples"][value["users"].index(client)] = len(own["y"])
            out.writestr(name, orjson.dumps(value))
