"""The state of the service, read from the database: whichever API process is asked says the same.

Labels are ids and words of fixed vocabularies. Names of projects, federations and experiments are
their owners' and do not appear.
"""

import platform
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import Generic, TypeVar

import numpy as np
import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from api.metrics import metric_names as names
from api.shared.resources import Resources
from fedaudit import __version__
from fedaudit.privacy.accounting.rdp import composed_epsilon
from models.repositories import ServiceStateRepository
from models.repositories.epsilon_budgets import Price
from models.repositories.operations.all_budgets import budgets_of_all
from models.repositories.service import ServiceState
from models.schema import SchemaState, schema_state

log = structlog.get_logger()

T = TypeVar("T")

_SECONDS = 3.0
"""Shorter than any sensible interval of scrapes. Otherwise a process that answers from memory could
show less than another did before, and a counter that falls is taken for one that began anew."""
_SHARE = 0.02
"""Of the time, for reading. What is kept of budgets may show room that was taken meanwhile, so it
is kept no longer than reading it is worth."""
_MOST_SECONDS = 60.0
_MOST_FEDERATIONS = 200
_KEPT_PRICES = 4096
_EXPERIMENT_STATUSES = ("queued", "running", "cancelling", "cancelled", "succeeded", "failed")
_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class _Budgets:
    """By (federation, book, figure): the smallest share left, and the largest that is spent as
    declared by trainers elsewhere; and how many federations are left out."""

    left: dict[tuple[str, str, str], float]
    declared: dict[tuple[str, str, str], float]
    left_out: int


class _Kept(Generic[T]):
    """A value that is read again once it is too old: after some seconds, or after as many as keep
    reading to a share of the time. One reader at a time; others wait for it."""

    def __init__(self, read: Callable[[], T], *, share: float = 1.0) -> None:
        self._read, self._share = read, share
        self._lock = threading.Lock()
        self._value: tuple[float, T] | None = None

    def get(self) -> T:
        with self._lock:
            if self._value is None or monotonic() >= self._value[0]:
                self._value = None
                began = monotonic()
                found, now = self._read(), monotonic()
                rest = min(max(_SECONDS, (now - began) / self._share), _MOST_SECONDS)
                self._value = (now + rest, found)
            return self._value[1]


def _kept_price() -> Price:
    """`composed_epsilon`, remembered by the curve itself: most budgets are as they were a minute
    ago, and one that is not has another curve."""

    @lru_cache(maxsize=_KEPT_PRICES)
    def kept(curve: bytes, delta: float) -> float:
        return composed_epsilon(np.frombuffer(curve), delta)

    return lambda curve, delta: kept(curve.tobytes(), delta)


