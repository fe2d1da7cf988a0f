"""The state of the service, read from the database: every API process answers the same.

Alerts and dashboards depend on the names. Labels are ids and words of fixed vocabularies: names of
projects, federations and experiments belong to their owners and do not appear.
"""

import platform
from collections.abc import Iterable, Iterator

import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from api.shared.resources import Resources
from fedaudit import __version__
from models.database import SchemaState, schema_state
from models.repositories import ServiceStateRepository
from models.repositories.service import ServiceState

log = structlog.get_logger()

_EXPERIMENT_STATUSES = ("queued", "running", "cancelling", "cancelled", "succeeded", "failed")


class StateMetrics(Collector):
    """Read whenever they are asked for: an answer from the memory of one process could show less
    than another process did before, and a counter that falls is taken for one that began anew."""

    def __init__(self, resources: Resources) -> None:
        self._database = resources.database

    def collect(self) -> Iterator[Metric]:
        """Every figure; of a database that does not answer only that."""
        version = {"version": __version__, "python": platform.python_version()}
        yield _labelled("fedaudit_build_info", "The version that answers.", [(version, 1)])
        try:
            schema, state = self._read()
        except SQLAlchemyError as error:
            log.warning("database away; no figures", error=type(error).__name__)
            schema, state = None, None
        yield _gauge("fedaudit_database_up", "Whether the database answered.", schema is not None)
        if schema is not None:
            revisions = {"current": schema.current or "none", "needed": schema.head}
            words = "The schema's revision, and the one needed."
            yield _labelled("fedaudit_schema_info", words, [(revisions, 1)])
            yield _gauge("fedaudit_schema_matches", "Whether these are the same.", schema.matches)
        if state is not None:
            yield from _of_state(state)

    def _read(self) -> tuple[SchemaState, ServiceState | None]:
        schema = schema_state(self._database)
        if not schema.matches:
            return schema, None
        with self._database.read() as session:
            return schema, ServiceStateRepository(session).state()


def _of_state(state: ServiceState) -> Iterator[Metric]:
    units = [({"kind": one.kind, "state": one.state}, one.units) for one in state.units]
    yield _labelled("fedaudit_units", "Units of work by kind and state.", units)
    waiting = state.oldest_waiting_seconds
    yield _labelled(
        "fedaudit_unit_oldest_waiting_seconds",
        "How long the unit that has waited longest could have run; 0 where none waits.",
        [({"device": one}, waiting.get(one, 0.0)) for one in ("auto", "cpu", "cuda")],
    )
    words = "Times a worker took a unit."
    claims = CounterMetricFamily("fedaudit_unit_claims", words, labels=["kind"])
    words = "Times a unit was taken from a worker that was gone."
    lost = CounterMetricFamily("fedaudit_unit_lost_leases", words, labels=["kind"])
    for kind in sorted({"run", "profile", *(one.kind for one in state.units)}):
        of_kind = [one for one in state.units if one.kind == kind]
        claims.add_metric([kind], sum(one.claims for one in of_kind))
        lost.add_metric([kind], sum(one.lost_leases for one in of_kind))
    yield claims
    yield lost
    experiments = [({"status": one}, state.experiments.get(one, 0)) for one in _EXPERIMENT_STATUSES]
    yield _labelled("fedaudit_experiments", "Experiments by status.", experiments)
    words, stored = "Rounds stored, of all experiments.", state.rounds_recorded
    yield CounterMetricFamily("fedaudit_rounds_recorded", words, value=stored)
    yield _gauge("fedaudit_outbox_messages", "Messages not sent yet.", state.outbox_messages)
    words, oldest = "Age of the oldest of them.", state.outbox_oldest_seconds
    yield _gauge("fedaudit_outbox_oldest_seconds", words, oldest)
    words, oldest = "Age of the oldest erasure that is not done.", state.erasure_oldest_seconds
    yield _gauge("fedaudit_erasure_oldest_seconds", words, oldest)
    words, elected = "Whether a sweeper holds the duty.", state.sweeper_elected
    yield _gauge("fedaudit_sweeper_elected", words, elected)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _labelled(name: str, words: str, rows: Iterable[tuple[dict[str, str], float]]) -> Metric:
    family = Metric(name, words, "gauge")
    for labels, value in rows:
        family.add_sample(name, labels, value)
    return family
