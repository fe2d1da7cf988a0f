"""The state of the service, read from the database: every API process answers the same.

Labels are ids and words of fixed vocabularies. Names of projects, federations and experiments
belong to their owners and do not appear.
"""

import platform
import threading
from collections.abc import Iterable, Iterator
from time import monotonic

import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from api.http.observation import NAME
from api.shared.resources import Resources
from fedaudit import __version__
from models.database import SchemaState, schema_state
from models.repositories import ServiceStateRepository
from models.repositories.service import ServiceState

log = structlog.get_logger()

_Read = tuple[SchemaState, ServiceState | None]

# Alerts and dashboards depend on these names.
BUILD = "fedaudit_build_info"
DATABASE_UP = "fedaudit_database_up"
SCHEMA = "fedaudit_schema_info"
SCHEMA_MATCHES = "fedaudit_schema_matches"
UNITS = "fedaudit_units"
OLDEST_WAITING = "fedaudit_unit_oldest_waiting_seconds"
CLAIMS = "fedaudit_unit_claims"
LOST_LEASES = "fedaudit_unit_lost_leases"
EXPERIMENTS = "fedaudit_experiments"
ROUNDS = "fedaudit_rounds_recorded"
OUTBOX = "fedaudit_outbox_messages"
OUTBOX_OLDEST = "fedaudit_outbox_oldest_seconds"
ERASURE_OLDEST = "fedaudit_erasure_oldest_seconds"
SWEEPER = "fedaudit_sweeper_elected"
REQUESTS = NAME

_SECONDS = 3.0
"""Shorter than any sensible interval of scrapes. Otherwise a process that answers from memory could
show less than another did before, and a counter that falls is taken for one that began anew."""
_EXPERIMENT_STATUSES = ("queued", "running", "cancelling", "cancelled", "succeeded", "failed")


class StateMetrics(Collector):
    """Safe to share between threads."""

    def __init__(self, resources: Resources) -> None:
        self._database = resources.database
        self._lock = threading.Lock()
        self._kept: tuple[float, _Read] | None = None

    def collect(self) -> Iterator[Metric]:
        """Every figure; of a database that does not answer only that."""
        version = {"version": __version__, "python": platform.python_version()}
        yield _labelled(BUILD, "The version that answers.", [(version, 1)])
        try:
            schema, state = self._state()
        except SQLAlchemyError as error:
            log.warning("database away; no figures", error=type(error).__name__)
            schema, state = None, None
        yield _gauge(DATABASE_UP, "Whether the database answered.", schema is not None)
        if schema is not None:
            revisions = {"current": schema.current or "none", "needed": schema.head}
            words = "The schema's revision, and the one needed."
            yield _labelled(SCHEMA, words, [(revisions, 1)])
            yield _gauge(SCHEMA_MATCHES, "Whether these are the same.", schema.matches)
        if state is not None:
            yield from _of_state(state)

    def _state(self) -> _Read:
        """Read again once it is too old. One reader at a time; others wait for it."""
        with self._lock:
            if self._kept is None or monotonic() >= self._kept[0]:
                self._kept = None
                found = self._read()
                self._kept = (monotonic() + _SECONDS, found)
            return self._kept[1]

    def _read(self) -> _Read:
        schema = schema_state(self._database)
        if not schema.matches:
            return schema, None
        with self._database.read() as session:
            return schema, ServiceStateRepository(session).state()


def _of_state(state: ServiceState) -> Iterator[Metric]:
    units = [({"kind": one.kind, "state": one.state}, one.units) for one in state.units]
    yield _labelled(UNITS, "Units of work by kind and state.", units)
    waiting = state.oldest_waiting_seconds
    yield _labelled(
        OLDEST_WAITING,
        "How long the unit that has waited longest could have run; 0 where none waits.",
        [({"device": one}, waiting.get(one, 0.0)) for one in ("auto", "cpu", "cuda")],
    )
    claims = CounterMetricFamily(CLAIMS, "Times a worker took a unit.", labels=["kind"])
    lost = CounterMetricFamily(
        LOST_LEASES, "Times a unit was taken from a worker that was gone.", labels=["kind"]
    )
    for kind in sorted({"run", "profile", *(one.kind for one in state.units)}):
        of_kind = [one for one in state.units if one.kind == kind]
        claims.add_metric([kind], sum(one.claims for one in of_kind))
        lost.add_metric([kind], sum(one.lost_leases for one in of_kind))
    yield claims
    yield lost
    experiments = [({"status": one}, state.experiments.get(one, 0)) for one in _EXPERIMENT_STATUSES]
    yield _labelled(EXPERIMENTS, "Experiments by status.", experiments)
    stored = state.rounds_recorded
    yield CounterMetricFamily(ROUNDS, "Rounds stored, of all experiments.", value=stored)
    yield _gauge(OUTBOX, "Messages not sent yet.", state.outbox_messages)
    yield _gauge(OUTBOX_OLDEST, "Age of the oldest of them.", state.outbox_oldest_seconds)
    oldest = state.erasure_oldest_seconds
    yield _gauge(ERASURE_OLDEST, "Age of the oldest erasure that is not done.", oldest)
    yield _gauge(SWEEPER, "Whether a sweeper holds the duty.", state.sweeper_elected)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _labelled(name: str, words: str, rows: Iterable[tuple[dict[str, str], float]]) -> Metric:
    family = Metric(name, words, "gauge")
    for labels, value in rows:
        family.add_sample(name, labels, value)
    return family
