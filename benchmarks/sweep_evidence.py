"""What a sweep that has ended left in a service, and whether it is what the same sweep leaves
undisturbed."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.whole_service import WholeService
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import public_keys_in
from fedaudit.reports.verification.verification import VALID, verify
from fedaudit_client.client import Client
from fedaudit_client.wire import Json
from infrastructure.signing_keys import public_file

Connection = psycopg.Connection[Any]

_RELATIVE = 1e-9
"""Budgets add up in the order in which cells end."""

_ROWS = """
SELECT experiment_id, count(*), min(round), max(round), count(DISTINCT round),
    md5(string_agg(md5((to_jsonb(found) - '{experiment_id,project_id,link}'::text[])::text), ''
        ORDER BY to_jsonb(found)->>'round', md5(to_jsonb(found)::text)))
FROM TABLE_NAME AS found GROUP BY experiment_id
"""
_TRIED = "SELECT experiments.id, attempts FROM experiments JOIN units ON units.id = unit_id"
_ATTEMPTS = "SELECT attempts, count(*) FROM units GROUP BY attempts ORDER BY attempts"
_LOST = "SELECT coalesce(sum(lost_leases), 0) FROM units"
_RESERVED = "SELECT coalesce(sum(amount - spent), 0) FROM reservations WHERE state = 'held'"
_UNSETTLED = "SELECT count(*) FROM reservations WHERE state <> 'settled'"
_SPENT = """
SELECT concat_ws(' ', book, figure, adjacency, unit_key), sum(spent)
FROM reservations GROUP BY 1
"""
_TABLES = ("rounds", "ledger")
_RESUMED = ["checkpoints.witness: unchecked"]


@dataclass(frozen=True)
class Rows:
    """What a table holds of a cell: how many rows, of which rounds, and a hash of their content."""

    rows: int
    first: int
    last: int
    distinct: int
    content: str


@dataclass(frozen=True)
class CellEvidence:
    """What is left of one cell."""

    position: int
    experiment_id: str
    status: str
    reason: str | None
    ledger_hash: str | None
    attempts: int
    """Of the unit that it was trained in."""
    verdict: str | None
    unproven: Sequence[str]
    """Checks of its bundle that did not pass, with their outcome."""
    rounds_done: int
    tables: Mapping[str, Rows]

    @property
    def resumed(self) -> bool:
        """Whether all of its bundle is proven but who witnessed it, as after a lost worker."""
        return self.attempts > 1 and list(self.unproven) == _RESUMED


@dataclass(frozen=True)
class SweepEvidence:
    """What is left of a sweep."""

    cells: Sequence[CellEvidence]
    attempts: Mapping[int, int]
    """Units by how often they were tried; one may be of several cells."""
    lost_leases: int
    reserved: float
    unsettled: int
    """Reservations that are still held."""
    spent: Mapping[str, float]
    """By budget."""
    table: Any
    costs: Any


def gathered(
    service: WholeService, client: Client, database: Connection, sweep_id: str, *, verified: bool
) -> SweepEvidence:
    """Of a sweep that has ended; `verified`: whether bundles are fetched and verified."""
    sweep, table = client.sweep(sweep_id), client.sweep_table(sweep_id)
    tables = {name: _rows(database, name) for name in _TABLES}
    tried = {str(own): int(times) for own, times in database.execute(_TRIED).fetchall()}
    return SweepEvidence(
        cells=[
            _of_cell(client, service, cell, tables, tried, verified=verified)
            for cell in sweep["cells"]
        ],
        attempts=dict(database.execute(_ATTEMPTS).fetchall()),
        lost_leases=number(database, _LOST),
        reserved=number(database, _RESERVED),
        unsettled=number(database, _UNSETTLED),
        spent=dict(database.execute(_SPENT).fetchall()),
        table=[{**row, "experiment_ids": None} for row in table["rows"]],
        costs=sweep["costs"],
    )


def number(database: Connection, statement: str) -> Any:
    """What a statement answers with: one column of one row."""
    row = database.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _rows(database: Connection, table: str) -> dict[str, Rows]:
    found = database.execute(_ROWS.replace("TABLE_NAME", table)).fetchall()
    return {str(own): Rows(*columns) for own, *columns in found}


def _of_cell(
    client: Client,
    service: WholeService,
    cell: Json,
    tables: Mapping[str, Mapping[str, Rows]],
    attempts: Mapping[str, int],
    *,
    verified: bool,
) -> CellEvidence:
    own = cell["experiment_id"]
    ledger_hash = verdict = None
    unproven: Sequence[str] = ()
    if cell["status"] == "succeeded":
        ledger_hash = client.report(own)["integrity"]["ledger_hash"]
        if verified:
            verdict, unproven = _verified(client, service, own)
    return CellEvidence(
        position=cell["position"],
        experiment_id=own,
        status=cell["status"],
        reason=cell["status_reason"],
        ledger_hash=ledger_hash,
        attempts=attempts[own],
        verdict=verdict,
        unproven=unproven,
        rounds_done=cell["progress"]["round"],
        tables={name: rows[own] for name, rows in tables.items() if own in rows},
    )


def _verified(
    client: Client, service: WholeService, experiment_id: str
) -> tuple[str, Sequence[str]]:
    """The verdict on its bundle under the service's key, and the checks that did not pass."""
    trusted = public_keys_in(public_file(service.signing_key).read_bytes())
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        client.download_bundle(experiment_id, file)
        file.flush()
        with opened_bundle(Path(file.name)) as evidence:
            found = verify(evidence, trusted=trusted)
    unproven = [f"{one.name}: {one.outcome}" for one in found.checks if one.outcome != "pass"]
    return found.verdict, unproven


