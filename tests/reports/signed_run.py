"""A small run as a worker would leave it, in memory: ledger, report and checkpoints, signed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedaudit.ledger.bundle import Evidence, bundle_chunks
from fedaudit.ledger.encoding import EntryEncoder, genesis, ledger_hash
from fedaudit.ledger.statements import Checkpoint, SigningKey, subjects_hash
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.report import LaterStatement, assemble
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from fedaudit.stored import LedgerRow
from tests.ledger.single_entry import digest_of, link
from tests.reports.conftest import SPEC as MADE_UP

KEY = SigningKey.generate()
ID = "01890000-0000-7000-8000-000000000000"
NAMES = [f"client {number}" for number in range(8)]
ROUNDS = 6
SPEC = parse_spec(
    {
        "name": "small",
        "seed": 3,
        "federation": {
            "source": "synthetic-linear",
            "clients": 8,
            "rows_per_client": 4,
            "validation_fraction": 0.25,
        },
        "model": {"kind": "linear", "intercept": False},
        "training": {"loss": "rmse", "hypotheses": 2, "rounds": ROUNDS, "cohort": {"clients": 3}},
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
        "gates": [{**MADE_UP["gates"][0], "value": 40}],
    }
)
N = 2


def later_statement(
    *attacks: dict[str, Any], report_hash: str = "0" * 64, ledger_hash: str = "0" * 64
) -> dict[str, Any]:
    """What attacks found after the report, signed."""
    statement = LaterStatement(
        experiment_id=ID,
        number=1,
        report_hash=report_hash,
        ledger_hash=ledger_hash,
        basis="repeated",
        asked=[{"kind": one["kind"]} for one in attacks],
        attacks=list(attacks),
        asked_by={},
        asked_at="2030-01-02T03:04:05+00:00",
        finished_at="2030-01-02T03:05:05+00:00",
        code_version="1",
        backend={},
    )
    return statement.sign_after(None, KEY).as_dict()


@dataclass
class SignedRun:
    """Everything that a run left; a test changes what it likes."""

    rows: list[LedgerRow]
    report: dict[str, Any] | None
    checkpoints: list[dict[str, Any]]
    key: SigningKey
    names: list[str] = field(default_factory=lambda: list(NAMES))

    def write(self, path: Path) -> Path:
        """The run as a bundle."""
        parts = Evidence(
            experiment_id=ID,
            spec=SPEC.model_dump(mode="json"),
            names=self.names,
            report=self.report,
            checkpoints=self.checkpoints,
            keys=[self.key.public],
        )
        path.write_bytes(b"".join(bundle_chunks(parts, self.rows)))
        return path

    def change_row(self, number: int, **columns: Any) -> None:
        """Replace columns of one row."""
        self.rows[number] = replace(self.rows[number], **columns)


def signed_run(key: SigningKey = KEY) -> SignedRun:
    """A run of ROUNDS rounds with checkpoints after the third and at the end."""
    encoder, head = EntryEncoder(NAMES), genesis(ID)
    totals, clusters = np.zeros(8, np.int32), np.full(8, -1, np.int16)
    rows, checkpoints = [], []
    for number in range(1, ROUNDS + 1):
        subjects = np.array([0, 1, number % 5 + 2], np.int32)
        outcomes = np.array([0, 1 if number > 4 else 0, 2 if number == 2 else 0], np.int16)
        released = outcomes == 0
        totals[subjects[released]] += 1
        placed = np.where(released, number % 2, -1).astype(np.int16)
        clusters[subjects[released]] = placed[released]
        row = LedgerRow(
            round=number,
            release=0,
            subject_kind="client",
            observer="server",
            interrupted=False,
            inputs=mechanism_of(SPEC).inputs(n=N).as_dict(),
            subjects=subjects,
            outcomes=outcomes,
            radii=np.where(released, 0.1 * number, np.nan),
            releases=totals[subjects],
            clusters=placed,
            epsilons=None,
            digest=b"",
            link=b"",
        )
        digest = digest_of(encoder, row)
        head = link(head, digest, placed)
        rows.append(replace(row, digest=digest, link=head))
        if number in (3, ROUNDS):
            status = "succeeded" if number == ROUNDS else "running"
            checkpoints.append(_checkpoint(number, head, status, key))
    return SignedRun(rows, _report(rows, totals, clusters, key), checkpoints, key)


def _checkpoint(entries: int, head: bytes, status: str, key: SigningKey) -> dict[str, Any]:
    checkpoint = Checkpoint(
        experiment_id=ID,
        status=status,
        entries=entries,
        last_round=entries,
        chain_head=head.hex(),
        spec_hash=spec_hash(SPEC),
        subjects_hash=subjects_hash(NAMES),
    )
    return checkpoint.sign(key).as_dict()


def _report(
    rows: list[LedgerRow], totals: np.ndarray, clusters: np.ndarray, key: SigningKey
) -> dict[str, Any]:
    keys = [(row.round, row.release, row.subject_kind, row.observer, row.digest) for row in rows]
    material = ReportMaterial(
        experiment_id=ID,
        name=SPEC.name,
        status="succeeded",
        spec=SPEC,
        inputs=mechanism_of(SPEC).inputs(n=N),
        federation=FederationFacts(fingerprint="f" * 64, clients=8, training_clients=6, rows=32),
        releases=totals,
        refusals=2,
        withheld=1,
        result=FinalFigures(
            stopped_by="rounds",
            rounds=ROUNDS,
            best_round=ROUNDS,
            selection_loss=0.5,
            validation_loss=0.75,
            accuracy=None,
            fairness={},
        ),
        ledger_hash=ledger_hash(keys),
        chain_head=rows[-1].link.hex(),
        entries=len(rows),
        key_id=key.key_id,
        clusters=clusters,
    )
    return sign_report(assemble(material), key)
