"""How many rounds a second the database takes: `python benchmarks/ledger_flush.py`.

Each flush is one transaction: the fenced hold, the packed ledger, round figures, fairness figures,
events, totals, checkpoint and progress. Measures a fresh SQLite file, and the Postgres server that
`--postgres-url` names, in a database of its own.
"""

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import create_engine, make_url, text

import migrations
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    FairnessRepository,
    FederationRepository,
    LedgerRepository,
    ProjectRepository,
    RoundRepository,
    SubjectSetRepository,
    UnitRepository,
)
from models.values import FairnessRow, LedgerRow, NewExperiment, RoundRow

_METRICS = (
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
)
_GROUPS = 8
_PARAMETERS = 27


@dataclass(frozen=True)
class _Run:
    project_id: str
    experiment_id: str
    unit_id: str
    fence: int


def main() -> int:
    """Prints rounds a second for each database and size of flush."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres-url", help="a server where databases may be created")
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'benchmark.db'}"
        _measure(url, subjects=options.subjects, seconds=options.seconds)
    if options.postgres_url:
        with _postgres_database(options.postgres_url) as url:
            _measure(url, subjects=options.subjects, seconds=options.seconds)
    return 0


def _measure(url: str, *, subjects: int, seconds: float) -> None:
    migrations.upgrade(url)
    database = Database(url)
    for rounds in (1, 20, 200):
        run = _start(database, subjects)
        rows = _rows(rounds, subjects)
        done, begun = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < seconds:
            _flush(database, run, first=done, rows=rows)
            done += rounds
        line = f"{database.dialect:<10} {rounds:>4} rounds a flush {done / elapsed:>8.0f} rounds/s"
        sys.stdout.write(line + "\n")
    database.dispose()


def _flush(
    database: Database,
    run: _Run,
    *,
    first: int,
    rows: list[tuple[LedgerRow, RoundRow, FairnessRow]],
) -> None:
    owner = (run.experiment_id, run.project_id)
    for offset, parts in enumerate(rows, start=first + 1):
        for part in parts:
            # The rows are frozen for their users; here only their number changes.
            object.__setattr__(part, "round", offset)
    ledger_rows, round_rows, fairness_rows = zip(*rows, strict=True)
    last = first + len(rows)
    with database.write() as session:
        if not UnitRepository(session).hold(run.unit_id, run.fence):
            raise RuntimeError("the lease was lost")
        ledger = LedgerRepository(session)
        ledger.insert(*owner, ledger_rows)
        releases = ledger_rows[-1].releases
        ledger.put_totals(*owner, releases=releases, refusals=0, withheld=0)
        RoundRepository(session).insert(*owner, round_rows)
        FairnessRepository(session).insert(*owner, fairness_rows)
        events = [("round.completed", {"round": row.round, "loss": 0.5}) for row in round_rows]
        EventRepository(session).append(*owner, events)
        CheckpointRepository(session).put(*owner, round=last, data=bytes(4096))
        ExperimentRepository(session, run.project_id).progress(run.experiment_id, last)


def _rows(rounds: int, subjects: int) -> list[tuple[LedgerRow, RoundRow, FairnessRow]]:
    generator = np.random.default_rng(0)
    figures = [{"metric": name, "value": 0.123456789, "reason": None} for name in _METRICS]
    inputs = {
        "mechanism": "laplace-l2",
        "n": _PARAMETERS,
        "noise_multiplier": 3.0,
        "radius": None,
        "radius_floor": 1e-6,
        "clip": None,
        "noise": "simulation",
        "guarantee": "heuristic",
    }
    return [
        (
            LedgerRow(
                round=0,
                release=0,
                subject_kind="client",
                observer="server",
                subjects=np.sort(generator.permutation(10 * subjects)[:subjects]).astype(np.int32),
                outcomes=np.zeros(subjects, np.int16),
                radii=generator.lognormal(size=subjects),
                releases=generator.integers(1, 100, subjects).astype(np.int32),
                clusters=generator.integers(0, 5, subjects).astype(np.int16),
                inputs=inputs,
                digest=bytes(32),
                link=bytes(32),
            ),
            RoundRow(round=0, validation_loss=0.123456789, cluster_sizes=[20] * 5, leakage_max=9.0),
            FairnessRow(
                round=0,
                attribute="state",
                figures=figures,
                counts=generator.integers(0, 999, (_GROUPS, 4)),
            ),
        )
        for _ in range(rounds)
    ]


def _start(database: Database, subjects: int) -> _Run:
    with database.write() as session:
        project_id = ProjectRepository(session).get_or_create("benchmark").id
        federation = FederationRepository(session, project_id).get_or_create(
            fingerprint="0" * 64, name="benchmark", source="table", profile={}
        )
        unit = UnitRepository(session).create(project_id, "auto")
        names = [f"{index:05}" for index in range(10 * subjects)]
        new = NewExperiment(
            name="benchmark",
            spec={"name": "benchmark", "padding": "x" * 1500},
            spec_hash="0" * 64,
            seed=0,
            mechanism="laplace-l2",
            hypotheses=5,
            noise="simulation",
            rounds_total=10**6,
            federation_id=federation.id,
            subject_set_id=SubjectSetRepository(session).put(names),
            unit_id=unit.id,
            parameters=_PARAMETERS,
            noise_multiplier=3.0,
        )
        ExperimentRepository(session, project_id).add(new)
    with database.write() as session:
        claim = UnitRepository(session).claim(
            unit.id, worker="benchmark", devices={"auto"}, lease_seconds=3600
        )
    if claim is None:
        raise RuntimeError("the unit was not free")
    return _Run(project_id, new.id, unit.id, claim.fence)


@contextmanager
def _postgres_database(server_url: str) -> Iterator[str]:
    name = f"fedaudit_benchmark_{uuid.uuid4().hex}"
    url = make_url(server_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