def faults(found: SweepEvidence, undisturbed: SweepEvidence) -> list[str]:
    """What is wrong with a sweep whose workers were killed, beside the same one in peace."""
    pairs = zip(found.cells, undisturbed.cells, strict=True)
    said = [fault for cell, expected in pairs for fault in _faults_of_cell(cell, expected)]
    # Amounts were added and taken away again, in another order.
    if found.unsettled or found.reserved > _RELATIVE * max(1.0, *found.spent.values()):
        said.append(f"{found.unsettled} reservations are held, {found.reserved} is reserved")
    if not _close(found.spent, undisturbed.spent):
        said.append(f"{found.spent} is spent, in peace {undisturbed.spent}")
    if found.table != undisturbed.table:
        said.append("the table of the sweep is another one than in peace")
    if not _close(found.costs, undisturbed.costs):
        said.append(f"the sweep costs {found.costs}, in peace {undisturbed.costs}")
    return said


def _faults_of_cell(cell: CellEvidence, expected: CellEvidence) -> Iterator[str]:
    name = f"cell {cell.position}"
    if cell.status != "succeeded" or expected.status != "succeeded":
        yield f"{name}: {cell.status} ({cell.reason}), in peace {expected.status}"
        return
    if cell.ledger_hash != expected.ledger_hash:
        yield f"{name}: another ledger hash than in peace"
    if cell.verdict != VALID and not cell.resumed:
        yield f"{name}: its bundle is {cell.verdict}, tried {cell.attempts} times: {cell.unproven}"
    for table in _TABLES:
        rows = cell.tables.get(table)
        if rows is None or (rows.first, rows.last) != (1, cell.rounds_done):
            yield f"{name}: {table} is not of rounds 1 to {cell.rounds_done}: {rows}"
        elif not rows.rows == rows.distinct == cell.rounds_done:
            yield f"{name}: {table} lacks rounds or has some twice: {rows}"
        elif rows != expected.tables.get(table):
            yield f"{name}: {table} holds other figures than in peace"


def _close(one: Any, other: Any) -> bool:
    """Whether two pieces of JSON are the same but for how their numbers were rounded."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _RELATIVE * max(abs(one), abs(other))
    return bool(one == other)
