"""A worker keeps its lease while it makes a report."""

from collections.abc import Callable
from typing import Any

from fedaudit.reports.sections import published_fairness, utility
from fedaudit.runs import report_material
from fedaudit.training.stack import Stack
from tests.training.specs import groups_spec
from tests.workers.admission import submit
from workers import finish
from workers.claim import Lease
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
