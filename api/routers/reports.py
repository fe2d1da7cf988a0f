"""Reports: read, verified, signed off, listed, compared, and judged by gates."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response

from api import openapi
from api.http import answers
from api.http.problems import ProblemError, conflict, invalid
from api.routers.ledger_reports import report_of
from api.routers.sweeps import with_costs_of_now
from api.schemas.base import UtcTime, of_row
from api.schemas.experiment_tables import ClientBody, Verification
from api.schemas.people import NewestSignOff, SignOffBody, SignOffList, SignOffRequest
from api.schemas.reports import (
    ComparisonParameters,
    GatesEvaluation,
    GatesRequest,
    ListedExperiment,
    ListedFigure,
    ReportBody,
    ReportPage,
    ReportParameters,
)
from api.services import lookups
from api.services.clients import client_lines
from api.services.dispatch import Idempotent, IdempotentRequest
from api.services.report_evidence import bundle_of, verification_of
from api.services.report_pages import (
    DossierForm,
    dossier_response,
    page_html,
    page_parts,
    page_response,
)
from api.shared.security import (
    Call,
    Caller,
    FederationsReader,
    LedgerReader,
    ReportsReader,
    ReportsSigner,
)
from fedaudit.ledger.bundle import claim_lines
from fedaudit.ledger.statements import Concern
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.comparison.compared_reports import compare_reports as compared
from fedaudit.reports.comparison.fronts import Comparison
from fedaudit.reports.dossier.dossier import SCHEMA as DOSSIER_SCHEMA
from fedaudit.reports.figures import FAIRNESS, largest_gap, parsed
from fedaudit.reports.gates.gate_evaluation import evaluate, without_report
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.readings.readings import READINGS, ReadingName, reading
from fedaudit.reports.report import OTHER_FORM, has_present_form
from fedaudit.reports.report import Report as ReportDocument
from fedaudit.reports.verdict.verdict import CONCERN_WORDS, concerns_of
from fedaudit.spec.errors import error_at
from fedaudit.spec.gates import refuse_percentages
from fedaudit.spec.parse import parse_admitted
from fedaudit.stored import IndexedFigure
from infrastructure.storage import file_key
from models.repositories import ReportListRepository, ReportRepository, SignOffRepository
from models.repositories.reports import FILTERS
from models.tables.experiments import Experiment, Report, SignOff
from models.values import ENDED, ListedReport, utc_now

gates_router = openapi.Router(prefix="/gates", tags=["gates"])


@gates_router.post("/evaluations", responses=openapi.problems(404))
def evaluate_gates(call: ReportsReader, asked: GatesRequest) -> GatesEvaluation:
    """Whether the report of an experiment, or of a declared ledger, meets each gate, fails it, or
    lacks the evidence."""
    refuse_percentages(asked.gates or ())
    if asked.ledger_id is None:
        evaluated = _of_experiment(call, asked)
    else:
        evaluated = evaluate(asked.gates or (), report_of(call, asked.ledger_id).document)
    return GatesEvaluation.model_validate(
        {
            "experiment_id": asked.experiment_id,
            "ledger_id": asked.ledger_id,
            "outcome": overall(evaluated),
            "reason": None if evaluated else "no gate was given",
            "gates": evaluated,
        }
    )


def _of_experiment(call: Call, asked: GatesRequest) -> list[dict[str, Any]]:
    with call.reading() as session:
        experiment = lookups.find_experiment(session, call.caller, asked.experiment_id or "")
        gates = asked.gates
        if gates is None:
            gates = parse_admitted(experiment.spec).gates
        report = ReportRepository(session, call.project_id).get(experiment.id)
        if report is None:
            return without_report(gates, f"the experiment has no report: it is {experiment.status}")
        if not has_present_form(report.document):
            return without_report(gates, OTHER_FORM)
        document = lookups.judged_document(session, report)
        return evaluate(gates, with_costs_of_now(session, call.caller, experiment.id, document))


router = openapi.Router(tags=["reports"])

_OF = "/experiments/{experiment_id}"
_MARKDOWN = "text/markdown"


def _form_of(one: ReportReading) -> tuple[str, Any]:
    if one.schema is None:
        return _MARKDOWN, openapi.TEXT
    return answers.JSON, openapi.schema_of(one.schema) if isinstance(one.schema, type) else dict(
        one.schema
    )


_REPORT = openapi.contents("The report.", answers.JSON, openapi.schema_of(ReportDocument))
_READING = openapi.contents_by(
    "The reading.", {name: _form_of(one) for name, one in READINGS.items()}
)
_SAFETENSORS = "application/octet-stream"
"""No media type is registered for the format."""
_MODEL = openapi.contents("The hypotheses.", _SAFETENSORS, openapi.BINARY, 409)
_BESIDE = {
    "type": "object",
    "required": ["report", "clients", "figure"],
    "properties": {
        "report": openapi.schema_of(ReportDocument),
        "clients": {"type": "array", "items": openapi.schema_of(ClientBody)},
        "figure": {"type": ["string", "null"], "description": "What clients spent."},
    },
}
_DOSSIER = openapi.contents("The dossier.", "application/zip", openapi.BINARY, 409)
_DOSSIER_FORMS: dict[str, tuple[str, Any]] = {
    "json": (answers.JSON, DOSSIER_SCHEMA),
    "html": (answers.HTML, openapi.TEXT),
    "pdf": ("application/pdf", openapi.BINARY),
}
_DOSSIER_FILE = openapi.contents_by("The dossier.", _DOSSIER_FORMS, 409)
_WITH_CLIENTS = openapi.contents("The report, and the table.", answers.JSON, _BESIDE, 409)
_JSONL = "application/jsonl"
_CLAIMS = openapi.contents("The claims, a line each.", _JSONL, openapi.TEXT)


@router.get(f"{_OF}/report", responses=_REPORT)
def get_report(
    experiment_id: str,
    call: ReportsReader,
    accept: answers.Accept,
    name: Annotated[ReadingName | None, Query(alias="reading", include_in_schema=False)] = None,
) -> Response:
    """The report of a finished experiment, as it was stored."""
    if name is None:
        as_page = answers.preferred(accept, (answers.JSON, answers.HTML)) == answers.HTML
        return (get_report_page if as_page else get_report_document)(experiment_id, call)
    answer = get_reading(experiment_id, name, call)
    answer.headers.update(answers.earlier_name(f"report/readings/{name}"))
    return answer


@router.get(f"{_OF}/report/readings/{{name}}", responses=_READING)
def get_reading(experiment_id: str, name: ReadingName, call: ReportsReader) -> Response:
    """The report in the form that one kind of recipient requires."""
    judged = call.find(lookups.find_judged, experiment_id)
    found = reading(judged, name)
    if isinstance(found, str):
        return Response(found, media_type=_MARKDOWN)
    return JSONResponse(found)


@router.get(f"{_OF}/report/with-clients", responses=_WITH_CLIENTS)
def get_report_with_clients(experiment_id: str, call: LedgerReader) -> Response:
    """The signed report as it is and, beside it, what each client paid and how it fares."""
    with call.reading() as session:
        report = lookups.find_report(session, call.caller, experiment_id)
        beside = client_lines(session, report, limit=sys.maxsize)
    lines = list(beside.lines)
    return JSONResponse({"report": report.document, "clients": lines, "figure": beside.figure})


@router.get(f"{_OF}/report.json", include_in_schema=False)
def get_report_document(experiment_id: str, call: ReportsReader) -> Response:
    """The report as JSON, as it was stored."""
    return JSONResponse(call.find(lookups.find_stored_report, experiment_id).document)


@router.get(f"{_OF}/report.html", responses=openapi.PAGE)
def get_report_page(
    experiment_id: str, call: ReportsReader, *, appendix: answers.Appendix = False
) -> Response:
    """The report as one page without scripts."""
    return page_response(page_html(*call.find(page_parts, experiment_id), appendix=appendix))


@router.get(f"{_OF}/report.pdf", responses=openapi.PDF_FILE)
def get_report_pdf(
    experiment_id: str, call: ReportsReader, *, appendix: answers.Appendix = False
) -> Response:
    """The report as a PDF file of at most 3 pages, and longer with its appendix.

    Printing may take some seconds.
    """
    page = page_html(*call.find(page_parts, experiment_id), appendix=appendix)
    return answers.as_file(
        call.resources.printer.pdf(page), f"{experiment_id}-report.pdf", answers.PDF
    )


@router.get(f"{_OF}/report/verification")
def verify_report(experiment_id: str, call: ReportsReader) -> Verification:
    """Checks the report against the stored ledger: digests, chain, counts and hashes anew."""
    return verification_of(call, experiment_id)


@router.get(f"{_OF}/dossier", responses=_DOSSIER)
def get_dossier(experiment_id: str, call: ReportsReader) -> Response:
    """What an output checker decides by, as a zip file: the report by the controls of SATRE as
    JSON, page and PDF, with report and sign-offs, each bound by its SHA-256."""
    return dossier_response(call, experiment_id, "zip")


@router.get(f"{_OF}/dossier.{{form}}", responses=_DOSSIER_FILE)
def get_dossier_file(experiment_id: str, form: DossierForm, call: ReportsReader) -> Response:
    """The dossier's document, its page without scripts, or the page as a PDF file of at most 4
    pages."""
    return dossier_response(call, experiment_id, form)


@router.get(f"{_OF}/claims.jsonl", responses=_CLAIMS)
def get_claims(experiment_id: str, call: ReportsReader) -> Response:
    """What the report claims, for the verifiers of others: a Sigstore bundle a line, each an
    in-toto Statement.

    Empty for reports of before there were any.
    """
    claims = call.find(lookups.find_stored_report, experiment_id).claims
    return Response(claim_lines(claims or ()), media_type=_JSONL)


@router.get(f"{_OF}/bundle", responses=openapi.BUNDLE)
def get_bundle(experiment_id: str, call: LedgerReader) -> Response:
    """Everything that `fedaudit verify` needs, in a zip file: report, ledger, checkpoints, keys.

    Also of an experiment that failed or was cancelled, then without a report.
    """
    with call.reading() as session:
        experiment = lookups.find_experiment(session, call.caller, experiment_id)
        chunks = bundle_of(call.resources.database, session, experiment)
    lookups.note_export(call, experiment.id, "bundle")
    return answers.as_file(chunks, f"{experiment.id}-bundle.zip", answers.ZIP)


@router.get(f"{_OF}/model", responses=_MODEL)
def get_model(experiment_id: str, call: ReportsReader) -> Response:
    """The trained hypotheses that the report's figures are of, as safetensors.

    409 where they may not leave: where no proven guarantee covers them, or its noise was simulated.
    The detail says which, and what to change in the spec; the report says the same.
    """
    section, _ = _model_section(call, experiment_id)
    blocks = call.resources.storage.blocks(file_key("model", call.project_id, experiment_id))
    answer = answers.as_file(blocks, f"{experiment_id}-model.safetensors", _SAFETENSORS)
    answer.headers["Content-Length"] = str(section["size_bytes"])
    return answer


@router.get(f"{_OF}/model-layout", responses=openapi.problems(409))
def get_model_layout(experiment_id: str, call: FederationsReader) -> dict[str, Any]:
    """The inputs and outputs of the trained model: features, scales and classes, in order.

    Confidential: it discloses the classes and columns of the data. The part that the spec declares
    is in the model's file too. 409 where the model may not leave.
    """
    _, layout = _model_section(call, experiment_id)
    if layout is None:
        raise _stays("it was trained by a version that kept no layout; submit the spec again")
    return layout


def _model_section(call: Call, experiment_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the report states of the model, and the model's layout. Raises ProblemError where there
    is no such experiment, or its model may not leave or is gone."""
    with call.reading() as session:
        experiment = lookups.find_experiment(session, call.caller, experiment_id)
        report = ReportRepository(session, call.project_id).get(experiment_id)
        if report is None:
            why = f"it is {experiment.status}"
            if experiment.status not in ENDED:
                why += "; ask again when it has succeeded"
            raise _stays(why)
        section: dict[str, Any] | None = report.document.get("model")
        if section is None:
            earlier = "it was trained by a version that kept no models; submit the spec again"
            raise _stays(report.document.get("model_reason") or earlier)
        lookups.refuse_gone(session, call.project_id, "model", experiment_id)
        return section, report.model_layout


