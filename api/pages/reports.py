"""One report: as it is kept, whether it agrees with the ledger, its readings, and its files."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from api.http.answers import Appendix, as_file
from api.http.bodies import validated
from api.http.problems import not_found
from api.pages import visits
from api.pages.session import CSRF_FIELD
from api.pages.templates import fragment
from api.routers import attacks, reports
from api.schemas.experiments import AttackBody
from api.schemas.people import SignOffList, SignOffRequest
from api.services import report_pages
from api.services.clients import shown_clients
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_judged, find_report, gone_words, judged_document
from api.services.report_evidence import verification_of
from api.shared.security import require
from fedaudit.reports.page.html import Link, report_pictures
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.readings.readings import READINGS, ReadingName, reading
from fedaudit.reports.verdict.verdict import CONCERN_WORDS, concerns_of
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.errors import InvalidInputError
from models.repositories import SigningKeyRepository, SignOffRepository
from models.values import OPEN, Scope

router = APIRouter()

_OF = "/experiments/{experiment_id}"


@router.get(f"{_OF}/report")
def report_page(
    experiment_id: str, visit: visits.ReportsVisit, *, appendix: Appendix = False
) -> HTMLResponse:
    """The report: the page that can be kept, with links above it, and below it its sign-offs and
    the files that can be saved."""
    return _shown(visit, experiment_id, appendix=appendix)


@router.post(f"{_OF}/sign-offs")
def post_sign_off(experiment_id: str, form: visits.SignOffForm) -> Response:
    """Sign the report off; the same form does it once, and a refused form keeps what was typed."""
    require(form.caller, "reports:read")
    draft = form.texts("decision", "note", "role", "report_hash")
    route = f"POST /experiments/{experiment_id}/sign-offs"
    again = IdempotentRequest.of(form.once, route, draft)
    try:
        asked = validated(SignOffRequest, {name: text for name, text in draft.items() if text})
        reports.sign_off_report(form, experiment_id, asked, again)
    except InvalidInputError as error:
        fault = "; ".join(f"{one.pointer.removeprefix('/')} {one.message}" for one in error.errors)
        return _shown(form, experiment_id, draft=draft, fault=fault)
    return form.to(f"/experiments/{experiment_id}/report#sign-offs")


@router.post(f"{_OF}/attacks/later/{{later_id}}/cancel")
def post_cancel_attacks(
    experiment_id: str, later_id: str, form: visits.ExperimentsForm
) -> Response:
    """Ask for the end of attacks after the report; what they have found by then stays."""
    attacks.cancel_later_attacks(experiment_id, later_id, form)
    return form.to(f"/experiments/{experiment_id}/report#later-attacks")


@router.get(f"{_OF}/pictures/{{name}}.{{form}}")
def saved_picture(
    experiment_id: str, name: str, form: PictureForm, visit: visits.ReportsVisit
) -> Response:
    """A picture of the report's page, as a file."""
    report, series, _ = visit.find(report_pages.page_parts, experiment_id)
    return visits.as_picture(report_pictures(report.document, series), name, form)


@router.get(f"{_OF}/report.json")
def saved_document(experiment_id: str, visit: visits.ReportsVisit) -> Response:
    """The report's document as a file, in the bytes that claims are about."""
    document = visit.find(find_report, experiment_id).document
    return as_file(canonical_json(document), f"{experiment_id}-report.json", "application/json")


@router.get(f"{_OF}/dossier.{{form}}")
def saved_dossier(
    experiment_id: str, form: report_pages.DossierForm, visit: visits.ReportsVisit
) -> Response:
    """The dossier on the report's release: as a page, or as a file."""
    base = f"/experiments/{experiment_id}"
    links = [Link(f"{base}/report", "Report"), Link(f"{base}/dossier.pdf", "Save as PDF")]
    return report_pages.dossier_response(visit, experiment_id, form, links=links)


@router.get(f"{_OF}/verification")
def verification_page(experiment_id: str, visit: visits.ReportsVisit) -> HTMLResponse:
    """Whether the report still agrees with what is stored, everything recomputed."""
    found = verification_of(visit, experiment_id)
    base = f"/experiments/{experiment_id}"
    return visit.page("verification.html", verification=found, base=base, declared=False)


@router.get(f"{_OF}/readings/{{name}}")
def reading_page(experiment_id: str, name: ReadingName, visit: visits.ReportsVisit) -> HTMLResponse:
    """The report in the form that one of its readers has to fill."""
    document = visit.find(find_judged, experiment_id)
    found = reading(document, name)
    shapes = {"topics": "reading_questions.html", "tables": "reading_impact_ratio.html"}
    shown = () if isinstance(found, str) else found
    return visit.page(
        next((shapes[part] for part in shapes if part in shown), "reading_text.html"),
        experiment=document["experiment"],
        readings=READINGS,
        chosen=name,
        reading=found,
        text=found if isinstance(found, str) else yaml.safe_dump(found, sort_keys=False),
        file=_reading_file(f"/experiments/{experiment_id}", READINGS[name]),
    )


@router.get(f"{_OF}/files/{{file}}")
def reading_file(experiment_id: str, file: str, visit: visits.ReportsVisit) -> Response:
    """A reading of the report as a file, named as `nist-800-226.json`."""
    name, _, form = file.rpartition(".")
    if name not in READINGS or form != _form_of(READINGS[name]):
        raise not_found("file")
    found = reading(visit.find(find_judged, experiment_id), name)
    file_name = f"{experiment_id}-{file}"
    if isinstance(found, str):
        return as_file(found, file_name, "text/markdown")
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    return as_file(text, file_name, "application/json")


