"""A unit that profiles a federation: its file is read once, and accepted or rejected."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy.orm import Session

from fedaudit.federations.profiles.profile import beside_earlier, cuts_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration, parse_registration
from models.repositories import DisclosureRepository, FederationRepository, NearCopyRepository
from models.row_sketches import SKETCHED, Sketch
from models.tables.federations import Federation
from workers.claim import ClaimedUnit, StopAskedError

T = TypeVar("T")

log = structlog.get_logger()

_MAX_REASONS = 100


class ProfileRun(ClaimedUnit):
    """The federation of one claimed unit."""

    def run(self) -> None:
        """Profile the federation, or give the unit back when the worker must stop."""
        log.info("profile claimed", attempt=self._claim.attempts)
        with self._context.database.read() as session:
            row = self._federations(session).of_unit(self._claim.unit_id)
        if row is None:
            # It was deleted or registered anew in the meantime.
            self._writer.write(lambda session: self._finish(session, "done"))
            return
        # Imported here because it loads pyarrow.
        from fedaudit.federations.load import RegisteredData

        data = RegisteredData(_registration(row), self._files, self._progressed)
        try:
            profile = data.profile(row.fingerprint)
            # A column that the registration does not use: the data are as good as without it.
            hashes = _tried("rows not compared", row, partial(data.row_hashes, keep=SKETCHED))
            # Before it is ready, so that no submission waits for it. Of memory its profile warns;
            # experiments are told all of it.
            _tried("not laid out", row, partial(data.lay_out, profile))
        except StopAskedError:
            self._give_back()
        except InvalidInputError as error:
            reasons = [_reason(fault) for fault in error.errors[:_MAX_REASONS]]
            log.warning("federation rejected", federation_id=row.id, reasons=len(error.errors))
            self._writer.write(lambda session: self._reject(session, row.id, reasons))
        else:
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
        if self._federations(session).set_ready(row.id, shown, unit_id=self._claim.unit_id):
            disclosed.set_profile_cuts(row.fingerprint, cuts)
            if sketch is not None:
                NearCopyRepository(session).add(row.id, sketch)
        self._finish(session, "done")

    def _reject(self, session: Session, federation_id: str, reasons: list[dict[str, str]]) -> None:
        federations = self._federations(session)
        federations.set_rejected(federation_id, reasons, unit_id=self._claim.unit_id)
        self._finish(session, "done")

    def _fail(self, session: Session, detail: str) -> None:
        federations = self._federations(session)
        row = federations.of_unit(self._claim.unit_id)
        if row is not None:
            message = "profiling failed through no fault of the data; upload or register it again"
            reason = {"pointer": "", "message": message}
            federations.set_rejected(row.id, [reason], unit_id=self._claim.unit_id)
        self._finish(session, "failed", error=detail)

    def _federations(self, session: Session) -> FederationRepository:
        return FederationRepository(session, self._claim.project_id)


def _tried(unless: str, row: Federation, work: Callable[[], T]) -> T | None:
    """What data can do without: None, and a warning, where they do not allow it."""
    try:
        return work()
    except InvalidInputError as error:
        pointers = [one.pointer for one in error.errors]
        log.warning(unless, federation_id=row.id, pointers=pointers)
        return None


def _registration(row: Federation) -> Registration:
    """The registered source; an uploaded file is named by the federation's id."""
    registration = parse_registration(row.registration)
    if row.storage_key is None:
        return registration
    source = registration.federation.model_copy(update={"path": None, "id": row.id})
    return registration.model_copy(update={"federation": source})


def _reason(fault: FieldError) -> dict[str, str]:
    """As stored; the registration of an uploaded file has its name under `path`."""
    pointer = "/federation/path" if fault.pointer == "/federation/id" else fault.pointer
    return {"pointer": pointer, "message": fault.message}
