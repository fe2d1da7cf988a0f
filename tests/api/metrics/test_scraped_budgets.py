"""The budgets that a scrape reads all at once are those that each federation has by itself."""

from fedaudit.privacy.accounting.rdp import composed_epsilon
from models.repositories import Budgets
from models.repositories.service import ServiceStateRepository
from models.repositories.shown_budgets import budgets_of_all
from models.values import Budget
from tests.api.budgets.test_shared_budgets import (
    BY_CLIENT,
    BY_TOWN,
    EPSILON,
    LEAKAGE,
    Project,
    local,
    metric,
)
from tests.api.ledgers.test_ledger_leakage import EVENT, TERMS
from tests.api.ledgers.trainings import LOCAL, declared, opened, post, reserve
from tests.api.service import Api, finish


def test_read_at_once_they_are_as_each_by_itself(api_on_both: Api) -> None:
    api = api_on_both
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    for project, value in ((owner, local(BY_CLIENT)), (other, metric())):
        assert project.submit(value).status_code == 202
    finish(api, api.submit(metric(seed=2))["id"])
    assert owner.submit(local(BY_TOWN)).status_code == 202
    own = api.submit()["federation_id"]
    for terms, event in ((TERMS, EVENT), (LOCAL, {"kind": "gaussian", "noise_multiplier": 8.0})):
        ledger = opened(api, terms, federation_id=own)
        post(api, ledger, declared(1, ["a"], event))
        assert reserve(api, ledger, 2, ["a"], event)["reserved"]
    owner.put(**EPSILON, total=50)
    other.put(**EPSILON, total=40)
    other.put(**LEAKAGE, total=30)
    with api.database.read() as session:
        found = ServiceStateRepository(session).budgeted_federations(limit=200)
        assert len(found) == 2
        found.append((api.project_id, own))
        together: list[tuple[str, Budget]] = list(
            budgets_of_all(session, found, across="service", price=composed_epsilon)
        )
    with api.database.read() as session:
        apart = [
            (federation_id, budget)
            for project_id, federation_id in found
            for budget in Budgets(session, project_id, price=composed_epsilon).composed_budgets(
                federation_id
            )
        ]
    assert together == apart
    assert {one.figure for _, one in apart} == {"epsilon", "leakage", "log_ratio"}
    assert any(one.declared and one.reserved for _, one in apart)
