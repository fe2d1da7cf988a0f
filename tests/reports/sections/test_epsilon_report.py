"""Reports of mechanisms with an epsilon: figures, limits, verdict, gates, page and records."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_use import drawn_budgets, enclosing, record_use
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.epsilon import planned, records_section
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC
from tests.reports.gates.test_gate_evaluation import judged
from tests.spec.documents import BY_RECORD, POISSON, gaussian

TRAINING = {"loss": "mse", "rounds": 50}
RECORDS = (40, 30, 20)
SPECS = {
    "central": {
        "training": {**TRAINING, "cohort": POISSON},
        "privacy": gaussian("central", 1.1),
        "gates": [{"figure": "epsilon_max", "op": "le", "value": 100}],
    },
    "local": {
        "training": {**TRAINING, "cohort": {"clients": 7}},
        "privacy": gaussian("local", 8),
        "gates": [{"figure": "leakage_max", "op": "le", "value": 4}],
    },
    "records": {
        "federation": {**SPEC["federation"], "validation_unit": "record"},
        "training": {
            "loss": "mse",
            "rounds": 6,
            "cohort": POISSON,
            "local": {"steps": 5, "batch_size": 8},
        },
        "privacy": BY_RECORD,
        "gates": [],
    },
}


def with_plan(material, name, **privacy):
    """The material of a finished run, and its plan."""
    parts = SPECS[name]
    parts = {**parts, "privacy": {**parts["privacy"], **privacy}}
    spec = parse_spec({**SPEC, **parts})
    use = None
    if name == "records":
        client_of = np.repeat(np.arange(3), RECORDS)
        budgets = drawn_budgets(spec, keys=np.arange(sum(RECORDS), dtype=np.uint64))
        use = record_use(spec, budgets=budgets, client_of=client_of, clients=len(RECORDS))
    names = [f"client {number}" for number in range(60)]
    plan = mechanism_of(spec).spending_plan(training_clients=30, names=names, records=use)
    releases = np.where(np.arange(60) < 30, np.arange(60) % 5, 0).astype(np.int32)
    compositions = {
        "central": {"final_model": 41},
        "local": {"server": releases},
        "records": {"final_model": 6, "server": 3},
    }[name]
    made = material(parts, plan=plan, compositions=compositions, releases=releases)
    if name == "records":  # rows are held out, so every client trains
        made = replace(made, federation=replace(made.federation, training_clients=60))
    return made, plan


def test_the_cost_begins_with_who_is_protected_and_then_against_whom_not(material):
    found = with_plan(material, "central", noise="release", noise_multiplier=6.0)[0]
    cost = assemble(found)["verdict_parts"]["cost"]
    assert cost.startswith("Protected: a client, which spent at most an epsilon of ")
    assert ". Not protected: against the server, which sees every update" in cost
    assert cost.index("Not protected") < cost.index("That is a gain")
    simulated = assemble(with_plan(material, "central")[0])["verdict_parts"]["cost"]
    assert simulated.startswith("A client spent at most an epsilon of ")


@pytest.mark.parametrize(
    ("name", "spent", "most"),
    [
        ("central", {"final_model": 41}, 41),
        ("local", {"server": 4}, 4),  # by the busiest client
        ("records", {"final_model": 6, "server": 3}, 3),
    ],
)
def test_the_figure_is_the_largest_over_observers(material, name, spent, most):
    found, plan = with_plan(material, name)
    privacy = assemble(found)["privacy"]
    values = {one["observer"]: one["value"] for one in privacy["epsilon"]}
    assert values == {one: plan.largest(one, times) for one, times in spent.items()}
    assert privacy["epsilon_max"] == max(values.values())
    assert privacy["participations_max"] == most


def test_everyone_pays_for_the_rounds_that_were_played(material):
    found, plan = with_plan(material, "central")
    report = assemble(found)
    meaning = {"observer": "final_model", "delta": 1e-5, "adjacency": "add-or-remove-one"}
    value = plan.line("final_model").epsilons[41]
    assert report["privacy"]["epsilon"] == [{**meaning, "accountant": "rdp", "value": value}]
    assert report["guarantee"]["observers"] == ["final_model"]
    assert "under zero-out (add-or-remove-one)" in report["verdict"]
    assert "against the server, which sees every update" in report["verdict"]
    simulated, proven = (report["verdict"].index(one) for one in ("simulated", "rests on theorems"))
    assert simulated < proven
    assert "Rounds charged to everyone" in render(report)
    assert "Participations, most" not in render(report)
    stated = f"epsilon = {at_most(value)} against those who see the models"
    assert stated in report["guarantee"]["statement"]


def test_records_are_listed_by_their_budgets_and_small_groups_without_their_number(material):
    found, plan = with_plan(material, "records")
    records = assemble(found)["privacy"]["records"]
    assert (records["left_out"], records["overspent"]) == (0, 0)
    assert [one["budget_high"] for one in records["groups"]] == [0.1, 1.0, 5.0]
    sizes = np.bincount(plan.records.group_of)
    assert sizes.min() < 30  # the smallest group that is disclosed by default
    for one, size in zip(records["groups"], sizes.tolist(), strict=True):
        assert one["records"] is None or one["records"] == size >= 30
        assert (one["records"] is None) == ("records" in one["reasons"])
        assert 0.99 < one["budget_used_share"] <= 1
    assert None in [one["records"] for one in records["groups"]]


def test_a_baseline_without_noise_reports_no_figure_of_privacy(material):
    parts = SPECS["records"]
    free = {**parts["privacy"], "baseline": "privacy-free"}
    report = assemble(material({**parts, "privacy": free}))
    assert report["guarantee"]["kind"] == "none"
    assert report["privacy"]["epsilon_max"] is None
    assert "without noise" in report["privacy"]["reasons"]["epsilon_max"]
    assert "There is no privacy guarantee" in report["verdict"]


LIMITS = {
    "central": ["The server is trusted", "noised sums of a round", "simulated"],
    "local": ["64 random bits"],
    "records": [
        *("drawn from the distribution three-levels", "the client that took part most"),
        *("added up in double", "the rows held out of every client"),
    ],
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_are_those_of_the_mechanism(material, name):
    stated = " ".join(assemble(with_plan(material, name)[0])["limits"])
    for part in [*LIMITS[name], "1 updates were withheld", "exp(epsilon), plus delta"]:
        assert part in stated
    assert ("trusted" in stated) == (name == "central")


def test_a_delta_that_allows_one_of_the_clients_to_be_given_away_is_a_limit(material):
    for delta, warned in ((1 / 30, True), (1 / 31, False)):
        stated = " ".join(assemble(with_plan(material, "central", delta=delta)[0])["limits"])
        assert ("is not below one in the 30 clients" in stated) == warned
    stated = " ".join(assemble(with_plan(material, "records", delta=0.02)[0])["limits"])
    assert "is not below one in the 90 training records" in stated


OVERSPENT = "Some records spent more than their own budgets allow."


@pytest.mark.parametrize("baseline", [None, "uniform"])
def test_records_that_passed_their_budgets_are_a_limit(material, baseline):
    report = assemble(with_plan(material, "records", baseline=baseline)[0])
    passed = baseline == "uniform"
    # Their number is kept back: the smallest group's would follow from it.
    assert report["privacy"]["records"]["overspent"] == (None if passed else 0)
    assert (OVERSPENT in report["limits"]) == passed


def test_a_gate_on_epsilon_says_for_which_delta_and_neighbours(material):
    report = assemble(with_plan(material, "central", noise="release")[0])
    assert report["gate_outcome"] == "pass"
    found = judged(report, figure="epsilon_max")
    assert found["outcome"] == "pass"
    assert "at delta = 1e-05 under add-or-remove-one" in found["reason"]
    assert judged(report, figure="epsilon_max", value=0.1)["outcome"] == "fail"
    fitted = assemble(with_plan(material, "records", inversion="curve-fit", noise="release")[0])
    assert fitted["guarantee"]["kind"] == "heuristic"
    assert "rests on no theorem as a whole" in fitted["verdict"]
    assert OVERSPENT in fitted["limits"]
    found = judged(fitted, figure="epsilon_max")
    assert found["outcome"] == "insufficient_evidence"
    assert "use exact rates without a baseline" in found["reason"]
    assert judged(fitted, figure="epsilon_max", allow_heuristic=True)["outcome"] == "pass"


@pytest.mark.parametrize("name", SPECS)
def test_the_page_shows_epsilon_for_every_observer(material, name):
    report = assemble(with_plan(material, name)[0])
    page = render(report)
    for one in report["privacy"]["epsilon"]:
        assert f"at delta = {one['delta']} under {adjacency_words(one['adjacency'])}" in page
        assert f"{one['value']:.4g}" in page
    assert ("Records by their own budgets" in page) == (name == "records")
    assert ("held-out rows of every client" in page) == (name == "records")


@pytest.mark.parametrize("ending", ["patience", "diverged"])
@pytest.mark.parametrize("name", ["central", "local"])
def test_a_run_that_its_losses_ended_is_proven_for_all_planned_rounds_only(material, name, ending):
    found, plan = with_plan(material, name)
    [observer] = plan.observers
    found = replace(found, result=replace(found.result, stopped_by=ending))
    [early] = planned(found)
    most = int(np.max(found.compositions[observer])) + 9
    assert early.value == plan.largest(observer, most) > plan.largest(observer, most - 9)
    report = assemble(found)
    assert "the larger epsilon of all rounds that were planned" in report["verdict"]
    statement = report["guarantee"]["statement"]
    assert f"all rounds that were planned: epsilon = {at_most(early.value)}" in statement
    assert planned(replace(found, result=replace(found.result, stopped_by="rounds"))) == ()


def test_what_was_planned_stays_within_the_budget_of_the_run(material):
    found, plan = with_plan(material, "central", epsilon_budget=9.0)
    within = plan.steps_within("final_model", 9.0)
    played = {"final_model": within - 1}
    [early] = planned(replace(found, compositions=played))
    assert early.value == plan.largest("final_model", within) <= 9.0


def test_the_verdict_never_states_less_than_was_spent(material):
    found, plan = with_plan(material, "central")
    for rounds in range(1, 20, 4):
        report = assemble(replace(found, compositions={"final_model": rounds}))
        stated = re.search(r"at most an epsilon of ([0-9.]+) against", report["verdict"])
        assert float(stated[1]) >= plan.largest("final_model", rounds)


# -- records by their budgets: what a report may tell of them, and what it keeps back -------------


def material_of(material, budgets, *, column=True, **privacy):
    """A run over records with these budgets, given in a column or as if they were drawn."""
    table = {"source": "table", "path": "people.csv", "client_key": "town", "target": "income"}
    origin = {"column": "budget"} if column else {"distribution": "three-levels"}
    parts = {**SPECS["records"], "federation": {**table, "validation_unit": "record"}}
    parts["privacy"] = {**BY_RECORD, "budgets": origin, **privacy}
    spec = parse_spec({**SPEC, **parts})
    client_of = np.zeros(len(budgets), np.int64)
    use = record_use(spec, budgets=np.array(budgets), client_of=client_of, clients=1)
    plan = mechanism_of(spec).spending_plan(training_clients=60, names=["town"], records=use)
    found = material(parts, plan=plan, compositions={"final_model": 6, "server": 6})
    return replace(found, federation=replace(found.federation, training_clients=60))


def section(material, budgets, **options):
    made = material_of(material, budgets, **options)
    return records_section(made, made.plan.records)


def test_noise_that_public_numbers_set_is_stated_and_what_follows_from_the_data_kept_back(material):
    """That of `strong-for-all` would tell the smallest budget, a cell of the data."""
    budgets = [0.5] * 100 + [5.0] * 60
    made = material_of(material, budgets)
    privacy = assemble(made)["privacy"]
    (noise,) = {run.noise_multiplier for run in made.plan.records.use.runs}
    assert privacy["noise_multiplier"] == noise > 0
    assert "noise_multiplier" not in privacy["reasons"]
    for baseline in ("strong-for-all", "uniform", "dropout"):
        privacy = assemble(material_of(material, budgets, baseline=baseline))["privacy"]
        assert privacy["noise_multiplier"] is None
        assert "follows from the data" in privacy["reasons"]["noise_multiplier"]


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
