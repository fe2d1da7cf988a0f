"""Records by their budgets: what a report may tell of them, and what it keeps back."""

from dataclasses import replace

import numpy as np
import pytest

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_use import enclosing, record_use
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.epsilon import records_section
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC
from tests.spec.documents import BY_RECORD

SIZE = 30


def material_of(material, budgets, *, column=True, **privacy):
    """A run over records with these budgets, given in a column or as if they were drawn."""
    table = {"source": "table", "path": "people.csv", "client_key": "town", "target": "income"}
    origin = {"column": "budget"} if column else {"distribution": "three-levels"}
    parts = {
        "federation": {**table, "validation_unit": "record"},
        "training": {
            "loss": "mse",
            "rounds": 6,
            "cohort": {"sampling": "poisson", "rate": 0.5},
            "local": {"steps": 5, "batch_size": 8},
        },
        "privacy": {**BY_RECORD, "budgets": origin, **privacy},
        "fairness": {**SPEC["fairness"], "minimum_group_size": SIZE},
        "gates": [],
    }
    spec = parse_spec({**SPEC, **parts})
    client_of = np.zeros(len(budgets), np.int64)
    use = record_use(spec, budgets=np.array(budgets), client_of=client_of, clients=1)
    plan = mechanism_of(spec).spending_plan(training_clients=60, names=["town"], records=use)
    found = material(parts, plan=plan, compositions={"final_model": 6, "server": 6})
    return replace(found, federation=replace(found.federation, training_clients=60))


def section(material, budgets, **options):
    made = material_of(material, budgets, **options)
    return records_section(made, made.plan.records)


def test_the_calibrated_noise_is_stated_where_public_numbers_set_it(material):
    made = material_of(material, [0.5] * 100 + [5.0] * 60)
    report = assemble(made)
    (noise,) = {run.noise_multiplier for run in made.plan.records.use.runs}
    assert report["privacy"]["noise_multiplier"] == noise > 0
    assert "noise_multiplier" not in report["privacy"]["reasons"]


def test_noise_that_follows_from_the_data_is_kept_back(material):
    """That of `strong-for-all` would tell the smallest budget, a cell of the data."""
    for baseline in ("strong-for-all", "uniform", "dropout"):
        found = assemble(material_of(material, [0.5] * 100 + [5.0] * 60, baseline=baseline))
        assert found["privacy"]["noise_multiplier"] is None
        assert "follows from the data" in found["privacy"]["reasons"]["noise_multiplier"]


def test_a_small_group_shows_round_numbers_in_place_of_its_budget(material):
    found = section(material, [0.5] * 100 + [1.0] * 60 + [3.7] * 3)
    half, one, rare = found.groups
    assert (half.budget_low, half.records) == (0.5, 100)
    assert (rare.budget_low, rare.budget_high) == (2.0, 5.0)
    assert (rare.records, rare.epsilon_max, rare.budget_used_share) == (None, None, None)
    assert set(rare.reasons) == {"records", "epsilon_max", "budget_used_share"}
    # The next smallest keeps its number, or the total would tell the other's, and its figures.
    assert (one.budget_high, one.records) == (1.0, None)
    assert 0.99 < one.budget_used_share <= 1
    assert "3.7" not in str(found.model_dump())


def test_drawn_budgets_are_public(material):
    *_, rare = section(material, [0.1] * 100 + [1.0] * 60 + [5.0] * 3, column=False).groups
    assert (rare.budget_low, rare.budget_high, rare.records) == (5.0, 5.0, None)
    assert 0.99 < rare.budget_used_share <= 1


def test_the_records_that_were_left_out_are_a_group_too(material):
    """Budgets of 1e-4 are below what the accountant can show, so these records take no part."""
    few = section(material, [0.5] * 100 + [1e-4] * 3)
    assert few.left_out is None
    assert "fewer than 30" in few.reasons["left_out"]
    assert few.groups[0].records is None
    many = section(material, [0.5] * 100 + [1e-4] * 40)
    assert (many.left_out, many.groups[0].records, many.reasons) == (40, 100, {})
    # 5 would follow from the total and the 100.
    beside = section(material, [0.5] * 5 + [1e-4] * 100)
    assert (beside.left_out, beside.groups[0].records) == (None, None)
    assert section(material, [0.5] * 100).left_out == 0


@pytest.mark.parametrize(
    ("budgets", "stated"),
    [
        ([0.5] * 40 + [8.0] * 60, 40),
        ([0.5] * 5 + [8.0] * 60, None),  # a small number
        ([0.5] * 60 + [8.0] * 5, None),  # all but a small number
        ([0.5] * 40 + [6.0] * 5 + [8.0] * 60, None),  # would tell those of a hidden group
        ([8.0] * 5 + [9.0] * 60, 0),
    ],
)
def test_how_many_passed_their_budgets_reveals_no_small_number(material, budgets, stated):
    found = section(material, budgets, baseline="uniform", uniform_epsilon=2.0)
    assert found.overspent == stated
    assert ("overspent" in found.reasons) == (stated is None)


@pytest.mark.parametrize("small", [3, 40])
def test_limits_and_page_reveal_no_more_than_the_section(material, small):
    made = material_of(
        material, [0.5] * small + [8.0] * 60, baseline="uniform", uniform_epsilon=2.0
    )
    report = assemble(made)
    sentence = " records spent more than their own budgets allow."
    assert ("Some" + sentence in report["limits"]) == (small == 3)
    assert (f"{small}{sentence}" in report["limits"]) == (small == 40)
    page = render(report)
    assert ("some exceeded their budgets" in page) == (small == 3)
    assert ("40 exceeded their budgets" in page) == (small == 40)


def test_reports_of_before_are_shown_as_they_were_stored(material):
    report = assemble(material_of(material, [0.5] * 100 + [1e-4] * 40))
    assert "Noise multiplier" in render(report)
    del report["privacy"]["noise_multiplier"], report["privacy"]["records"]["reasons"]
    page = render(report)
    assert "Noise multiplier" not in page
    assert "40 were never sampled" in page


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (3.7, 3.7, (2.0, 5.0)),
        (5.0, 5.0, (2.0, 5.0)),
        (2.0, 5.0, (2.0, 5.0)),
        (0.001, 0.001, (5e-4, 1e-3)),
        (1.0, 10.0, (1.0, 10.0)),
        (0.1, 0.1, (0.05, 0.1)),
    ],
)
def test_round_numbers_around_budgets(low, high, expected):
    assert enclosing(low, high) == expected
