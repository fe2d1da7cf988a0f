"""A finished run that nobody trained, in a database: a ledger with its digests and links, figures
of every round, gaps of an attribute with 51 groups, and the report that is assembled from them."""

from dataclasses import replace
from typing import Any

import httpx
import numpy as np
from sqlalchemy.orm import Session

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.gaps import gaps
from fedaudit.fairness.metrics import scored_rows
from fedaudit.ledger.chain import genesis, ledger_hash, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.leakage import leakage
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.assemble import assemble, report_hash
from fedaudit.reports.document.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.spec.parse import parse_spec
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    FairnessRepository,
    LedgerRepository,
    ReportRepository,
    RoundRepository,
    SubjectSetRepository,
)
from models.tables.experiments import Experiment
from models.values import FairnessRow, LedgerRow, RoundRow

COHORT = 100
GROUPS = tuple(f"state {number:02d}" for number in range(51))
_HYPOTHESES = 5
_ROUNDS_AT_ONCE = 200
_DIFFERENT_GAPS = 64
"""Rounds whose gaps are worked out; later rounds repeat them."""


def specification(*, rounds: int, clients: int) -> dict[str, Any]:
    """The experiment that the run is one of."""
    return {
        "name": "report-pages",
        "seed": 1,
        "federation": {
            "source": "synthetic-groups",
            "clients_per_group": [clients - clients // 5, clients // 5],
            "validation_fraction": 0.3,
        },
        "model": {"kind": "linear"},
        "training": {
            "loss": "rmse",
            "hypotheses": _HYPOTHESES,
            "rounds": rounds,
            "cohort": {"clients": COHORT},
        },
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
        "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 0}},
        "gates": [
            {
                "figure": "leakage_max",
                "op": "le",
                "value": 400,
                "allow_heuristic": True,
                "allow_simulation": True,
            }
        ],
    }


def fill(
    database: Database, client: httpx.Client, project_id: str, *, rounds: int, clients: int
) -> str:
    """A finished run of the project that the client's key belongs to; gives the experiment's id."""
    answer = client.post("/v1/experiments", json=specification(rounds=rounds, clients=clients))
    answer.raise_for_status()
    experiment_id: str = answer.json()["id"]
    owner = (experiment_id, project_id)
    run = _Run(database, experiment_id, np.random.default_rng(5))
    with database.write() as session:
        ExperimentRepository(session, project_id).start(experiment_id)
    for first in range(1, rounds + 1, _ROUNDS_AT_ONCE):
        numbers = range(first, min(rounds, first + _ROUNDS_AT_ONCE - 1) + 1)
        rows = [run.rows(number) for number in numbers]
        ledger, figures, fairness = zip(*rows, strict=True)
        with database.write() as session:
            LedgerRepository(session).insert(*owner, ledger)
            RoundRepository(session).insert(*owner, figures)
            FairnessRepository(session).insert(*owner, fairness)
    with database.write() as session:
        document = run.report(rounds)
        ReportRepository(session).put(*owner, document=document, report_hash=report_hash(document))
        run.store_totals(session, project_id)
        experiments = ExperimentRepository(session, project_id)
        experiments.progress(experiment_id, rounds)
        experiments.conclude(experiment_id, status="succeeded", price=leakage)
    return experiment_id


class _Run:
    """The rows of a run that nobody trained."""

    def __init__(self, database: Database, experiment_id: str, rng: np.random.Generator) -> None:
        with database.read() as session:
            row = session.get(Experiment, experiment_id)
            assert row is not None
            self._names = SubjectSetRepository(session).names(row.subject_set_id)
        self._row, self._rng = row, rng
        self._spec = parse_spec(row.spec)
        self._trained = len(self._names) - int(0.3 * len(self._names))
        self._inputs = mechanism_of(self._spec).inputs(n=row.parameters)
        self._encoder, self._head = EntryEncoder(self._names), genesis(row.id)
        self._digests: list[tuple[int, int, str, str, bytes]] = []
        self._releases = np.zeros(len(self._names), np.int32)
        self._clusters = np.full(len(self._names), -1, np.int16)
        self._gaps: list[FairnessRow] = []

    def rows(self, number: int) -> tuple[LedgerRow, RoundRow, FairnessRow]:
        """What a round leaves."""
        return self._ledger_row(number), self._round_row(number), self._gaps_row(number)

    def store_totals(self, session: Session, project_id: str) -> None:
        """What everybody has released by now."""
        ledger = LedgerRepository(session)
        ledger.put_totals(self._row.id, project_id, releases=self._releases, refusals=0, withheld=0)

    def _ledger_row(self, number: int) -> LedgerRow:
        """A cohort's releases."""
        drawn = np.sort(self._rng.choice(self._trained, COHORT, replace=False)).astype(np.int32)
        self._releases[drawn] += 1
        self._clusters[drawn] = self._rng.integers(0, _HYPOTHESES, COHORT)
        entry = LedgerEntry(
            round=number,
            release=0,
            subject_kind="client",
            observer="server",
            inputs=self._inputs,
            subjects=drawn,
            outcomes=np.zeros(COHORT, np.uint8),
            radii=self._rng.lognormal(size=COHORT),
            releases=self._releases[drawn],
            clusters=self._clusters[drawn],
        )
        digest = self._encoder.digest(entry)
        self._head = link(self._head, digest, entry.clusters)
        self._digests.append((number, 0, "client", "server", digest))
        return LedgerRow(
            round=number,
            release=0,
            subject_kind=entry.subject_kind,
            observer=entry.observer,
            subjects=entry.subjects,
            outcomes=entry.outcomes,
            radii=entry.radii,
            releases=entry.releases,
            clusters=entry.clusters,
            inputs=self._inputs.as_dict(),
            digest=digest,
            link=self._head,
        )

    def _round_row(self, number: int) -> RoundRow:
        """The figures after it."""
        loss = float(np.exp(-number / 90) + 0.3 + 0.05 * self._rng.random())
        sizes = np.bincount(self._rng.integers(0, _HYPOTHESES, COHORT), minlength=_HYPOTHESES)
        cost = self._row.parameters / 3
        trained = self._releases[: self._trained]
        return RoundRow(
            round=number,
            selection_loss=0.8 * loss,
            validation_loss=loss,
            accuracy=1 / (1 + loss),
            cluster_sizes=sizes.tolist(),
            separation=float(self._rng.random()),
            leakage_median=float(np.median(trained)) * cost,
            leakage_max=float(trained.max()) * cost,
        )

    def _gaps_row(self, number: int) -> FairnessRow:
        """Gaps between the groups, and the counts they are from."""
        if number > _DIFFERENT_GAPS:
            return replace(self._gaps[number % _DIFFERENT_GAPS], round=number)
        counts = self._counts(1)[0]
        figures = gaps(counts, DisclosureRule(30).decide(scored_rows(counts)))[0]
        row = FairnessRow(
            round=number,
            attribute="group",
            figures=[figure._asdict() for figure in figures],
            counts=counts.tolist(),
        )
        self._gaps.append(row)
        return row

    def report(self, rounds: int) -> dict[str, Any]:
        """The report of all these rows."""
        counts = self._counts(200)
        rows = scored_rows(counts.sum(axis=0))
        return assemble(
            ReportMaterial(
                experiment_id=self._row.id,
                name=self._row.name,
                status="succeeded",
                spec=self._spec,
                inputs=mechanism_of(self._spec).inputs(n=self._row.parameters),
                federation=FederationFacts(
                    fingerprint="f" * 64,
                    clients=len(self._names),
                    training_clients=self._trained,
                    rows=10 * len(self._names),
                    attributes={"group": GROUPS},
                ),
                releases=self._releases,
                refusals=0,
                withheld=0,
                result=FinalFigures(
                    stopped_by="rounds",
                    rounds=rounds,
                    best_round=rounds - rounds // 10,
                    selection_loss=0.3,
                    validation_loss=0.4,
                    accuracy=0.7,
                    fairness={"group": counts},
                ),
                ledger_hash=ledger_hash(self._digests),
                chain_head=self._head.hex(),
                entries=rounds,
                disclosures={"group": DisclosureRule(30).decide(rows)},
                clusters=self._clusters,
            )
        )

    def _counts(self, clients: int) -> Any:
        """[clients, groups, 4]."""
        return self._rng.integers(20, 80, (clients, len(GROUPS), 4)).astype(np.int64)