def _stays(why: str) -> ProblemError:
    return conflict(f"the model of this experiment cannot be had: {why}")


@router.get(f"{_OF}/sign-offs")
def list_sign_offs(experiment_id: str, call: ReportsReader) -> SignOffList:
    """The sign-offs of the report, oldest first."""
    with call.reading() as session:
        lookups.find_report(session, call.caller, experiment_id)
        return SignOffList.of(SignOffRepository(session, call.project_id).list(experiment_id))


@router.post(f"{_OF}/sign-offs", status_code=201, responses=openapi.problems(409))
def create_sign_off(
    experiment_id: str, call: ReportsSigner, asked: SignOffRequest, idempotency: Idempotent
) -> SignOffBody:
    """Approve, reject or send back exactly the report that is stored, in the key's person's name.

    It cannot be changed or withdrawn; a later one is appended. The service signs it within seconds.
    """
    return SignOffBody.of(sign_off_report(call, experiment_id, asked, idempotency))


@router.get("/reports")
def list_reports(call: ReportsReader, parameters: ReportParameters) -> ReportPage:
    """The project's reports by any of their figures, newest first unless sorted otherwise."""
    filters, bounds = parameters.of(FILTERS), parameters.bounds
    with call.reading() as session:
        reports = ReportListRepository(session, call.project_id)
        attribute = _sorted_attribute(reports, parameters)
        return lookups.list_page(
            ReportPage,
            f"reports:{parameters.sort}:{attribute}:{parameters.observer}",
            parameters,
            partial(
                reports.list, filters, bounds=bounds, sort=parameters.sort, attribute=attribute
            ),
            partial(_bodies, session, call.project_id),
            key=answers.sorted_key_type(parameters.sort_key, UtcTime, "finished_at"),
        )


