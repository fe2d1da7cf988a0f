"""Attacks on an experiment: what they found, in its report and beside it, which stays as it was
signed, and requests for more.

Confidential: what they find follows from training data.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Path, Response
from sqlalchemy.orm import Session

from api.http.answers import as_file
from api.http.bodies import validated
from api.http.problems import ProblemError, conflict, not_found
from api.openapi import BINARY, Router, contents, located, problems, request_body
from api.schemas.base import of_row
from api.schemas.experiments import (
    AttackBody,
    AttackFileBody,
    AttackList,
    AttacksRequest,
    LaterAttacksBody,
    LaterAttacksList,
)
from api.services.admission import hold_start, load_for
from api.services.disclosure import refuse_attacks_that_tell, refuse_below_floor, refuse_departures
from api.services.dispatch import Queued, Submission, Submitting
from api.services.lookups import (
    find_experiment,
    find_later_attacks,
    find_report,
    gone_words,
    note,
    note_export,
    refuse_gone,
)
from api.shared.data_faults import REDACTED, faults_for, shown_detail
from api.shared.security import (
    Call,
    ExperimentsWriter,
    LedgerReader,
    ReportsReader,
    refuse_over_running,
)
from fedaudit.attacks.attack_files import AttackFile, file_in, files_in
from fedaudit.attacks.feasibility import check_attacks
from fedaudit.runs.experiment_plan import with_start
from fedaudit.spec.errors import FieldError, InvalidInputError, pointer, raise_errors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted
from fedaudit.training.base.cell import Cell, draws_in_secret
from infrastructure.storage import StorageError, file_key, stored_artifact
from models.repositories import (
    FederationRepository,
    LaterAttacksRepository,
    ReportRepository,
    UnitRepository,
)
from models.tables.experiments import Experiment, LaterAttacks, Report
from models.values import OPEN, new_id, utc_now

router = Router(prefix="/experiments/{experiment_id}/attacks", tags=["attacks"])

_FILE_TYPE = "application/octet-stream"
"""Whatever a file is: browsers are to save it, and to show nothing."""
_FILE = contents("The file.", _FILE_TYPE, BINARY, 410)
_NO_FILES = "the attack left none"
_NOT_READABLE = "files of attacks are read with the scope ledger:read"


@router.post(
    "",
    status_code=202,
    responses=problems(409) | located(202, "To be carried out by a worker.", "request"),
    openapi_extra=request_body(AttacksRequest),
)
async def attack_experiment(experiment_id: str, call: Submitting) -> LaterAttacksBody:
    """Attack an experiment that has succeeded. Nothing is charged, and its report stays as it is.

    Whatever is found counts like an attack of the report whenever the experiment is judged.
    """
    # The run's data are loaded, which may take long.
    asked = await call.run(partial(_queued, call, experiment_id))
    later_id = asked.row.id
    call.accepting.of(call, asked, f"/v1/experiments/{experiment_id}/attacks/later/{later_id}")
    return await run_sync(get_later_attacks, experiment_id, later_id, call)


@router.get("/later")
def list_later_attacks(experiment_id: str, call: ReportsReader) -> LaterAttacksList:
    """Every request for attacks after the report was signed, whatever became of it."""
    with call.reading() as session:
        find_report(session, call.caller, experiment_id)
        rows = LaterAttacksRepository(session, call.project_id).list(experiment_id)
        return LaterAttacksList(items=[_later_body(session, call, row) for row in rows])


@router.get("/later/{later_id}")
def get_later_attacks(experiment_id: str, later_id: str, call: ReportsReader) -> LaterAttacksBody:
    """One request for attacks, and what they found."""
    with call.reading() as session:
        row = find_later_attacks(session, call.caller, later_id, experiment_id=experiment_id)
        return _later_body(session, call, row)


@router.post("/later/{later_id}/cancel", responses=problems(409))
def cancel_later_attacks(
    experiment_id: str, later_id: str, call: ExperimentsWriter
) -> LaterAttacksBody:
    """Ask for their end. What they have found by then stays, and counts."""
    with call.writing() as session:
        row = find_later_attacks(session, call.caller, later_id, experiment_id=experiment_id)
        if row.status not in (*OPEN, "cancelled"):
            raise conflict(f"the attacks have ended: they are {row.status}")
        if row.status in ("queued", "running"):
            later = LaterAttacksRepository(session, call.project_id)
            later.request_cancel(row, by=call.caller.actor)
            note(session, call.caller, "attacks.cancelled", experiment_id, number=row.number)
    return get_later_attacks(experiment_id, later_id, call)


@router.get("/later/{later_id}/{position}/{name}", responses=_FILE)
def get_later_attack_file(
    *,
    experiment_id: str,
    later_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    call: LedgerReader,
) -> Response:
    """One file of an attack, such as the scores of every record."""
    found = _file(call, experiment_id, position=position, name=name, later_id=later_id)
    form = f"attacks/later/{later_id}/{position}/{name}"
    note_export(call, experiment_id, form)
    return as_file(found, f"{experiment_id}-{later_id}-{position}-{name}", _FILE_TYPE)


@router.get("", name="list_attacks")
def get_attacks(experiment_id: str, call: LedgerReader) -> AttackList:
    """The attacks of the experiment's report, with their files."""
    with call.reading() as session:
        attacks = find_report(session, call.caller, experiment_id).document["attacks"]
        base = f"/v1/experiments/{experiment_id}/attacks"
        return AttackList(items=_bodies(session, call, experiment_id, base, attacks))


