"""What is said to be guaranteed, and that it never claims more than is proven."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.number_text import at_most
from fedaudit.privacy.guarantees.cost_sentences import MOST, doubted_cost_words, guessed_words
from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan
from fedaudit.privacy.records.record_plans import TREATED_AS_PUBLIC
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.privacy.mechanisms.specs import CLIENTS, records_of
from tests.privacy.specs_of_privacy import a_spec, central, laplace, local, records_spec

RELEASE: dict[str, Any] = {"noise": "release"}
FIXED: dict[str, Any] = {"radius": 0.5, **RELEASE}


def guaranteed(spec: ExperimentSpec) -> Guarantee:
    return mechanism_of(spec).guarantee(n=2)


def a_plan(spec: ExperimentSpec) -> SpendingPlan | None:
    return mechanism_of(spec).spending_plan(
        training_clients=len(CLIENTS), names=CLIENTS, records=records_of(spec)
    )


CLAIMS = {
    "none": (a_spec({"mechanism": "none"}), "none", "Nothing bounds", ""),
    "adaptive radius": (
        laplace(**RELEASE),
        "heuristic",
        "n/nu = 0.4 | no theorem | Nor are the clients held out for validation",
        "at most",
    ),
    "adaptive radius between floor and clip": (
        laplace(radius_floor=0.01, clip=2, **RELEASE),
        "heuristic",
        "(at least 0.01, and at most 2, to which it is clipped)",
        "",
    ),
    "fixed radius": (
        laplace(**FIXED),
        "formal",
        "Formal within the radius. Each released | epsilon = n/(nu*r) = 0.8 | are not clipped"
        " | ||theta_i - theta_j||, | Nor are the clients held out for validation",
        "n/nu covers",
    ),
    "a clip of half the radius": (
        laplace(clip=0.25, **FIXED),
        "formal",
        "Formal. Each | n/nu covers every two datasets that choose the same hypothesis",
        "",
    ),
    # Two updates of norm 0.5 may lie 1.0 apart, which is two radii.
    "a clip beyond half the radius": (
        laplace(clip=0.5, **FIXED),
        "formal",
        "bounded by 0.8, not by n/nu | ||theta_i - theta_j|| (at most that plus 1),",
        "n/nu covers",
    ),
    "one hypothesis": (
        laplace(clip=0.25, clustering="reported", hypotheses=1, **FIXED),
        "formal",
        "",
        "theta_i | without any noise",
    ),
    "a choice that is reported": (
        laplace(clip=0.25, clustering="reported", **FIXED),
        "heuristic",
        "without any noise",
        "",
    ),
    "a trusted server": (
        central(**RELEASE),
        "formal",
        "The server is trusted | Nothing here protects a client against the server"
        " | add-or-remove-one in the zero-out sense | held out for validation are not covered",
        "more or less",
    ),
    "a cohort of fixed size": (
        central(cohort={"clients": 7}, **RELEASE),
        "formal",
        "the whole data of one client | two clips",
        "more or less",
    ),
    "a moving clip and a choice": (
        central(
            noise_multiplier=2,
            clip={"adaptive": {"initial": 0.5, "count_noise": 5.0}},
            hypotheses=2,
            **RELEASE,
        ),
        "formal",
        "updates and count share the noise | one mechanism of noise multiplier 2;"
        " | Gaussian noise of 2.04124 clips | the choice is covered too",
        "",
    ),
    "noise of the clients' own": (
        local(**RELEASE),
        "formal",
        "within two clips | gains it nothing | visible to the server and not covered",
        "trusted",
    ),
    "exact rates of records": (
        records_spec(**RELEASE),
        "formal",
        "the server may see more spent than a budget says | zero-out | leave in doubt"
        " | between data that differ by that record | somebody with many records is protected less"
        " | its budget is drawn by the seed and the record itself"
        " | larger in the worst case and may be smaller after a run",
        "taken as fixed",
    ),
    "coins that always fall": (
        records_spec(rate=1, **RELEASE),
        "formal",
        "both observers have the same figure | Budgets are kept against both.",
        "in doubt",
    ),
    "a fit of rates": (
        records_spec(inversion="curve-fit", **RELEASE),
        "heuristic",
        "Heuristic. | lets small budgets be passed",
        "Budgets are kept",
    ),
    "records without noise": (records_spec("privacy-free", **RELEASE), "none", "", ""),
}


@pytest.mark.parametrize(("spec", "kind", "said", "unsaid"), CLAIMS.values(), ids=CLAIMS)
def test_a_guarantee_says_what_holds_and_no_more(spec, kind, said, unsaid):
    found = guaranteed(spec)
    assert found.kind == kind == mechanism_of(spec).inputs(n=2, plan=a_plan(spec)).guarantee
    assert found.in_force == (kind != "none")
    for words in filter(None, said.split(" | ")):
        assert words in found.statement
    for words in filter(None, unsaid.split(" | ")):
        assert words not in found.statement


@pytest.mark.parametrize(
    ("spec", "unit", "adjacency", "observers"),
    [
        (a_spec({"mechanism": "none"}), "client", None, ()),
        (records_spec("privacy-free"), "record", None, ()),
        (central(), "client", "add-or-remove-one", ("final_model",)),
        (central(cohort={"clients": 7}), "client", "replace-one", ("final_model",)),
        (local(), "client", "replace-one", ("server",)),
        (records_spec(), "record", "add-or-remove-one", ("final_model", "server")),
    ],
)
def test_a_guarantee_is_of_a_unit_against_those_who_look(spec, unit, adjacency, observers):
    found = guaranteed(spec)
    assert (found.unit, found.adjacency, found.observers) == (unit, adjacency, observers)
    assert set(found.reasons) == (set() if adjacency else {"adjacency", "delta"})


def test_a_bound_beyond_the_radius_is_rounded_up() -> None:
    # 2 * 0.4 / 0.7 * 3 = 3.4285714...: to six digits that is more than 3.42857.
    found = mechanism_of(laplace(radius=0.7, clip=0.4, noise_multiplier=3)).guarantee(n=9)
    assert "bounded by 3.42858, not by n/nu" in found.statement


@given(st.floats(1e-9, 1e9), st.integers(1, 9))
def test_a_bound_in_a_sentence_is_rounded_up(value, digits):
    stated = float(at_most(value, digits=digits))
    assert value <= stated <= value * (1 + 1.001 * 10.0 ** (1 - digits))


def test_the_ledger_records_public_numbers_only():
    adaptive = mechanism_of(laplace(radius_floor=0.01)).inputs(n=2)
    assert (adaptive.radius, adaptive.radius_floor) == (None, 0.01)
    fixed = mechanism_of(laplace(clip=0.25, **FIXED)).inputs(n=2)
    assert (fixed.radius, fixed.radius_floor, fixed.clip) == (0.5, None, 0.25)
    assert (fixed.noise, fixed.guarantee, fixed.n) == ("release", "formal", 2)
    for spec in (a_spec({"mechanism": "none"}), records_spec("privacy-free")):
        none = mechanism_of(spec).inputs(n=2)
        assert (none.guarantee, none.noise_multiplier, none.event) == ("none", None, None)


@pytest.mark.parametrize("baseline", ["uniform", "strong-for-all", "dropout", "filter"])
def test_a_baseline_names_what_it_takes_as_known(baseline):
    found = guaranteed(records_spec(baseline))
    assert found.kind == "heuristic"
    for known in TREATED_AS_PUBLIC[baseline]:
        assert known in found.statement
    assert ("whatever its own budget" in found.statement) == (baseline == "uniform")


@pytest.mark.parametrize("make", [central, local, records_spec])
def test_what_was_spent_is_told_with_who_looks(make):
    spec = make()
    [observer, *_] = guaranteed(spec).observers
    spent = ObserverEpsilon(observer=observer, delta=1e-5, adjacency="replace-one", value=1.25)
    text = mechanism_of(spec).guarantee(n=2, epsilons=[spent]).statement
    assert "epsilon = 1.25 against " in text
    assert "Spent" not in guaranteed(spec).statement


@pytest.mark.parametrize("make", [laplace, central, local, records_spec])
def test_simulated_noise_protects_nobody_whatever_the_mechanism(make):
    released, simulated = (make(noise=noise) for noise in ("release", "simulation"))
    assert "not for release" not in guaranteed(released).statement
    assert "not for release" in guaranteed(simulated).statement
    assert guaranteed(simulated).kind == guaranteed(released).kind


def test_rows_held_out_are_named_where_rows_are_held_out():
    document = records_spec().model_dump(mode="json")
    document["federation"]["validation_unit"] = "record"
    found = guaranteed(parse_spec(document)).statement
    assert "The rows held out for validation are not covered" in found


# -- how much a cost is, said with its doubts -----------------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "every", "hypotheses", "words"),
    [
        ("add-or-remove-one", True, 1, "whether a record's data were used"),
        ("replace-one", True, 1, "which of two versions of a record's data was used"),
        (None, False, 2, "which of two updates within the radius a record made"),
        (None, True, 1, "which of two datasets a record has"),
        (None, True, 2, "which of two datasets that choose the same hypotheses a record has"),
    ],
)
def test_what_is_guessed_follows_from_what_the_bound_is_of(adjacency, every, hypotheses, words):
    found = guessed_words(
        unit="record", adjacency=adjacency, bounds_every_dataset=every, hypotheses=hypotheses
    )
    assert found == words


def said(exponent: float | None, **changes: object) -> str:
    asked = {"kind": "formal", "in_force": True, "bounds_every_dataset": True} | changes
    return doubted_cost_words(exponent, guessed="x", delta=1e-5, **asked)


def test_each_doubt_is_said_before_the_measure() -> None:
    assert said(0.5).startswith("That is a gain of at most 13 percentage points")
    assert said(0.5, kind="heuristic").startswith("Were it proven, that would be a gain")
    assert said(0.5, in_force=False).startswith("Were the noise secret, that would be a gain")
    both = said(50.0, kind="heuristic", in_force=False)
    assert both.startswith("Were it proven and were the noise secret, that would be practically no")
    assert "That is" not in both
    assert said(None, kind="heuristic", in_force=False) == "Nothing bounds what was disclosed."


@pytest.mark.parametrize("kind", ["formal", "heuristic"])
@pytest.mark.parametrize("exponent", [0.0, 0.5, MOST])
def test_a_small_figure_within_the_radius_alone_measures_nothing(kind, exponent):
    words = said(exponent, kind=kind, bounds_every_dataset=False)
    assert "cannot be said" in words
    assert "percentage points" not in words
    # A large one is as bad as it seems.
    assert "practically no protection" in said(MOST + 1e-9, bounds_every_dataset=False)
    assert said(None, bounds_every_dataset=False) == "Nothing bounds what was disclosed."