@router.get("/comparisons", responses=openapi.problems(404, 409))
def compare_reports(call: ReportsReader, parameters: ComparisonParameters) -> Comparison:
    """Reports side by side: figures, differences between their specs, and Pareto fronts."""
    return comparison_of(
        call, parameters.experiment_id, fairness=parameters.fairness, utility=parameters.utility
    )


_UNREADABLE = "the stored report could not be read when the list was made; see its verification"
_MOST_SIGN_OFFS = 1000


def _sorted_attribute(reports: ReportListRepository, parameters: ReportParameters) -> str:
    """The attribute of the figure that is sorted by; empty where the figure has none."""
    if parameters.sort_key not in FAIRNESS:
        return ""
    if parameters.attribute is not None:
        return parameters.attribute
    found = reports.attributes(parameters.sort_key)
    if len(found) > 1:
        message = (
            f"the reports measure {parameters.sort_key} for {len(found)} attributes; give one of "
            f"{', '.join(found)}"
        )
        raise invalid("/query/attribute", message)
    return found[0] if found else ""


def _bodies(session: Session, project_id: str, items: Sequence[ListedReport]) -> list[ReportBody]:
    ids = [one.experiment_id for one in items]
    figures = ReportListRepository(session, project_id).figures(ids)
    signed = SignOffRepository(session, project_id).newest_of(ids)
    return [
        _body(one, list(figures[one.experiment_id]), signed.get(one.experiment_id)) for one in items
    ]