@router.get("/{position}/{name}", responses=_FILE)
def get_attack_file(
    experiment_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    call: LedgerReader,
) -> Response:
    """One file of an attack, such as the scores of every record."""
    found = _file(call, experiment_id, position=position, name=name)
    note_export(call, experiment_id, f"attacks/{position}/{name}")
    return as_file(found, f"{experiment_id}-{position}-{name}", _FILE_TYPE)


def _later_body(session: Session, call: Call, row: LaterAttacks) -> LaterAttacksBody:
    """The body of one request."""
    attacks = [] if row.statement is None else row.statement["attacks"]
    base = f"/v1/experiments/{row.experiment_id}/attacks/later/{row.id}"
    return of_row(
        LaterAttacksBody,
        row,
        status_detail=shown_detail(row.status_reason, row.status_detail, caller=call.caller),
        basis=None if row.statement is None else row.statement["basis"],
        items=_bodies(session, call, row.id, base, attacks),
    )


def _file(
    call: Call, experiment_id: str, *, position: int, name: str, later_id: str | None = None
) -> bytes:
    """The content of one file. `later_id`: of attacks that were asked for after the report. Raises
    ProblemError if there is none, StorageError if the storage cannot answer."""
    with call.reading() as session:
        find_report(session, call.caller, experiment_id)
        if later_id is not None:
            find_later_attacks(session, call.caller, later_id, experiment_id=experiment_id)
        owner_id = later_id or experiment_id
        refuse_gone(session, call.project_id, "attack-files", owner_id)
    key = file_key("attack-files", call.project_id, owner_id)
    found = None
    if call.resources.storage.holds(key):
        with call.resources.storage.local(key) as archive:
            found = file_in(archive, position=position, name=name)
    if found is None:
        raise not_found("file of an attack")
    return found


def _files(
    session: Session, call: Call, owner_id: str, attacks: Sequence[object]
) -> tuple[list[AttackFile], str]:
    """The files that these attacks left, by position and name, and why one has none."""
    storage, key = call.resources.storage, file_key("attack-files", call.project_id, owner_id)
    gone = gone_words(session, call.project_id, "attack-files", owner_id)
    if not attacks or gone is not None:
        return [], gone or _NO_FILES
    try:
        if not storage.holds(key):
            return [], _NO_FILES
        with storage.local(key) as archive:
            return files_in(archive), _NO_FILES
    except StorageError as error:
        return [], str(error)


def _bodies(
    session: Session, call: Call, owner_id: str, base: str, sections: Sequence[object]
) -> list[AttackBody]:
    """Each attack with its files, below the address `base`; they are named to callers who may read
    them alone."""
    stored, gone = list[AttackFile](), _NOT_READABLE
    if call.caller.may("ledger:read"):
        stored, gone = _files(session, call, owner_id, sections)
    found = []
    for position, section in enumerate(sections):
        files = [
            of_row(AttackFileBody, one, href=f"{base}/{position}/{one.name}")
            for one in stored
            if one.position == position
        ]
        why = None if files else gone
        body = {"position": position, "section": section, "files": files, "files_reason": why}
        found.append(AttackBody.model_validate(body))
    return found


def _queued(call: Submission, experiment_id: str) -> Queued[LaterAttacks]:
    """Queues the attacks that a JSON value asks for. Raises InvalidInputError for attacks that do
    not fit the experiment's spec or data, at the fields of a spec; ProblemError if the experiment
    cannot be attacked any more."""
    find = partial(find_later_attacks, experiment_id=experiment_id)
    if (earlier := call.idempotency.before(call, find)) is not None:
        return earlier
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        report = _report(session, experiment)
    requested = validated(AttacksRequest, call.value)
    asked = [attack.model_dump(mode="json") for attack in requested.attacks]
    # With these in place of the spec's attacks, faults are reported as at its submission.
    spec = parse_admitted({**experiment.spec, "attacks": asked})
    cell = _cell(call, experiment, spec)
    later_id = new_id()
    with call.writing() as session:
        known = call.idempotency.claimed_before(session, call.caller, later_id)
        if known is not None:
            return Queued(find(session, call.caller, known))
        _hold_data(session, experiment, spec)
        later = LaterAttacksRepository(session, call.project_id)
        _refuse_open(later, experiment_id)
        number = later.next_number(LaterAttacks, experiment_id)
        if draws_in_secret(cell):
            _refuse_without_model(session, experiment, report, spec)
        budgets = call.budgets(session)
        refuse_departures(budgets, experiment.federation_id, spec)
        refuse_attacks_that_tell(budgets, experiment.federation_id, spec)
        unit = UnitRepository(session).create(
            call.project_id,
            _device(report, spec),
            kind="attacks",
            max_attempts=call.resources.settings.max_attempts,
        )
        row = later.store(
            LaterAttacks(
                id=later_id,
                experiment_id=experiment_id,
                number=number,
                project_id=call.project_id,
                status="queued",
                asked=[attack.model_dump(mode="json") for attack in spec.attacks],
                report_hash=report.report_hash,
                ledger_hash=report.document["integrity"]["ledger_hash"],
                unit_id=unit.id,
                created_by=vars(call.caller.actor),
                created_at=utc_now(),
            )
        )
        kinds = [attack.kind for attack in spec.attacks]
        about = {"number": number, "kinds": kinds, "report_hash": report.report_hash}
        note(session, call.caller, "experiment.attacked", experiment_id, **about)
        refuse_over_running(session, call.project_id, call.resources.settings)
        return Queued(row, [unit])