_FILES: tuple[tuple[str, Scope, Callable[..., Response]], ...] = (
    ("report.html", "reports:read", reports.get_report_page),
    ("report.pdf", "reports:read", reports.get_report_pdf),
    ("claims.jsonl", "reports:read", reports.get_claims),
    ("model", "reports:read", reports.get_model),
    ("bundle.zip", "ledger:read", reports.get_bundle),
    ("attacks/{position}/{name}", "ledger:read", attacks.get_attack_file),
    ("attacks/later/{later_id}/{position}/{name}", "ledger:read", attacks.get_later_attack_file),
)
for _path, _scope, _endpoint in _FILES:
    router.add_api_route(f"{_OF}/{_path}", visits.for_visitors(_endpoint, _scope))


@router.get("/signing-keys")
def signing_keys_page(visit: visits.ReportsVisit) -> HTMLResponse:
    """The public keys and their ids, to be compared with what another source says."""
    with visit.reading() as session:
        return visit.page("signing_keys.html", keys=SigningKeyRepository(session).list())


@router.get("/signing-keys.pem")
def signing_keys_file(visit: visits.ReportsVisit) -> Response:
    """All of them in one file, as `fedaudit verify --public-key` takes it."""
    with visit.reading() as session:
        text = "".join(key.public_key for key in SigningKeyRepository(session).list())
    return as_file(text, "signing-keys.pem", "application/x-pem-file")


def _shown(
    visit: visits.Visit,
    experiment_id: str,
    *,
    draft: Mapping[str, str] | None = None,
    fault: str | None = None,
    appendix: bool = False,
) -> HTMLResponse:
    """The report's page within the service. `draft`: what was typed and refused."""
    base = f"/experiments/{experiment_id}"
    with visit.reading() as session:
        report, series, later = report_pages.page_parts(session, visit.caller, experiment_id)
        concerns = concerns_of(judged_document(session, report))
        clients = shown_clients(session, visit.caller, report)
        gone = gone_words(session, visit.project_id, "model", experiment_id)
        signed = SignOffList.of(SignOffRepository(session, visit.project_id).list(experiment_id))
    raised = [row.finished_at for row in later if row.alarms and row.finished_at is not None]
    tail = fragment(
        "report_tail.html",
        base=base,
        clients=clients,
        experiment_id=experiment_id,
        visitor=visit.caller,
        csrf_field=CSRF_FIELD,
        sign_offs=signed,
        report_hash=report.report_hash,
        concerns=concerns,
        concern_words=CONCERN_WORDS,
        draft=draft or {},
        fault=fault,
        claims=bool(report.claims),
        readings=[(one.title, *_reading_file(base, one)) for one in READINGS.values()],
        attacks=_attacks(visit, experiment_id) if visit.may("ledger:read") else [],
        open_attacks=[row for row in later if row.status in OPEN],
        alarm_at=min(raised, default=None),
    )
    state = "not signed off"
    if signed.items:
        newest = signed.items[-1]
        state = f"{newest.decision.replace('-', ' ')} by {newest.person}"
        # A refusal agrees with them.
        if newest.concerns and newest.decision == "approved":
            state += ", against concerns"
    links = _links(visit, base, report.document, state=state, gone=gone)
    page = report_pages.page_html(
        report, series, later, links=links, tail=tail, appendix=appendix, files=f"{base}/pictures"
    )
    answer = report_pages.page_response(page, has_forms=True)
    answer.status_code = 200 if fault is None else 422
    return answer


def _links(
    visit: visits.Visit, base: str, document: Mapping[str, Any], *, state: str, gone: str | None
) -> list[Link]:
    """What is above the report. `state`: how it is signed off; `gone`: why its model is gone."""
    links = [
        Link("/reports", "All reports"),
        *([Link(base, "How it ran")] if visit.may("experiments:read") else []),
        Link(f"{base}/report.pdf", "Save as PDF"),
        Link("#sign-offs", f"Sign-offs: {state}"),
        Link(f"{base}/dossier.html", "Dossier"),
        Link(f"{base}/verification", "Verification", more=True),
        Link(f"/compare?experiment_id={document['experiment']['id']}", "Compare", more=True),
        *(Link(f"{base}/readings/{one.name}", one.title, more=True) for one in READINGS.values()),
        Link(f"{base}/report?appendix=true", "Every round and table", more=True),
        Link("#take-away", "Take away", more=True),
    ]
    may_run = visit.may("experiments:write") and visit.may("experiments:read")
    if may_run and document["advice"]["changes"]:
        again = f"/experiments/new?like={document['experiment']['id']}&advised=true"
        links.insert(0, Link(again, "Apply what it advises"))
    if document.get("model") is not None:
        # Where the model is gone, the link leads to the reason.
        words = "Save the model" if gone is None else gone[0].upper() + gone[1:]
        links.append(Link(f"{base}/model", words, more=True))
    return links


def _attacks(visit: visits.Visit, experiment_id: str) -> list[tuple[str, str, AttackBody]]:
    """Each attack, what it is called, and the address below which its files are."""
    base = f"/experiments/{experiment_id}/attacks"
    found = [("Attack", base, one) for one in attacks.get_attacks(experiment_id, visit).items]
    for request in attacks.list_later_attacks(experiment_id, visit).items:
        called, place = f"Later attacks {request.number}, attack", f"{base}/later/{request.id}"
        found += [(called, place, one) for one in request.items]
    return found


def _reading_file(base: str, one: ReportReading) -> tuple[str, str]:
    """What a reading is saved as, and its address."""
    form = _form_of(one)
    return {"md": "Markdown", "json": "JSON"}[form], f"{base}/files/{one.name}.{form}"


def _form_of(one: ReportReading) -> str:
    """A reading that is text has no schema."""
    return "md" if one.schema is None else "json"
