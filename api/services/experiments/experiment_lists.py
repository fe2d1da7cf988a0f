"""Pages of a project's experiments, as the API and the pages for people show them."""

from functools import cache
from typing import Any

from pydantic import FiniteFloat, TypeAdapter

from api.http.cursors import decode_cursor, encode_cursor
from api.schemas.base import UtcTime
from api.schemas.experiments import (
    ExperimentBody,
    ExperimentPage,
    ExperimentParameters,
    ListedExperimentBody,
    SubmittedBody,
)
from api.services.experiments.submission import Submitted
from api.shared.data_faults import shown_detail
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.repositories import ExperimentRepository
from models.tables.experiments import Experiment
from models.values import ExperimentFilters


def experiment_body(row: Experiment, tags: list[str], *, caller: Caller) -> ExperimentBody:
    """One experiment as the caller may see it."""
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return ExperimentBody.of(row, tags, status_detail=detail)


def submitted_body(submitted: Submitted, *, caller: Caller) -> SubmittedBody:
    """An experiment that was accepted, as the caller may see it."""
    row = submitted.experiment
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return SubmittedBody.accepted(row, submitted.tags, submitted.warnings, status_detail=detail)


def experiment_page(
    resources: Resources,
    caller: Caller,
    parameters: ExperimentParameters,
    *,
    with_specs: bool = True,
) -> ExperimentPage:
    """The experiments that pass the filters. Raises ProblemError for a cursor of another list."""
    route = f"experiments:{parameters.sort}"
    filters = ExperimentFilters(
        status=parameters.status,
        name=parameters.name,
        tag=parameters.tag,
        federation_id=parameters.federation_id,
        mechanism=parameters.mechanism,
        created_after=parameters.created_after,
        created_before=parameters.created_before,
        delta=parameters.delta,
        adjacency=parameters.adjacency,
        alarm=parameters.alarm,
        bounds=tuple(parameters.bounds),
    )
    cursor = decode_cursor(route, parameters.cursor, _key_of(parameters.sort))
    with resources.database.read() as session:
        experiments = ExperimentRepository(session, caller.project_id)
        page = experiments.list(
            filters, cursor=cursor, limit=parameters.limit, sort=parameters.sort
        )
        tags = experiments.tags([row.id for row in page.items])
    return ExperimentPage(
        items=[
            _listed(row, list(tags[row.id]), caller=caller, with_spec=with_specs)
            for row in page.items
        ],
        next_cursor=encode_cursor(route, page.next_cursor),
    )


def _listed(
    row: Experiment, tags: list[str], *, caller: Caller, with_spec: bool
) -> ListedExperimentBody:
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    body = ListedExperimentBody.of(row, tags, status_detail=detail)
    return body if with_spec else body.model_copy(update={"spec": None})


@cache
def _key_of(sort: str) -> TypeAdapter[Any]:
    """The type of the cursors of a list with this order."""
    name = sort.removeprefix("-")
    if name == "created_at":
        return TypeAdapter(tuple[Text])
    if name == "name":
        return TypeAdapter(tuple[Text, Text])
    if name in ("started_at", "finished_at"):
        return TypeAdapter(tuple[UtcTime | None, Text])
    return TypeAdapter(tuple[FiniteFloat | None, Text])
