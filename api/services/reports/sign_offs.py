"""Take a sign-off: the key says who states it, and a worker's process signs it afterwards."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.schemas.people import SignOffRequest
from api.services.attacks.stored_attacks import judged_document
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_experiment, find_report
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.statements import Concern
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.verdict.concerns import CONCERN_WORDS, concerns_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from models.clock import utc_now
from models.repositories import AuditLogRepository, SignOffRepository
from models.tables.experiments import Experiment
from models.tables.reports import Report, SignOff

_MOST = 1000
_NOBODY = (
    "the API key names no person, so nobody could be held to the sign-off; make one that does: "
    "fedaudit keys create --person NAME --scopes reports:read,reports:sign"
)


def sign_off_report(
    resources: Resources,
    caller: Caller,
    experiment_id: str,
    asked: SignOffRequest,
    idempotency: IdempotentRequest | None,
) -> SignOff:
    """Store a sign-off of the experiment's report.

    Raises ProblemError without such a report, where another one was read, and for a key without a
    person; InvalidInputError where the report demands a note.
    """
    with resources.database.write() as session:
        report = find_report(session, caller, experiment_id)
        if caller.person is None:
            raise ProblemError(403, "forbidden", _NOBODY)
        if idempotency is not None:
            earlier = idempotency.lookup(session, caller)
            if earlier is not None:
                return _earlier(session, experiment_id, int(str(earlier.resource_id)))
        if asked.report_hash not in (None, report.report_hash):
            detail = f"the report has the hash {report.report_hash}, another one was read"
            raise ProblemError(409, "conflict", detail)
        concerns = _concerns(session, report)
        if concerns and not asked.note:
            why = " and ".join(CONCERN_WORDS[one] for one in concerns)
            message = f"is needed, because {why}: say why it is signed off as it is"
            raise InvalidInputError([FieldError("/note", message)])
        sign_offs = SignOffRepository(session, caller.project_id)
        number = sign_offs.next_number(experiment_id)
        if number > _MOST:
            raise ProblemError(409, "conflict", f"the report has {_MOST} sign-offs already")
        statement = Statement(
            experiment_id=experiment_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            note=asked.note,
            role=asked.role or caller.person.role,
            concerns=tuple(concerns),
            person=caller.person.name,
            key_id=caller.key_id,
            key_name=caller.key_name,
            by_submitter=_by_submitter(find_experiment(session, caller, experiment_id), caller),
            signed_off_at=utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        if idempotency is not None:
            idempotency.claim(session, caller, str(number), status_code=201)
        added = sign_offs.add(
            experiment_id,
            caller.project_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            statement=statement.fields(),
        )
        AuditLogRepository(session, caller.project_id).enter(
            "report.signed-off",
            experiment_id,
            by=caller.actor,
            number=number,
            decision=asked.decision,
            report_hash=report.report_hash,
        )
        return added


def sign_offs_of(session: Session, caller: Caller, experiment_id: str) -> list[SignOff]:
    """The report's sign-offs, oldest first. Raises ProblemError without such a report."""
    find_report(session, caller, experiment_id)
    return list(SignOffRepository(session, caller.project_id).list(experiment_id))


def _earlier(session: Session, experiment_id: str, number: int) -> SignOff:
    found = SignOffRepository(session).get(experiment_id, number)
    if found is None:
        raise LookupError(f"sign-off {number} of {experiment_id} was stored and is not there")
    return found


def _concerns(session: Session, report: Report) -> list[Concern]:
    """Also those that attacks raised since it was signed."""
    try:
        return concerns_of(judged_document(session, report))
    except (KeyError, TypeError):
        detail = "the stored report cannot be read; its verification says what was altered"
        raise ProblemError(409, "conflict", detail) from None


def _by_submitter(experiment: Experiment, caller: Caller) -> bool | None:
    """Four eyes are two people: told by the key, and by the name, which two keys may share. Unknown
    where nobody was recorded: a key that names nobody may be anybody's, also the signer's."""
    submitter = experiment.created_by
    if submitter is not None and submitter["key_id"] == caller.key_id:
        return True
    if submitter is None or submitter["person"] is None or caller.person is None:
        return None
    return str(submitter["person"]).casefold() == caller.person.name.casefold()