def _report(session: Session, experiment: Experiment) -> Report:
    """The report that attacks would be beside. Raises ProblemError without one."""
    report = ReportRepository(session, experiment.project_id).get(experiment.id)
    if experiment.status != "succeeded" or report is None:
        why = "" if experiment.status_reason is None else f" ({experiment.status_reason})"
        raise conflict(
            f"the experiment is {experiment.status}{why}; only one that has succeeded can be "
            "attacked"
        )
    return report


def _cell(call: Call, experiment: Experiment, spec: ExperimentSpec) -> Cell:
    """The spec with the data of the run. Raises ProblemError if these are not there as they were,
    InvalidInputError if an attack does not fit them."""
    try:
        refuse_below_floor(call.resources.settings, spec.fairness)
        with faults_for(call.caller, spec):
            federation = load_for(call, spec)
            open_artifact = partial(stored_artifact, call.resources.storage, call.project_id)
            cell = with_start(Cell(spec, federation), open_artifact)
    except InvalidInputError as error:
        asked = (one.of_spec and one.message != REDACTED for one in error.errors)
        if all(asked) and not any(one.pointer.startswith("/federation/") for one in error.errors):
            raise  # of the spec, whatever became of the data
        faults = "; ".join(f"{one.pointer} {one.message}" for one in error.errors)
        raise _not_again(faults) from None
    with call.reading() as session:
        row = FederationRepository(session, call.project_id).get(experiment.federation_id)
    if row is None or row.fingerprint != federation.fingerprint:
        raise _not_again("they are not what they were when the experiment was submitted")
    with faults_for(call.caller, spec):
        check_attacks(cell)
    return cell


def _hold_data(session: Session, experiment: Experiment, spec: ExperimentSpec) -> None:
    """Keeps the data, and the parameters that training started from, until the request is stored,
    which keeps them afterwards. Raises ProblemError if they have gone since they were loaded."""
    federation = FederationRepository(session, experiment.project_id).lock(experiment.federation_id)
    if federation is None or federation.status in ("deleted", "erased"):
        raise _not_again("they were removed just now")
    hold_start(session, experiment.project_id, spec)


def _not_again(why: str) -> ProblemError:
    return conflict(f"the data of this experiment cannot be used for attacks any more: {why}")


def _refuse_open(later: LaterAttacksRepository, experiment_id: str) -> None:
    """One request after the other, so that each is judged beside all before it."""
    for row in (row for row in later.list(experiment_id) if row.status in OPEN):
        raise conflict(
            f"the experiment is being attacked already: {row.id} is {row.status}; wait for its "
            "end, or cancel it",
            attacks_id=row.id,
        )


def _refuse_without_model(
    session: Session, experiment: Experiment, report: Report, spec: ExperimentSpec
) -> None:
    """If noise cannot be drawn again, only the stored hypotheses can be attacked."""
    section = report.document.get("model")
    gone = gone_words(session, experiment.project_id, "model", experiment.id)
    if section is not None and gone is None:
        return
    why = gone or report.document.get("model_reason") or "none are stored"
    message = (
        "needs the trained hypotheses of the run, which cannot be repeated: its noise came from "
        f"the operating system's entropy; and they are not stored: {why}. Attack a new run by its "
        "spec, or ask for attacks that need none"
    )
    faults = [
        FieldError(f"{pointer('attacks', position)}/kind", message, of_spec=True)
        for position, attack in enumerate(spec.attacks)
        if attack.needs_hypotheses
    ]
    raise_errors(faults)


def _device(report: Report, spec: ExperimentSpec) -> str:
    """The kind that trained the run, since another gives other last bits."""
    trained_on = str(report.document["provenance"].get("device") or "")
    known = {"cpu": "cpu", "cuda": "cuda"}.get(trained_on.partition(":")[0])
    return spec.device if known is None else known
