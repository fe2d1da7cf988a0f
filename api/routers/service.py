"""The service itself: its health, and its figures, which are read from the database: every API
process answers the same.

Alerts and dashboards depend on the names of figures. Labels are ids and words of fixed
vocabularies: names of projects, federations and experiments belong to their owners and do not
appear.
"""

import hmac
import platform
from collections.abc import Iterator

import structlog
from fastapi import APIRouter, Depends, Request
from prometheus_client import REGISTRY, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from api.http.problems import ProblemError, unavailable
from api.openapi import problems
from api.shared.resources import Shared
from api.shared.security import Credentials, identify
from fedaudit import __version__
from infrastructure.settings import SettingsError
from models.database import HEAD, Database, current_revision
from models.repositories import ServiceStateRepository
from models.repositories.service import Samples
from models.values import Scope

log = structlog.get_logger()
router = APIRouter()

_SCOPE: Scope = "metrics:read"


class Health(BaseModel):
    """A sign of life."""

    status: str = "ok"


@router.get("/health/live", name="check_liveness", tags=["health"])
async def live() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/health/ready", name="check_readiness", tags=["health"], responses=problems(503))
def ready(resources: Shared) -> Health:
    """Whether the database answers and has the schema that this version needs."""
    try:
        resources.check_schema()
    except SQLAlchemyError:
        raise unavailable("the database does not answer") from None
    return Health()


def _may_read(request: Request, resources: Shared, credentials: Credentials) -> None:
    """Raises ProblemError without the token and without a key that has the scope."""
    try:
        token = resources.settings.metrics_token()
    except SettingsError:
        token = None
    sent = "" if credentials is None else credentials.credentials
    if token is not None and hmac.compare_digest(token.encode(), sent.encode()):
        return
    if not identify(request, resources, credentials).may(_SCOPE):
        detail = f"the API key lacks the scope {_SCOPE}, which `fedaudit keys create` gives"
        raise ProblemError("forbidden", detail, scope=_SCOPE)


@router.get("/metrics", dependencies=[Depends(_may_read)], include_in_schema=False)
def metrics(resources: Shared) -> Response:
    """The figures, as text for Prometheus."""
    figures = generate_latest(StateMetrics(resources.database)) + generate_latest(REGISTRY)
    return Response(figures, media_type=CONTENT_TYPE_PLAIN_0_0_4)


_COUNTERS = ("unit_claims", "unit_lost_leases", "rounds_recorded")
_WORDS = {
    "build_info": "The version that answers.",
    "database_up": "Whether the database answered.",
    "schema_info": "The schema's revision, and the one needed.",
    "schema_matches": "Whether these are the same.",
    "units": "Units of work by kind and state.",
    "unit_oldest_waiting_seconds": "How long the unit that has waited longest could have run; 0 "
    "where none waits.",
    "unit_claims": "Times a worker took a unit.",
    "unit_lost_leases": "Times a unit was taken from a worker that was gone.",
    "experiments": "Experiments by status.",
    "rounds_recorded": "Rounds stored, of all experiments.",
    "outbox_messages": "Messages not sent yet.",
    "outbox_oldest_seconds": "Age of the oldest of them.",
    "erasure_oldest_seconds": "Age of the oldest erasure that is not done.",
    "sweeper_elected": "Whether a sweeper holds the duty.",
}


class StateMetrics(Collector):
    """Read whenever they are asked for: an answer from the memory of one process could show less
    than another process did before, and a counter that falls is taken for one that began anew."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[Metric]:
        """Every figure; of a database that does not answer only that."""
        version = {"version": __version__, "python": platform.python_version()}
        figures: dict[str, Samples] = {"build_info": [(version, 1)]}
        try:
            figures |= {"database_up": [({}, 1)], **_stored(self._database)}
        except SQLAlchemyError as error:
            log.warning("database away; no figures", error=type(error).__name__)
            figures["database_up"] = [({}, 0)]
        for name, samples in figures.items():
            is_counter = name in _COUNTERS
            kind, suffix = ("counter", "_total") if is_counter else ("gauge", "")
            family = Metric(f"fedaudit_{name}", _WORDS[name], kind)
            for labels, value in samples:
                family.add_sample(f"fedaudit_{name}{suffix}", labels, float(value))
            yield family


def _stored(database: Database) -> dict[str, Samples]:
    """What the database says; of one with another schema only that."""
    current = current_revision(database)
    revisions = {"current": current or "none", "needed": HEAD}
    found: dict[str, Samples] = {
        "schema_info": [(revisions, 1)],
        "schema_matches": [({}, current == HEAD)],
    }
    if current != HEAD:
        return found
    with database.read() as session:
        return found | ServiceStateRepository(session).figures()
