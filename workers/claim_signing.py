"""Sign what a report claims, after it was verified as a stranger would verify it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.claim_bundles import ClaimsKey
from fedaudit.ledger.statements import SigningKey
from fedaudit.reports.claims import claims_of
from fedaudit.reports.verification.verification import verify
from fedaudit.stored import LedgerRow
from models.clock import utc_now
from models.database import Database
from models.repositories.ledger import stored_rows
from workers.flush import RunningExperiment

_ROWS = 500
"""Read between two signs of progress."""


def signed_claims(
    database: Database,
    experiment: RunningExperiment,
    report: dict[str, Any],
    key: SigningKey,
    *,
    hashed: str,
    progressed: Callable[[], None],
) -> list[dict[str, Any]]:
    """The report's claims in signed bundles. Its ledger is read as it is stored, and everything is
    computed anew, but for the checkpoint, which this process is about to sign. `hashed`: the
    report's hash."""
    ledger = experiment.run.ledger
    evidence = Evidence(
        experiment_id=experiment.id,
        spec=experiment.row.spec,
        names=ledger.ledger_context.subjects,
        report=report,
        checkpoints=[experiment.ledger_checkpoint("succeeded").sign(key).as_dict()],
        keys=[key.public],
        rows=_watched(stored_rows(database, experiment.id, experiment.project_id), progressed),
        salt=ledger.salt,
    )
    # Claims and the log's newest entry are not there yet: nothing was checked of them.
    checks = verify(evidence, trusted=[key.public]).checks
    found = [one for one in checks if not one.name.startswith(("claims.", "log."))]
    at = utc_now().isoformat().replace("+00:00", "Z")
    private = ClaimsKey(key)
    return [private.sign(one) for one in claims_of(report, hashed, verified=found, at=at)]


def _watched(rows: Iterable[LedgerRow], progressed: Callable[[], None]) -> Iterator[LedgerRow]:
    for number, row in enumerate(rows):
        if number % _ROWS == 0:
            progressed()
        yield row
