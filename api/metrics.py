"""The state of the service, read from the database: every API process answers the same.

Alerts and dashboards depend on the names. Labels are ids and words of fixed vocabularies: names of
projects, federations and experiments belong to their owners and do not appear.
"""

import platform
from collections.abc import Iterator

import structlog
from prometheus_client import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from api.shared.resources import Resources
from fedaudit import __version__
from models.database import Database, schema_state
from models.repositories import ServiceStateRepository
from models.repositories.service import Samples

log = structlog.get_logger()

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

    def __init__(self, resources: Resources) -> None:
        self._database = resources.database

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
    schema = schema_state(database)
    revisions = {"current": schema.current or "none", "needed": schema.head}
    found: dict[str, Samples] = {
        "schema_info": [(revisions, 1)],
        "schema_matches": [({}, schema.matches)],
    }
    if not schema.matches:
        return found
    with database.read() as session:
        return found | ServiceStateRepository(session).figures()