def _body(one: ListedReport, figures: list[IndexedFigure], sign_off: SignOff | None) -> ReportBody:
    reasons, newest, gap = dict[str, str](), None, largest_gap(figures)
    if one.gate_outcome is None:
        reasons["gate_outcome"] = "its spec has no gates"
    if sign_off is None:
        reasons["sign_off"] = "not signed off yet"
    else:
        with suppress(ValueError):
            newest = of_row(NewestSignOff, Statement.of_fields(sign_off.statement))
        if newest is None:
            reasons["sign_off"] = "the stored sign-off cannot be read; see the verification"
    if gap is None:
        why = "no attribute has a difference between groups; `figures` say why for each"
        reasons["largest_gap"] = why
    if one.summary is None:
        reasons |= dict.fromkeys(("verdict", "guarantee"), _UNREADABLE)
    return ReportBody.model_validate(
        {
            "experiment": of_row(
                ListedExperiment, one, id=one.experiment_id, tags=sorted(set(one.tags))
            ),
            "verdict": None,
            "guarantee": None,
            **(one.summary or {}),
            "gate_outcome": one.gate_outcome,
            "sign_off": newest,
            "largest_gap": gap,
            "figures": [
                of_row(
                    ListedFigure,
                    figure,
                    attribute=figure.attribute or None,
                    observer=figure.observer or None,
                )
                for figure in figures
            ],
            "report_hash": one.report_hash,
            "href": f"/v1/experiments/{one.experiment_id}/report",
            "reasons": reasons,
        }
    )


