"""What can be taken away: readings, the bundle, the public keys, and the list as a table."""

from typing import Annotated, get_args

from fastapi import APIRouter, Path, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from api.http.problems import not_found
from api.pages.downloads import MEDIA_TYPES, Form, forms_of, written
from api.pages.federation_names import federation_names
from api.pages.report_csv import report_csv
from api.pages.report_filters import asked_for, whole_days
from api.pages.session import LedgerVisitor, ReportsVisitor
from api.pages.templates import page
from api.services.attacks.judged_reports import find_judged
from api.services.attacks.stored_attacks import attack_file, file_response
from api.services.audit_log import note_export
from api.services.lookups import find_experiment
from api.services.report_evidence import bundle_of
from api.shared.resources import Shared
from fedaudit.reports.readings.reading_choice import READINGS, reading
from models.repositories import SigningKeyRepository

router = APIRouter()

_NO_STORE = {"Cache-Control": "no-store"}


@router.get("/experiments/{experiment_id}/files/{file}")
def reading_file(
    experiment_id: str, file: str, visitor: ReportsVisitor, resources: Shared
) -> Response:
    """A reading of the report as a file, named as `nist-800-226.yaml`."""
    name, _, form = file.rpartition(".")
    chosen = next((one for one in get_args(Form) if one == form), None)
    if chosen is None or name not in READINGS or chosen not in forms_of(READINGS[name]):
        raise not_found("file")
    with resources.database.read() as session:
        document = find_judged(session, visitor.caller, experiment_id)
    return Response(
        written(reading(document, name), chosen),
        media_type=MEDIA_TYPES[chosen],
        headers={**_attachment(f"{experiment_id}-{name}.{chosen}"), **_NO_STORE},
    )


@router.get("/experiments/{experiment_id}/bundle.zip")
def bundle_file(experiment_id: str, visitor: LedgerVisitor, resources: Shared) -> Response:
    """Everything that a verification without the service needs."""
    with resources.database.read() as session:
        experiment = find_experiment(session, visitor.caller, experiment_id)
        chunks = bundle_of(resources.database, session, experiment)
    note_export(resources, visitor.caller, experiment.id, "bundle")
    headers = {**_attachment(f"{experiment.id}-bundle.zip"), **_NO_STORE}
    return StreamingResponse(chunks, media_type="application/zip", headers=headers)


@router.get("/experiments/{experiment_id}/attacks/{position}/{name}")
def attack_file_of(
    experiment_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    visitor: LedgerVisitor,
    resources: Shared,
) -> Response:
    """A confidential file of an attack."""
    found = attack_file(resources, visitor.caller, experiment_id, position=position, name=name)
    note_export(resources, visitor.caller, experiment_id, f"attacks/{position}/{name}")
    return file_response(found, f"{experiment_id}-{position}-{name}")


@router.get("/experiments/{experiment_id}/attacks/later/{later_id}/{position}/{name}")
def later_attack_file_of(
    *,
    experiment_id: str,
    later_id: str,
    position: Annotated[int, Path(ge=0, le=19)],
    name: Annotated[str, Path(max_length=100)],
    visitor: LedgerVisitor,
    resources: Shared,
) -> Response:
    """The same of an attack after the report was signed."""
    found = attack_file(
        resources, visitor.caller, experiment_id, position=position, name=name, later_id=later_id
    )
    form = f"attacks/later/{later_id}/{position}/{name}"
    note_export(resources, visitor.caller, experiment_id, form)
    return file_response(found, f"{experiment_id}-{later_id}-{position}-{name}")


@router.get("/signing-keys")
def signing_keys_page(request: Request, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The public keys and their ids, to be compared with what another source says."""
    with resources.database.read() as session:
        keys = SigningKeyRepository(session).list()
    return page(request, "signing_keys.html", visitor=visitor, keys=keys)


@router.get("/signing-keys.pem")
def signing_keys_file(visitor: ReportsVisitor, resources: Shared) -> Response:
    """All of them in one file, as `fedaudit verify --public-key` takes it."""
    with resources.database.read() as session:
        keys = SigningKeyRepository(session).list()
    text = "".join(key.public_key for key in keys)
    headers = {**_attachment("signing-keys.pem"), **_NO_STORE}
    return Response(text, media_type="application/x-pem-file", headers=headers)


@router.get("/reports.csv")
def reports_table(request: Request, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The list of reports, under the same filters as its page, to its end."""
    lines = report_csv(
        resources,
        visitor.caller.project_id,
        whole_days(asked_for(request)),
        names=federation_names(resources, visitor),
    )
    return StreamingResponse(
        lines, media_type="text/csv", headers={**_attachment("reports.csv"), **_NO_STORE}
    )


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
