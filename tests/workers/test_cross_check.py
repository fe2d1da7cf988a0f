"""A worker computes the fairness figures of a report twice before it signs it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from fedaudit.ledger.statements import Checkpoint, Envelope
from fedaudit.reports.sections import published_fairness, utility
from fedaudit.runs import report_material
from fedaudit.training.stack import Stack
from models.database import Database
from models.repositories import LedgerCheckpointRepository, ReportRepository
from tests.cli.test_local_run import miscount
from tests.training.specs import groups_spec
from tests.workers.admission import events_of, experiment_of, ran, submit
from workers import finish
from workers.claim import Lease
from workers.context import WorkerContext
from workers.run_unit import run_unit

SPEC = groups_spec(
    fairness={"sensitive": ["group"], "favourable": {"op": "ge", "value": 5}}, training__rounds=5
)


def test_a_report_that_takes_long_keeps_its_lease(database, context, monkeypatch):
    happened: list[str] = []

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **options: Any) -> Any:
            happened.append(name)
            return work(*arguments, **options)

        return done

    parts = [
        (Stack, "result"),
        (report_material, "publish_counts"),
        (utility, "method_section"),
        (published_fairness, "rate_intervals"),
        (finish, "sign_report"),
    ]
    for room, name in parts:
        monkeypatch.setattr(room, name, noted(name, getattr(room, name)))
    monkeypatch.setattr(Lease, "progressed", noted("told", Lease.progressed))
    run_unit(context, submit(database, SPEC).unit_id)
    order = [name for name in happened if name != "told"]
    assert order == ["result", "publish_counts", "method_section", "rate_intervals", "sign_report"]
    begins = [happened.index(name) for name in order]
    for name, begin, end in zip(order, begins, begins[1:], strict=False):
        assert "told" in happened[begin:end], f"nothing is told after {name}"


def test_a_report_whose_figures_do_not_follow_from_its_rows_is_never_stored(
    database: Database, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    miscount(monkeypatch)
    submitted = ran(database, context, SPEC)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "figures-disagree")
    assert re.fullmatch(
        r"selection_rate by group = g1 is \S+ in the report, and Fairlearn \S+ computes \S+ from "
        r"the rows",
        experiment.status_detail or "",
    )
    with database.read() as session:
        assert ReportRepository(session, submitted.project_id).get(submitted.id) is None
        [*_, last] = LedgerCheckpointRepository(session).envelopes(submitted.id)
    assert Checkpoint.of(Envelope.from_dict(last)).status == "failed"
    assert "gate.evaluated" not in [kind for kind, _ in events_of(database, submitted.id)]
