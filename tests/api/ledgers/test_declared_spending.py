"""Budgets, pages and metrics say what part of the spending is a trainer's word."""

import pytest

from api import metrics as names
from fedaudit.privacy.accounting.rdp import composed_epsilon
from models.repositories.epsilon_budgets import EpsilonBudgetRepository
from tests.api.budgets.test_epsilon_budgets import central, plan_of, set_total
from tests.api.ledgers.trainings import CENTRAL, declared, epsilon, opened, post
from tests.api.metrics.scrapes import scrape, value
from tests.api.pages.browser import signed_in
from tests.api.service import Api


def test_what_trainers_declare_is_told_apart_from_what_runs_here_spent(api_on_both: Api) -> None:
    api = api_on_both
    run = central(noise="release")
    experiment = api.submit(run)
    federation = experiment["federation_id"]
    with api.database.write() as session:
        spent = EpsilonBudgetRepository(session, api.project_id)
        rounds = {"final_model": plan_of(run).steps}
        assert spent.draw(experiment["id"], rounds, price=composed_epsilon)
    before = set_total(api, federation, 100.0, book="release")
    assert (before["declared"], before["spent"] > 0) == (0.0, True)
    assert "as declared by the trainer" not in signed_in(api).get(f"/federations/{federation}").text

    ledger = opened(api, CENTRAL, federation_id=federation, adjacency="replace-one")
    post(api, ledger, declared(1, ["a"]))
    [found] = [
        one
        for one in api.get(f"/v1/federations/{federation}/budget").json()["items"]
        if (one["book"], one["observer"]) == ("release", "final_model")
    ]
    # The epsilons are composed, and so come to less than their sum.
    assert found["declared"] == pytest.approx(epsilon(api, ledger), rel=1e-9)
    assert max(before["spent"], found["declared"]) < found["spent"]
    assert found["spent"] < before["spent"] + found["declared"]
    assert "as declared by the trainer" in signed_in(api).get(f"/federations/{federation}").text
    labels = {"federation_id": federation, "book": "release", "figure": "epsilon"}
    share = value(scrape(api), names.BUDGET_DECLARED, **labels)
    assert share == pytest.approx(found["declared"] / 100.0)
