"""Experiments of one project, from queued to ended."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from operator import eq, ge, le
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, update

from fedaudit.privacy.leakage import leakage
from models.person import Actor
from models.repositories.base import RowRepository, gathered_writes, ordered, page_of, table_of
from models.repositories.budgets.budgets import SUMS, Budgets
from models.repositories.budgets.counting import REPORT, counts_report
from models.repositories.experiment_parts import EventRepository
from models.repositories.ledger import LedgerRepository
from models.repositories.reports import OF_EXPERIMENTS, Condition, filtered, has_epsilon
from models.repositories.units import UnitRepository
from models.repositories.webhooks import AnnouncementRepository
from models.tables.experiments import Experiment, ExperimentTag
from models.values import ENDED, OPEN, Bound, Cursor, Page, utc_now

_BY_ID = select(Experiment).where(
    Experiment.project_id == bindparam("project_id"), Experiment.id == bindparam("id")
)

_columns = table_of(Experiment).c
_OF_PROJECT = select(*_columns).where(_columns.project_id == bindparam("project_id"))
_SIDES = {"lte": le, "gte": ge}


class ExperimentRepository(RowRepository[Experiment]):
    """A project's experiments. `add`, `start_each`, `request_cancel` and `conclude` append the
    event `status.changed`."""

    _table = Experiment

    def add(self, *, tags: Sequence[str] = (), **columns: Any) -> Experiment:
        """Queues an experiment with these columns and tags, and its first event."""
        begun = {"status": "queued", "rounds_done": 0, "event_sequence": 1}
        values = {**columns, **begun, "project_id": self.project_id, "created_at": utc_now()}
        self._insert(Experiment, [values])
        experiment = Experiment(**values)
        owner = {"experiment_id": experiment.id, "project_id": self.project_id}
        self._insert(ExperimentTag, [{**owner, "tag": tag} for tag in dict.fromkeys(tags)])
        queued = ("status.changed", {"status": "queued", "status_reason": None})
        EventRepository(self.session, self.project_id).insert(experiment.id, [queued], first=1)
        return experiment

    def get(self, id: str) -> Experiment | None:
        """The experiment as it is now; None where the project has no such one."""
        return self._one(_BY_ID, project_id=self.project_id, id=id)

    def existing(self, id: str) -> Experiment:
        """The same. Raises LookupError where the project has no such one."""
        if (found := self.get(id)) is None:
            raise LookupError(f"no experiment {id}")
        return found

    def list(
        self,
        filters: Mapping[str, Any] | None = None,
        *,
        bounds: Sequence[Bound] = (),
        cursor: Cursor | None = None,
        limit: int = 50,
        sort: str = "-created_at",
    ) -> Page[Experiment]:
        """One page, by columns; `filters`: of `FILTERS`, all of which must hold; `cursor`: the
        previous page's `next_cursor`, same sort. Raises ValueError for an unknown sort."""
        statement = filtered(_OF_PROJECT, filters or {}, _CONDITIONS)
        within = (_SIDES[side](_columns[name], bound) for name, side, bound in bounds)
        statement = statement.where(*within)
        descending, key = sort.startswith("-"), sort.removeprefix("-")
        if key not in SORT_KEYS:
            raise ValueError(f"sort: {key!r} is unknown; use one of {', '.join(SORT_KEYS)}")
        # Ids rise with the time of creation, and are unique and indexed.
        column = _columns["id" if key == "created_at" else key]
        names = ("id",) if column is _columns.id else (column.key, "id")
        paged = ordered(statement, column, _columns.id, descending=descending, cursor=cursor)
        items = list(self._rows(paged.limit(limit + 1), project_id=self.project_id))
        return page_of(items, limit, lambda last: tuple(getattr(last, name) for name in names))

    def of_unit(self, unit_id: str) -> "Sequence[Experiment]":
        """A unit's experiments by position."""
        mine = self._select(Experiment).where(Experiment.unit_id == unit_id)
        return self._all(mine.order_by(Experiment.unit_position))

    def start_each(self, ids: Collection[str]) -> set[str]:
        """queued -> running, by a few statements; returns those that were queued. A run taken up
        again keeps its start."""
        queued = (Experiment.id.in_(ids), self._own(Experiment), Experiment.status == "queued")
        started = update(Experiment).values(status="running", started_at=utc_now()).where(*queued)
        begun = set(self._returned(started, Experiment.id).scalars())
        event = ("status.changed", {"status": "running", "status_reason": None})
        with gathered_writes(self.session):
            events = EventRepository(self.session, self.project_id)
            events.append_each({id_: [event] for id_ in sorted(begun)})
        return begun

    def withhold(self, ids: Collection[str], attributes: Sequence[str]) -> None:
        """Notes the attributes of which experiments report nothing; none is a decision too."""
        mine = (Experiment.id.in_(ids), self._own(Experiment))
        self._set(Experiment, *mine, withheld_attributes=list(attributes))

    def progress_each(self, rounds_done: Mapping[str, int]) -> set[str]:
        """Records the rounds done by id, in each flush, one statement for all that have come as
        far; returns those whose callers have asked for an end. Raises LookupError for an unknown
        id."""
        found: dict[str, str] = {}
        for done in set(rounds_done.values()):
            ids = [id_ for id_, own in rounds_done.items() if own == done]
            mine = update(Experiment).where(Experiment.id.in_(ids), self._own(Experiment))
            changed = mine.values(rounds_done=done).returning(Experiment.id, Experiment.status)
            found |= {row.id: row.status for row in self._rows(changed)}
        if missing := rounds_done.keys() - found.keys():
            raise LookupError(f"this project has no experiment {', '.join(sorted(missing))}")
        return {id_ for id_, status in found.items() if status == "cancelling"}

    def request_cancel(self, *ids: str, cancelled_by: Actor | None = None) -> None:
        """Cancels those that have not ended, nor were asked before: at once where no worker has
        them, otherwise `cancelling` until the worker stops. Those that wait and never started, as a
        rule nearly all of many, end by a few statements, whatever their number."""
        asked = self._select(Experiment).where(Experiment.id.in_(ids)).order_by(Experiment.id)
        unit_ids = asked.order_by(None).with_only_columns(Experiment.unit_id).distinct()
        units = UnitRepository(self.session)
        waiting = units.hold_waiting(list(self.session.scalars(unit_ids)))
        by: dict[str, Any] = {"cancel_requested_at": utc_now()}
        by |= {"cancelled_by": None if cancelled_by is None else vars(cancelled_by)}
        fresh = asked.where(Experiment.status == "queued", Experiment.unit_id.in_(waiting))
        self._end_unstarted([one.id for one in self._all(fresh.with_for_update())], **by)
        goes_on = ("queued", "running")
        for one in self._all(asked.where(Experiment.status.in_(goes_on))):
            if one.unit_id in waiting:
                self.conclude(one.id, status="cancelled", reason="cancelled-by-caller")
                self._update(one.id, **by)
            else:
                self._change(one.id, goes_on, status="cancelling", **by)
        units.withdraw_emptied(waiting)

    def _end_unstarted(self, ids: Sequence[str], **by: Any) -> None:
        """Cancels queued experiments that no worker can claim, and gives back what they reserved:
        without a round nothing was spent."""
        if not ids:
            return
        Budgets(self.session, self.project_id).give_back(ids)
        status, reason = "cancelled", "cancelled-by-caller"
        ended = {"status": status, "status_reason": reason, "finished_at": utc_now()}
        self._set(Experiment, Experiment.id.in_(ids), **ended, **by)
        event = ("status.changed", {"status": status, "status_reason": reason})
        with gathered_writes(self.session):
            events = EventRepository(self.session, self.project_id)
            events.append_each({id_: [event] for id_ in ids})
        announcements = AnnouncementRepository(self.session, self.project_id)
        announcements.experiments_ended(*ids, status=status, reason=reason, gate_outcome=None)

    def conclude(
        self,
        id: str,
        *,
        status: str,
        reason: str | None = None,
        detail: str | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> bool:
        """Ends an experiment as `succeeded`, `failed` or `cancelled`; False if it has ended.
        Settles its reservations by the ledger, with open intents counted as spent. `figures`: the
        columns by which it is found, by their names."""
        experiment = self.get(id)
        if experiment is None or experiment.status in ENDED:
            return False
        self._settle(experiment)
        found = figures or {}
        ended = {"status_reason": reason, "status_detail": detail, "finished_at": utc_now()}
        changed = self._change(id, OPEN, status=status, **ended, **found)
        if changed:
            outcome, alarms = found.get("gate_outcome"), found.get("alarms")
            announced = AnnouncementRepository(self.session, self.project_id)
            announced.experiments_ended(id, status=status, reason=reason, gate_outcome=outcome)
            announced.gates_judged(id, gate_outcome=outcome)
            if alarms:
                announced.alarm_raised(id, alarms=alarms)
        return changed

    def fail(self, id: str, *, reason: str, detail: str | None = None) -> bool:
        """Ends it as cancelled where that was asked for, else as failed; False if it has ended."""
        experiment = self.get(id)
        if experiment is not None and experiment.status == "cancelling":
            return self.conclude(id, status="cancelled", reason="cancelled-by-caller")
        return self.conclude(id, status="failed", reason=reason, detail=detail)

    def judge_later(self, id: str, *, raised: int, figures: Mapping[str, Any]) -> None:
        """Records how an ended experiment is judged after more attacks, and notifies webhooks.
        `raised`: alarms by these attacks."""
        before, alarms, gate_outcome = self.get(id), figures["alarms"] or 0, figures["gate_outcome"]
        self._update(id, alarms=alarms, gate_outcome=gate_outcome, answer=figures["answer"])
        announcements = AnnouncementRepository(self.session, self.project_id)
        if raised:
            announcements.alarm_raised(id, alarms=alarms)
        if before is not None and gate_outcome != before.gate_outcome:
            announcements.gates_judged(id, gate_outcome=gate_outcome)

    def _settle(self, experiment: Experiment) -> None:
        ledger, budgets = LedgerRepository(self.session), Budgets(self.session, self.project_id)
        of_all = budgets.held(experiment.id, *SUMS, "epsilon")
        if any(one.figure in SUMS for one in of_all):
            nu = experiment.noise_multiplier
            assert nu is not None  # no sum is reserved without one
            [releases] = ledger.charged_releases(experiment.id)
            spent = leakage(releases, n=experiment.parameters, noise_multiplier=nu)
            budgets.settle(of_all, spent=spent, releases=releases)
        held = sorted(one.observer for one in of_all if one.figure == "epsilon")
        observers = [observer for observer in held if not counts_report(observer)]
        counted: dict[str, int] = {}
        if observers:
            charged = ledger.charged_releases(experiment.id, observers=len(observers))
            # Of cohorts by blocks a block of rounds is one event.
            block = experiment.spec["training"]["cohort"].get("every", 1)
            counted = dict(zip(observers, (-(-one // block) for one in charged), strict=True))
        if len(observers) < len(held):
            counted[REPORT] = ledger.count(experiment.id, observer=REPORT)
        budgets.settle_epsilon(of_all, counted)

    def _change(self, id: str, expected: tuple[str, ...], **values: Any) -> bool:
        """A change of status from one of the expected ones, with its event."""
        values["event_sequence"] = Experiment.event_sequence + 1
        mine = (Experiment.id == id, self._own(Experiment), Experiment.status.in_(expected))
        changing = update(Experiment).where(*mine).values(values)
        changed = self._rows(changing.returning(Experiment.event_sequence))
        for row in changed:
            event = {"status": values["status"], "status_reason": values.get("status_reason")}
            events = EventRepository(self.session, self.project_id)
            events.insert(id, [("status.changed", event)], first=row.event_sequence)
        return bool(changed)


FIGURES = (
    *("leakage_max", "leakage_median", "log_ratio_max", "epsilon_max"),
    *("validation_loss", "accuracy", "demographic_parity_difference"),
    *("equalized_odds_difference", "equal_opportunity_difference"),
)
"""Final figures that a bound may name."""

SORT_KEYS = ("created_at", "name", "started_at", "finished_at", *FIGURES)
"""What a list may be sorted by; with a minus in front, downwards."""


def _has_alarm(raised: bool) -> ColumnElement[bool]:
    """Whether some attack raised an alarm; False also where none was made."""
    some = func.coalesce(Experiment.alarms, 0) > 0
    return some if raised else ~some


_CONDITIONS: dict[str, Condition] = {
    **OF_EXPERIMENTS,
    "status": partial(eq, _columns.status),
    "delta": partial(eq, _columns.delta),
    "adjacency": lambda adjacency: has_epsilon(_columns.id, adjacency=adjacency),
    "alarm": _has_alarm,
}
FILTERS = tuple(_CONDITIONS)
"""What a list may be filtered by, beside bounds."""
