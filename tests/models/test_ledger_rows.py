"""The packed ledger: read as it was written, and unpacked by SQL to the last bit."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from fedaudit.ledger.columns import columns_of_rows, ledger_columns
from fedaudit.stored import LedgerRow
from models.database import Database
from models.repositories import LedgerRepository
from tests.models.rows import LAPLACE, NAMES, ledger_row, queued

_ARRAYS = ("subjects", "outcomes", "radii", "releases", "clusters")
_GAUSSIAN = {
    **LAPLACE,
    "mechanism": "gaussian-local",
    "radius_floor": None,
    "clip": 0.5,
    "guarantee": "formal",
    "event": '{"kind":"gaussian","noise_multiplier":3.0}',
    "delta": 1e-5,
    "adjacency": "replace-one",
    "accountant": "rdp",
}


_LAYERS = {**LAPLACE, "components": [{"name": "layer-1", "n": 24}, {"name": "layer-2", "n": 3}]}


def _insert(database: Database, rows: list[LedgerRow]) -> tuple[str, str]:
    project_id, new = queued(database)
    with database.write() as session:
        LedgerRepository(session, project_id).insert(new.id, rows)
    return project_id, new.id


def _same(one: LedgerRow, other: LedgerRow) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in LedgerRow.__dataclass_fields__)
    return all(
        np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
        if isinstance(mine, np.ndarray)
        else mine == theirs
        for mine, theirs in pairs
    )


@pytest.mark.parametrize("more", [0, 20])
def test_rows_are_read_as_they_were_written(database: Database, more: int) -> None:
    """Many rows go into Postgres in another way."""
    generator = np.random.default_rng(5)
    odd_radii = np.array([5e-324, 1.7976931348623157e308, 0.1 + 0.2, np.nan, 1e-6])
    rows = [
        ledger_row(1),
        ledger_row(
            2,
            subjects=np.arange(5, dtype=np.int32),
            outcomes=np.array([0, 0, 0, 1, 2]),
            radii=odd_radii,
            releases=np.array([2**31 - 1, 0, 1, 2, 3]),
            clusters=np.array([-1, 0, 1, 2, 32767]),
            inputs={**LAPLACE, "radius": 0.25, "clip": 0.5, "guarantee": "formal"},
        ),
        ledger_row(3, radii=generator.lognormal(0, 30, 3), interrupted=True),
        ledger_row(3, release=1, **{name: np.zeros(0) for name in _ARRAYS}),
        ledger_row(4, inputs=_GAUSSIAN, epsilons=np.array([0.1 + 0.2, 5e-324, 1e300])),
        ledger_row(5, inputs=_LAYERS, radii=np.array([0.1, 0.2, *[np.nan] * 4])),
        *(ledger_row(6 + number) for number in range(more)),
    ]
    project_id, experiment_id = _insert(database, rows)
    with database.read() as session:
        ledger = LedgerRepository(session, project_id)
        read = ledger.rows_after(experiment_id)
        assert ledger.count(experiment_id) == 6 + more
    assert len(read) == len(rows)
    assert all(map(_same, rows, read))
    assert read[0].subjects.dtype == np.int32
    assert read[3].radii.dtype == np.float64


def test_pages_join_into_the_whole_ledger(database: Database) -> None:
    rows = [ledger_row(r, release=release) for r in (1, 2, 3, 4) for release in (0, 1)]
    project_id, experiment_id = _insert(database, rows[::-1])
    keys: list[tuple[int, int]] = []
    after = None
    with database.read() as session:
        ledger = LedgerRepository(session, project_id)
        while page := ledger.rows_after(experiment_id, 2, 4, after=after, limit=2):
            keys += [(row.round, row.release) for row in page]
            last = page[-1]
            after = (last.round, last.release, last.subject_kind, last.observer)
        assert keys == [(r, release) for r in (2, 3, 4) for release in (0, 1)]
        assert [row.round for row in ledger.rows_after(experiment_id, 4)] == [4, 4]
        assert [row.round for row in ledger.rows_after(experiment_id, None, 1)] == [1, 1]


def test_the_chain_is_read_in_order_and_a_round_is_written_once(database: Database) -> None:
    project_id, experiment_id = _insert(database, [ledger_row(r) for r in (1, 2, 3)])
    with database.read() as session:
        ledger = LedgerRepository(session)
        assert list(ledger.digests(experiment_id)) == [
            (r, 0, "client", "server", bytes([r]) * 32) for r in (1, 2, 3)
        ]
        assert ledger.last_row(experiment_id) == (3, bytes([252]) * 32)
    with pytest.raises(IntegrityError), database.write() as session:
        LedgerRepository(session, project_id).insert(experiment_id, [ledger_row(1)])


def test_intents_are_open_until_their_round_is_written(database: Database) -> None:
    project_id, new = queued(database)
    with database.write() as session:
        ledger = LedgerRepository(session, project_id)
        assert ledger.charged_releases(new.id) == [0]
        subjects = np.array([1, 3], np.int32)
        ledger.add_intents(new.id, [(r, 0, subjects) for r in (1, 2, 3)])
        ledger.insert(new.id, [ledger_row(1), ledger_row(2, release=1)])
        open_ = ledger.open_intents(new.id)
        assert [(intent.round, intent.release) for intent in open_] == [(2, 0), (3, 0)]
        assert open_[0].subjects.tolist() == [1, 3]
        assert ledger.charged_releases(new.id) == [2]
        releases = np.array([4, 3], np.int32)
        ledger.put_totals(new.id, releases=releases, refusals=0, withheld=0)
        assert ledger.charged_releases(new.id) == [5]


def _view(database: Database, experiment_id: str) -> list[dict[str, Any]]:
    asked = "SELECT * FROM privacy_ledger WHERE experiment_id = :id ORDER BY round, subject_index"
    with database.read() as session:
        rows = session.execute(text(asked), {"id": experiment_id})
        return [dict(row) for row in rows.mappings()]


@pytest.mark.parametrize(("nu", "radius"), [(1e-300, 1.0), (1e12, 5e-324), (5e-324, 5e-324)])
def test_a_figure_beyond_floating_point_is_null(database, nu, radius):
    """On Postgres an overflow is an error, which would fail every other line as well."""
    inputs = {**LAPLACE, "noise_multiplier": nu}
    row = ledger_row(1, radii=np.array([radius, math.nan, math.nan]), inputs=inputs)
    _, experiment_id = _insert(database, [row, ledger_row(2)])
    lines = _view(database, experiment_id)
    assert lines[0]["epsilon"] is None
    assert lines[3]["epsilon"] is not None


def test_the_view_has_the_figures_of_the_software_to_the_last_bit(database: Database) -> None:
    """Of leakage, of epsilons with a delta, and of layers with a line each."""
    generator = np.random.default_rng(20)
    rows = [ledger_row(1), ledger_row(2, inputs=_LAYERS, radii=np.full(6, np.nan))]
    expected = []
    for round_ in range(3, 603, 3):
        sizes = generator.integers(1, 2_000_000, generator.integers(1, 5)).tolist()
        # Some multipliers have few digits, as people write them.
        written = round(generator.uniform(0, 9), 2) + 0.01
        nu = float(generator.choice([generator.lognormal(0, 3), written]))
        radii = generator.lognormal(0, 6, (3, len(sizes)))
        radii[1:] = np.nan  # refused, and withheld
        inputs = {**LAPLACE, "n": sum(sizes), "noise_multiplier": nu}
        layers = [{"name": f"layer-{place}", "n": n} for place, n in enumerate(sizes, start=1)]
        releases = generator.integers(1, 100_000, 3).astype(np.int32)
        common = {"releases": releases, "radii": radii.ravel()}
        whole, radius, count = {**common, "radii": radii[:, 0]}, radii[0, 0], int(releases[0])
        epsilons = generator.lognormal(0, 5, 3)
        rows += [
            ledger_row(round_, inputs=inputs, **whole),
            ledger_row(round_ + 1, inputs={**inputs, "components": layers}, **common),
            ledger_row(round_ + 2, inputs=_GAUSSIAN, radii=np.full(3, np.nan), epsilons=epsilons),
        ]
        n = sum(sizes)
        expected.append((n / (nu * radius), radius, n / nu, count * n / nu))
    project_id, experiment_id = _insert(database, rows)
    figures = ("epsilon", "radius", "leakage", "leakage_total")
    stated = list(ledger_columns(columns_of_rows(rows), NAMES).lines())
    columns = tuple(name for name in stated[0] if name not in ("reason", "noise"))

    def in_order(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        found = [{name: line[name] for name in columns} for line in lines]
        return sorted(found, key=lambda line: (line["round"], line["subject"], line["component"]))

    view = _view(database, experiment_id)
    assert {(line["experiment_id"], line["project_id"]) for line in view} == {
        (experiment_id, project_id)
    }
    read = in_order(view)
    assert read == in_order(stated)
    # Of the first round one subject released, and who did not has paid nothing.
    first = {line["subject"]: line for line in read if line["round"] == 1}
    outcomes = {NAMES[0]: "released", NAMES[2]: "refused", NAMES[3]: "withheld"}
    assert {name: line["outcome"] for name, line in first.items()} == outcomes
    for name in (NAMES[2], NAMES[3]):
        assert [first[name][figure] for figure in figures] == [None, None, None, 0.0]
    assert {line["component"] for line in read} == {"all", *(f"layer-{i}" for i in (1, 2, 3, 4))}
    plain = [line for line in read if line["round"] % 3 == 0 and line["outcome"] == "released"]
    assert [tuple(line[name] for name in figures) for line in plain] == expected
    with_delta = [line for line in read if line["round"] > 2 and line["round"] % 3 == 2]
    assert all(line["epsilon"] is not None and line["leakage"] is None for line in with_delta)
