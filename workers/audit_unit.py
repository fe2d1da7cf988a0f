"""Units that read one file: an audit of predictions, whose report is stored or refused, and a
profile of a federation, which is accepted or rejected."""

import hashlib
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy.orm import Session

from fedaudit.audits.audit_material import audit_report
from fedaudit.federations.profiles.profile import beside_earlier, cuts_of
from fedaudit.ledger.statements import SigningKey
from fedaudit.reports.report import report_hash
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.spec.audits import in_audit, parse_audit
from fedaudit.spec.errors import FieldError, InvalidInputError, error_at
from fedaudit.spec.registration import Registration, parse_registration
from infrastructure.signing_keys import ROUNDING
from models.repositories import (
    AuditRepository,
    DisclosureRepository,
    FederationRepository,
    NearCopyRepository,
)
from models.repositories.disclosures import SKETCHED, Sketch
from models.tables.experiments import PredictionAudit
from models.tables.federations import Federation
from workers.claim import ClaimedUnit
from workers.disclosed import Memory
from workers.disclosure_memory import ROWS_OF_FILE, decide
from workers.proof.signing import use_key

if TYPE_CHECKING:
    from fedaudit.audits.audit_table import AuditedRows

log = structlog.get_logger()

_MAX_FAULTS = 100


class ProfileRun(ClaimedUnit[Federation]):
    """The federation of one claimed unit."""

    def _start(self, session: Session) -> Federation | None:
        return self._federations(session).of_unit(self._claim.id)

    def _carry_out(self, row: Federation) -> None:
        # Imported here because it loads pyarrow.
        from fedaudit.federations.load import RegisteredData

        data = RegisteredData(_registration(row), self._own.files, self._progressed)
        try:
            profile = data.profile(row.fingerprint)
        except InvalidInputError as error:
            reasons = [_reason(fault) for fault in error.errors[:_MAX_FAULTS]]
            log.warning("federation rejected", federation_id=row.id, reasons=len(error.errors))
            self._writer.write(
                lambda session: self._federations(session).set_rejected(
                    row.id, reasons, unit_id=self._claim.id
                )
            )
        else:
            hashes = None
            try:
                hashes = data.row_hashes(keep=SKETCHED)
            except InvalidInputError as error:
                # A column that the registration does not use: the data are as good as without it.
                faulty = [one.pointer for one in error.errors]
                log.warning("rows not compared", federation_id=row.id, pointers=faulty)
            sketch = None if hashes is None else Sketch.of(hashes)
            self._writer.write(lambda session: self._ready(session, row, profile, sketch))
            log.info("federation ready", federation_id=row.id)

    def _ready(
        self, session: Session, row: Federation, profile: dict[str, Any], sketch: Sketch | None
    ) -> None:
        fairness, disclosed = _registration(row).fairness, DisclosureRepository(session)
        shown, cuts = beside_earlier(
            profile, cuts_of(profile, fairness), disclosed.profile_cuts(row.fingerprint)
        )
        if self._federations(session).set_ready(row.id, shown, unit_id=self._claim.id):
            disclosed.set_profile_cuts(row.fingerprint, cuts)
            if sketch is not None:
                NearCopyRepository(session).add(row.id, sketch)

    def _federations(self, session: Session) -> FederationRepository:
        return FederationRepository(session, self._claim.project_id)


def _registration(row: Federation) -> Registration:
    """The registered source; an uploaded file is named by the federation's id."""
    registration = parse_registration(row.registration)
    if row.storage_key is None:
        return registration
    source = registration.federation.model_copy(update={"path": None, "id": row.id})
    return registration.model_copy(update={"federation": source})


def _reason(fault: FieldError) -> dict[str, str]:
    """The stored form; the registration of an uploaded file has its name under `path`."""
    pointer = "/federation/path" if fault.pointer == "/federation/id" else fault.pointer
    return {"pointer": pointer, "message": fault.message}