def comparison_of(
    call: Call,
    experiment_ids: Sequence[str],
    *,
    fairness: str | None = None,
    utility: str | None = None,
) -> Comparison:
    """The comparison of experiments of the caller's project, in this order. Raises ProblemError
    where one of them does not exist, has no report, or has one that was altered so much that it
    cannot be parsed."""
    reports = []
    for id_ in experiment_ids:
        with call.reading() as session:
            try:
                reports.append(parsed(lookups.find_judged(session, call.caller, id_)))
            except ProblemError as error:
                raise ProblemError(error.slug, f"{id_}: {error.detail}") from None
            except ValueError:
                detail = f"{id_}: the stored report cannot be read; see its verification"
                raise conflict(detail) from None
    return compared(reports, fairness=fairness, utility=utility)


def sign_off_report(
    call: Call, experiment_id: str, asked: SignOffRequest, idempotency: IdempotentRequest
) -> SignOff:
    """Store a sign-off of the experiment's report, which a worker's process signs afterwards.
    Raises ProblemError without such a report, where another one was read, and for a key without a
    person; InvalidInputError where the report demands a note."""
    with call.writing() as session:
        report = lookups.find_report(session, call.caller, experiment_id)
        if call.caller.person is None:
            raise ProblemError(
                "forbidden",
                "the API key names no person, so no person would be accountable for the sign-off; "
                "make one that does: fedaudit keys create --person NAME",
            )
        sign_offs = SignOffRepository(session, call.project_id)
        # First: of two equal requests at once the second waits here, and finds the other's.
        number = sign_offs.next_number(SignOff, experiment_id)
        earlier = idempotency.earlier(session, call.caller)
        if earlier is not None:
            found = sign_offs.get(experiment_id, int(earlier))
            if found is None:
                raise LookupError(f"sign-off {earlier} of {experiment_id} was stored and is lost")
            return found
        if asked.report_hash not in (None, report.report_hash):
            raise conflict(f"the report has the hash {report.report_hash}, another one was read")
        concerns = _concerns(session, report)
        if concerns and not asked.note:
            why = " and ".join(CONCERN_WORDS[one] for one in concerns)
            message = f"is needed, because {why}: say why it is signed off as it is"
            raise error_at("/note", message)
        if number > _MOST_SIGN_OFFS:
            raise conflict(f"the report has {_MOST_SIGN_OFFS} sign-offs already")
        statement = Statement(
            experiment_id=experiment_id,
            number=number,
            report_hash=report.report_hash,
            decision=asked.decision,
            note=asked.note,
            role=asked.role or call.caller.person.role,
            concerns=tuple(concerns),
            person=call.caller.person.name,
            key_id=call.caller.key_id,
            key_name=call.caller.key_name,
            by_submitter=_by_submitter(
                lookups.find_experiment(session, call.caller, experiment_id), call.caller
            ),
            signed_off_at=utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        idempotency.claim(session, call.caller, str(number))
        about: dict[str, Any] = {
            "number": number,
            "decision": asked.decision,
            "report_hash": report.report_hash,
        }
        owner = {"experiment_id": experiment_id, "project_id": call.project_id}
        stated = {"statement": statement.fields(), "created_at": utc_now(), **about}
        added = sign_offs.store(SignOff(**owner, **stated))
        lookups.note(session, call.caller, "report.signed-off", experiment_id, **about)
        return added


def _concerns(session: Session, report: Report) -> list[Concern]:
    """The report's concerns, with those that attacks raised since it was signed."""
    try:
        return concerns_of(lookups.judged_document(session, report))
    except (KeyError, TypeError):
        detail = "the stored report cannot be read; its verification says what was altered"
        raise conflict(detail) from None


def _by_submitter(experiment: Experiment, caller: Caller) -> bool | None:
    """Whether the submitter signs off, against the four-eyes principle: by the key, or by the name,
    which two keys may share. None where no name is recorded: such a key may be anyone's."""
    submitter = experiment.created_by
    if submitter is not None and submitter["key_id"] == caller.key_id:
        return True
    if submitter is None or submitter["person"] is None or caller.person is None:
        return None
    return str(submitter["person"]).casefold() == caller.person.name.casefold()
