"""The state of the service, read from the database: every API process answers the same.

Labels are ids and words of fixed vocabularies. Names of projects, federations and experiments
belong to their owners and do not appear.
"""

import platform
import threading
from collections.abc import Callable, Iterable, Iterator
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

from api.http.observation import NAME
from api.shared.resources import Resources
from fedaudit.privacy.accounting.rdp import composed_epsilon
from fedaudit.version import __version__
from models.repositories import ServiceStateRepository
from models.repositories.service import ServiceState
from models.repositories.shown_budgets import budgets_of_all
from models.schema import SchemaState, schema_state

log = structlog.get_logger()

T = TypeVar("T")
Shares = dict[tuple[str, str, str], float]
"""By federation, book and figure."""

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
BUDGET_LEFT = "fedaudit_budget_remaining_ratio"
BUDGET_DECLARED = "fedaudit_budget_declared_ratio"
BUDGETS_LEFT_OUT = "fedaudit_budget_federations_left_out"
REQUESTS = NAME

_SECONDS = 3.0
"""Shorter than any sensible interval of scrapes. Otherwise a process that answers from memory could
show less than another did before, and a counter that falls is taken for one that began anew."""
_SHARE = 0.02
"""Of the time, for reading budgets. What is kept may show room that was taken meanwhile, so it is
kept no longer than reading it is worth."""
_MOST_SECONDS = 60.0
_MOST_FEDERATIONS = 200
_KEPT_PRICES = 4096
_EXPERIMENT_STATUSES = ("queued", "running", "cancelling", "cancelled", "succeeded", "failed")


@dataclass(frozen=True)
class _Budgets:
    left: Shares
    """The smallest share left."""
    declared: Shares
    """The largest share that is spent as declared by trainers elsewhere."""
    left_out: int
    """Federations that are left out."""


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


class StateMetrics(Collector):
    """Safe to share between threads."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._state = _Kept(self._read_state)
        self._budgets = _Kept(self._read_budgets, share=_SHARE)
        # Remembered by the curve: most budgets are as they were a minute ago, and one that is not
        # has another curve.
        self._price = lru_cache(maxsize=_KEPT_PRICES)(
            lambda curve, delta: composed_epsilon(np.frombuffer(curve), delta)
        )

    def collect(self) -> Iterator[Metric]:
        """Every figure; of a database that does not answer only that."""
        version = {"version": __version__, "python": platform.python_version()}
        yield _labelled(BUILD, "The version that answers.", [(version, 1)])
        try:
            schema, state = self._state.get()
            budgets = self._budgets.get() if schema.matches else None
        except SQLAlchemyError as error:
            log.warning("database away; no figures", error=type(error).__name__)
            schema, state, budgets = None, None, None
        yield _gauge(DATABASE_UP, "Whether the database answered.", schema is not None)
        if schema is not None:
            revisions = {"current": schema.current or "none", "needed": schema.head}
            words = "The schema's revision, and the one needed."
            yield _labelled(SCHEMA, words, [(revisions, 1)])
            yield _gauge(SCHEMA_MATCHES, "Whether these are the same.", schema.matches)
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
        left: Shares = {}
        declared: Shares = {}
        with self._resources.database.read() as session:
            states = ServiceStateRepository(session)
            found = states.budgeted_federations(limit=_MOST_FEDERATIONS)
            budgets = budgets_of_all(
                session,
                found,
                across=self._resources.settings.budgets_across,
                price=lambda curve, delta: self._price(curve.tobytes(), delta),
            )
            for federation_id, one in budgets:
                # A total of zero was closed on purpose, and is not running out.
                if one.total and one.remaining is not None:
                    key = (federation_id, one.book, one.figure)
                    left[key] = min(one.remaining / one.total, left.get(key, 1.0))
                    declared[key] = max(one.declared / one.total, declared.get(key, 0.0))
            return _Budgets(left, declared, states.count_budgeted_federations() - len(found))


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


def _of_budgets(budgets: _Budgets) -> Iterator[Metric]:
    yield _labelled(
        BUDGET_LEFT,
        "The share of a budget that is neither reserved nor spent; the smallest of its figure.",
        _shares(budgets.left),
    )
    yield _labelled(
        BUDGET_DECLARED,
        "The share of a budget that is spent as declared by the trainer, by trainings elsewhere; "
        "the largest of its figure.",
        _shares(budgets.declared),
    )
    words = f"Older federations with a budget, beyond the newest {_MOST_FEDERATIONS}."
    yield _gauge(BUDGETS_LEFT_OUT, words, budgets.left_out)


def _shares(found: Shares) -> Iterator[tuple[dict[str, str], float]]:
    for (federation, book, figure), share in found.items():
        yield {"federation_id": federation, "book": book, "figure": figure}, share


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _labelled(name: str, words: str, rows: Iterable[tuple[dict[str, str], float]]) -> Metric:
    family = Metric(name, words, "gauge")
    for labels, value in rows:
        family.add_sample(name, labels, value)
    return family
