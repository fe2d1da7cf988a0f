"""One report: as it is kept, whether it still agrees with the ledger, and for its readers."""

import json
from typing import Any

import yaml
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.bodies import validated
from api.pages.downloads import reading_downloads
from api.pages.report_tail import report_tail
from api.pages.session import ReportsVisitor, SignOffForm, Visitor, require
from api.pages.spec_form.sheet import ONCE, is_once
from api.pages.templates import has_template, page
from api.schemas.people import SignOffRequest
from api.services.attacks.judged_reports import find_judged
from api.services.attacks.later_bodies import later_list
from api.services.attacks.stored_attacks import attack_list
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_report, gone_words
from api.services.report_evidence import verification_of
from api.services.report_pages import stored_page, stored_pdf
from api.services.reports import sign_off_report
from api.services.result_files import model_file
from api.shared.resources import Resources, Shared
from fedaudit.reports.page.html import Link
from fedaudit.reports.readings.reading_choice import READINGS, ReadingName, reading
from fedaudit.spec.errors import InvalidInputError

router = APIRouter(prefix="/experiments/{experiment_id}")

_PLAIN_TEXT = "reading_text.html"
"""For a reading that has no template of its own."""


@router.get("/report")
def report_page(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it, and below it who signed
    it off and what can be taken away."""
    return _shown(resources, visitor, experiment_id)


@router.post("/sign-offs")
def post_sign_off(experiment_id: str, form: SignOffForm, resources: Shared) -> Response:
    """Sign the report off; the same form does it once, and what was typed is kept where it cannot
    be."""
    visitor = form.visitor
    require(visitor, "reports:read")
    draft = {name: form.text(name) for name in ("decision", "note", "role", "report_hash")}
    once = form.text(ONCE)
    key = once if is_once(once) else None
    idempotency = IdempotentRequest.of(key, f"POST /experiments/{experiment_id}/sign-offs", draft)
    try:
        asked = validated(SignOffRequest, {name: text for name, text in draft.items() if text})
        sign_off_report(resources, visitor.caller, experiment_id, asked, idempotency)
    except InvalidInputError as error:
        fault = "; ".join(f"{one.pointer.removeprefix('/')} {one.message}" for one in error.errors)
        return _shown(resources, visitor, experiment_id, draft=draft, fault=fault)
    return RedirectResponse(f"/experiments/{experiment_id}/report#sign-offs", status_code=303)


@router.get("/report.html")
def saved_page(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report's page as a file."""
    answer = stored_page(resources.database, visitor.caller, experiment_id)
    answer.headers["Content-Disposition"] = _attachment(experiment_id, "html")
    return answer


@router.get("/report.pdf")
def saved_pdf(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The report on paper, as a file."""
    headers = {
        "Content-Disposition": _attachment(experiment_id, "pdf"),
        "Cache-Control": "no-store",
    }
    pdf, _ = stored_pdf(resources, visitor.caller, experiment_id)
    return Response(pdf, media_type="application/pdf", headers=headers)


@router.get("/report.json")
def saved_document(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The report's document as a file, as it was stored."""
    headers = {
        "Content-Disposition": _attachment(experiment_id, "json"),
        "Cache-Control": "no-store",
    }
    document = _document(resources, visitor, experiment_id)
    return Response(json.dumps(document), media_type="application/json", headers=headers)


@router.get("/model")
def saved_model(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The trained hypotheses as a file, where they may leave."""
    return model_file(resources, visitor.caller, experiment_id)


@router.get("/verification")
def verification_page(
    request: Request, experiment_id: str, visitor: ReportsVisitor, resources: Shared
) -> HTMLResponse:
    """Whether the report still agrees with what is stored, everything recomputed."""
    found = verification_of(resources.database, visitor.caller, experiment_id)
    return page(
        request,
        "verification.html",
        visitor=visitor,
        verification=found,
        base=f"/experiments/{experiment_id}",
        declared=False,
    )


@router.get("/readings/{name}")
def reading_page(
    request: Request,
    experiment_id: str,
    name: ReadingName,
    visitor: ReportsVisitor,
    resources: Shared,
) -> HTMLResponse:
    """The report in the form that one of its readers has to fill."""
    with resources.database.read() as session:
        document = find_judged(session, visitor.caller, experiment_id)
    found = reading(document, name)
    text = found if isinstance(found, str) else yaml.safe_dump(found, sort_keys=False)
    own = f"reading_{name.replace('-', '_')}.html"
    return page(
        request,
        own if has_template(own) else _PLAIN_TEXT,
        visitor=visitor,
        experiment=document["experiment"],
        readings=READINGS,
        chosen=name,
        reading=found,
        text=text,
        files=reading_downloads(f"/experiments/{experiment_id}", READINGS[name]),
    )


def _shown(
    resources: Resources,
    visitor: Visitor,
    experiment_id: str,
    *,
    draft: dict[str, str] | None = None,
    fault: str | None = None,
) -> HTMLResponse:
    attacks = later = None
    if visitor.may("ledger:read"):
        attacks = attack_list(resources, visitor.caller, experiment_id)
        later = later_list(resources, visitor.caller, experiment_id)
    with resources.database.read() as session:
        tail = report_tail(
            session, visitor, experiment_id, draft=draft, fault=fault, attacks=attacks, later=later
        )
    base = f"/experiments/{experiment_id}"
    links = [
        Link("/reports", "All reports"),
        *([Link(base, "How it ran")] if visitor.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        *(Link(f"{base}/readings/{one.name}", one.title) for one in READINGS.values()),
        Link(f"/compare?experiment_id={experiment_id}", "Compare"),
        Link(f"{base}/report.pdf", "Save as PDF"),
        Link("#sign-offs", f"Sign-offs: {tail.state}"),
        Link("#take-away", "Take away"),
    ]
    if _document(resources, visitor, experiment_id).get("model") is not None:
        links.append(Link(f"{base}/model", _saving_the_model(resources, visitor, experiment_id)))
    answer = stored_page(
        resources.database, visitor.caller, experiment_id, links=links, tail=tail.html
    )
    answer.status_code = 200 if fault is None else 422
    return answer


def _saving_the_model(resources: Resources, visitor: Visitor, experiment_id: str) -> str:
    """What the link to it says: it leads to the reason where the model is gone."""
    with resources.database.read() as session:
        gone = gone_words(session, visitor.caller.project_id, "model", experiment_id)
    return "Save the model" if gone is None else gone[0].upper() + gone[1:]


def _document(resources: Resources, visitor: Visitor, experiment_id: str) -> dict[str, Any]:
    with resources.database.read() as session:
        return find_report(session, visitor.caller, experiment_id).document


def _attachment(experiment_id: str, ending: str) -> str:
    return f'attachment; filename="{experiment_id}-report.{ending}"'
