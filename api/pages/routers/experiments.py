"""The list of experiments: filters by a GET form, pages by cursor, ticks to compare."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from api.http.bodies import validated
from api.pages.experiment_rows import row_of
from api.pages.federation_names import federation_names
from api.pages.navigation import home
from api.pages.session import SignedIn, require
from api.pages.templates import page
from api.schemas.experiments import ExperimentParameters
from api.services.experiments import experiment_page
from api.services.reports import largest_gaps
from api.shared.resources import Shared
from fedaudit.privacy.mechanisms.registry import MECHANISMS

router = APIRouter()

_ON_A_PAGE = 25
_STATES = ("running", "queued", "succeeded", "failed", "cancelled")
_SORTS = (
    ("-created_at", "Newest first"),
    ("created_at", "Oldest first"),
    ("name", "Name"),
    ("-finished_at", "Ended last"),
    ("leakage_max", "Smallest leakage"),
    ("equalized_odds_difference", "Smallest equalized-odds gap"),
    ("demographic_parity_difference", "Smallest demographic-parity gap"),
    ("-accuracy", "Largest accuracy"),
    ("validation_loss", "Smallest validation loss"),
)
_BEHIND_A_CLICK = ("name", "tag", "mechanism", "federation_id", "alarm", "sort")


@router.get("/experiments")
def experiments_address() -> RedirectResponse:
    """Where people look who shorten an experiment's address."""
    return RedirectResponse("/", status_code=303)


@router.get("/")
def experiments_list(request: Request, visitor: SignedIn, resources: Shared) -> Response:
    """The project's experiments. A form sends the fields too that were left empty.

    Whoever may not read them is led to the first page that the key is good for.
    """
    if not visitor.may("experiments:read"):
        better = home(visitor)
        if better is not None:
            return RedirectResponse(better.path, status_code=303)
    require(visitor, "experiments:read")
    asked = {name: value for name, value in request.query_params.items() if value}
    parameters = validated(ExperimentParameters, {"limit": _ON_A_PAGE, **asked})
    found = experiment_page(resources, visitor.caller, parameters)
    federations = federation_names(resources, visitor)
    gaps = largest_gaps(resources, visitor.caller.project_id, [one.id for one in found.items])
    filters = {name: value for name, value in asked.items() if name not in ("cursor", "limit")}
    return page(
        request,
        "experiments.html",
        visitor=visitor,
        rows=[
            row_of(item, federations.get(item.federation_id), gaps.get(item.id))
            for item in found.items
        ],
        filters=filters,
        hidden_filters=sum(name in filters for name in _BEHIND_A_CLICK),
        states=[(name, _address({**filters, "status": name})) for name in ("", *_STATES)],
        mechanisms=[("", "any"), *((one.facts.name, one.facts.label) for one in MECHANISMS)],
        federations=[("", "any"), *federations.items()],
        sorts=_SORTS,
        first_page=_address(filters) if parameters.cursor else None,
        next_page=_address({**filters, "cursor": found.next_cursor}) if found.next_cursor else None,
    )


def _address(parameters: dict[str, str]) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"/?{query}" if query else "/"