class StateMetrics(Collector):
    """Safe to share between threads."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._state = _Kept(self._read_state)
        self._budgets = _Kept(self._read_budgets, share=_SHARE)
        self._price = _kept_price()

    def collect(self) -> Iterator[Metric]:
        """Every figure; of a database that does not answer only that."""
        version = {"version": __version__, "python": platform.python_version()}
        yield _labelled(names.BUILD, "The version that answers.", [(version, 1)])
        try:
            schema, state = self._state.get()
            budgets = self._budgets.get() if schema.matches else None
        except SQLAlchemyError as error:
            log.warning("database away; no figures", error=type(error).__name__)
            yield GaugeMetricFamily(names.DATABASE_UP, _UP, value=0)
            return
        yield GaugeMetricFamily(names.DATABASE_UP, _UP, value=1)
        yield from _of_schema(schema)
        if state is not None:
            yield from _of_state(state)
        if budgets is not None:
            yield from _of_budgets(budgets)

    def _read_state(self) -> tuple[SchemaState, ServiceState | None]:
        schema = schema_state(self._resources.database)
        if not schema.matches:
            return schema, None
        with self._resources.database.read() as session:
            return schema, ServiceStateRepository(session).state()

    def _read_budgets(self) -> _Budgets:
        across = self._resources.settings.budgets_across
        left: dict[tuple[str, str, str], float] = {}
        declared: dict[tuple[str, str, str], float] = {}
        with self._resources.database.read() as session:
            states = ServiceStateRepository(session)
            found = states.budgeted_federations(limit=_MOST_FEDERATIONS)
            budgets = budgets_of_all(session, found, across=across, price=self._price)
            for federation_id, one in budgets:
                # A total of nothing was closed on purpose, and is not running out.
                if one.total and one.remaining is not None:
                    key = (federation_id, one.book, one.figure)
                    left[key] = min(one.remaining / one.total, left.get(key, 1.0))
                    declared[key] = max(one.declared / one.total, declared.get(key, 0.0))
            return _Budgets(left, declared, states.count_budgeted_federations() - len(found))


_UP = "Whether the database answered."


def _of_schema(schema: SchemaState) -> Iterator[Metric]:
    revisions = {"current": schema.current or "none", "needed": schema.head}
    yield _labelled(names.SCHEMA, "The schema's revision, and the one needed.", [(revisions, 1)])
    yield GaugeMetricFamily(
        names.SCHEMA_MATCHES, "Whether these are the same.", value=int(schema.matches)
    )


def _of_state(state: ServiceState) -> Iterator[Metric]:
    yield _labelled(
        names.UNITS,
        "Units of work by what they are and where they stand.",
        [({"kind": one.kind, "state": one.state}, one.units) for one in state.units],
    )
    waiting = state.oldest_waiting_seconds
    yield _labelled(
        names.OLDEST_WAITING,
        "How long the unit that has waited longest could have run; 0 where none waits.",
        [({"device": device}, waiting.get(device, 0.0)) for device in _DEVICES],
    )
    claims = CounterMetricFamily(names.CLAIMS, "Times a worker took a unit.", labels=["kind"])
    lost = CounterMetricFamily(
        names.LOST_LEASES, "Times a unit was taken from a worker that was gone.", labels=["kind"]
    )
    for kind in sorted({"run", "profile", *(one.kind for one in state.units)}):
        of_kind = [one for one in state.units if one.kind == kind]
        claims.add_metric([kind], sum(one.claims for one in of_kind))
        lost.add_metric([kind], sum(one.lost_leases for one in of_kind))
    yield claims
    yield lost
    counted = state.experiments
    yield _labelled(
        names.EXPERIMENTS,
        "Experiments by status.",
        [({"status": status}, counted.get(status, 0)) for status in _EXPERIMENT_STATUSES],
    )
    yield CounterMetricFamily(
        names.ROUNDS, "Rounds stored, of all experiments.", value=state.rounds_recorded
    )
    yield GaugeMetricFamily(names.OUTBOX, "Messages not sent yet.", value=state.outbox_messages)
    yield GaugeMetricFamily(
        names.OUTBOX_OLDEST, "Age of the oldest of them.", value=state.outbox_oldest_seconds
    )
    yield GaugeMetricFamily(
        names.ERASURE_OLDEST,
        "Age of the oldest erasure that is not done.",
        value=state.erasure_oldest_seconds,
    )
    yield GaugeMetricFamily(
        names.SWEEPER, "Whether a sweeper holds the duty.", value=int(state.sweeper_elected)
    )


def _of_budgets(budgets: _Budgets) -> Iterator[Metric]:
    yield _labelled(
        names.BUDGET_LEFT,
        "The share of a budget that is neither reserved nor spent; the smallest of its figure.",
        _shares(budgets.left),
    )
    yield _labelled(
        names.BUDGET_DECLARED,
        "The share of a budget that is spent as declared by the trainer, by trainings elsewhere; "
        "the largest of its figure.",
        _shares(budgets.declared),
    )
    yield GaugeMetricFamily(
        names.BUDGETS_LEFT_OUT,
        f"Older federations with a budget, beyond the newest {_MOST_FEDERATIONS}.",
        value=budgets.left_out,
    )


def _shares(found: dict[tuple[str, str, str], float]) -> list[tuple[dict[str, str], float]]:
    return [
        ({"federation_id": federation, "book": book, "figure": figure}, share)
        for (federation, book, figure), share in found.items()
    ]


def _labelled(name: str, words: str, rows: list[tuple[dict[str, str], float]]) -> Metric:
    family = Metric(name, words, "gauge")
    for labels, value in rows:
        family.add_sample(name, labels, value)
    return family