class AuditRun(ClaimedUnit[PredictionAudit]):
    """The audit of one claimed unit."""

    def _carry_out(self, row: PredictionAudit) -> None:
        try:
            report, key = self._report(row)
        except InvalidInputError as error:
            faults = [vars(fault) for fault in in_audit(error.errors)[:_MAX_FAULTS]]
            log.warning("audit refused", audit_id=row.id, faults=len(error.errors))
            self._fail_audit(row, "invalid-data", faults)
        except FiguresDisagreeError as error:
            fault = {"pointer": "", "message": str(error)}
            log.error("figures disagree", audit_id=row.id)
            self._fail_audit(row, "figures-disagree", [fault])
        else:
            self._writer.write(lambda session: self._succeed(session, row, report, key))

    def _start(self, session: Session) -> PredictionAudit | None:
        audits = self._audits(session)
        row = audits.of_unit(self._claim.id)
        if row is None:
            return None
        audits.start(row.id)
        return audits.get(row.id)

    def _report(self, row: PredictionAudit) -> tuple[dict[str, Any], SigningKey]:
        """The signed report, and the key that signed it: its file may be exchanged meanwhile."""
        # Imported here because it loads pyarrow.
        from fedaudit.audits.audit_table import read_audit

        rows = read_audit(
            parse_audit(row.spec), files=self._own.files, progress=self._progressed, contents=True
        )
        if rows.federation.fingerprint != row.fingerprint:
            message = "the file changed since the audit was asked for; ask for it again"
            raise error_at("/path", message, of_spec=True)
        withheld = self._settle(row, rows)
        self._progressed()
        key = self._context.signing_key
        with self._context.database.read() as session:
            earlier = self._audits(session).other_thresholds(row)
        report = audit_report(
            rows,
            audit_id=row.id,
            started_at=row.started_at or row.created_at,
            key_id=key.key_id,
            withheld=withheld,
            rounding_key=key.derived_secret(ROUNDING),
            earlier_audits=earlier,
        )
        return sign_report(report, key), key

    def _settle(self, row: PredictionAudit, rows: "AuditedRows") -> frozenset[str]:
        """The withheld attributes; remembers what is disclosed of the others, in the same sets as
        runs on the same data."""
        if row.withheld is not None:
            return frozenset(row.withheld)
        memories = memories_of(self._claim.project_id, row.fingerprint, rows)
        disclosed = self._context.disclosed

        def settle(session: Session) -> frozenset[str] | None:
            audits = self._audits(session)
            found = audits.get(row.id)
            if found is not None and found.withheld is not None:
                return frozenset(found.withheld)
            if not disclosed.store(session):
                return None
            audits.withhold(row.id, sorted(decision.withheld))
            return decision.withheld

        while True:
            disclosed.begin()
            decision = decide(self._context.database, disclosed, rows.scored, memories)
            self._progressed()
            settled = self._writer.write(settle)
            if settled is not None:
                return settled

    def _succeed(
        self, session: Session, row: PredictionAudit, report: dict[str, Any], key: SigningKey
    ) -> None:
        use_key(session, key)
        self._audits(session).succeed(row.id, report, report_hash=report_hash(report))

    def _fail_audit(self, row: PredictionAudit, reason: str, faults: list[dict[str, Any]]) -> None:
        self._writer.write(lambda session: self._audits(session).fail(row.id, reason, faults))

    def _audits(self, session: Session) -> AuditRepository:
        return AuditRepository(session, self._claim.project_id)


_BY_CONTENTS = "rows by what they hold"


def memories_of(project_id: str, fingerprint: str, rows: "AuditedRows") -> list[Memory]:
    """The file's memory, which runs share, and those of the project's files with the same columns:
    all of them, and all but truth and prediction. The latter only if rows are recognisable by their
    contents."""
    found = [Memory(fingerprint, ROWS_OF_FILE, rows.rows_of_file)]
    for contents in rows.contents or ():
        key = hashlib.sha256(f"{project_id} {contents.columns}".encode()).hexdigest()
        found.append(Memory(key, _BY_CONTENTS, rows.by_contents(contents)))
    return found
