"""What is said to be guaranteed, and that it never claims more than is proven."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.number_text import at_most
from fedaudit.privacy.guarantees.cost_sentences import MOST, doubted_cost_words, guessed_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import ObserverEpsilon
from fedaudit.privacy.records.record_plans import TREATED_AS_PUBLIC
from fedaudit.spec.parse import parse_spec
from tests.privacy.specs_of_privacy import a_spec


def laplace(*, clustering="k-means", hypotheses=2, **settings):
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 5, "noise": "release", **settings}
    return a_spec(privacy, clustering=clustering, hypotheses=hypotheses)


def test_no_mechanism_guarantees_nothing():
    found = mechanism_of(a_spec({"mechanism": "none"})).guarantee(n=2)
    assert (found.kind, found.delta, found.adjacency, found.observers) == ("none", None, None, ())
    assert set(found.reasons) == {"adjacency", "delta"}
    assert not found.in_force
    assert "Nothing bounds" in found.statement


def test_the_adaptive_radius_is_heuristic():
    found = mechanism_of(laplace()).guarantee(n=2)
    assert found.kind == "heuristic"
    assert found.unit == "client"
    assert found.observers == ("server",)
    assert "delta" in found.reasons
    assert "n/nu = 0.4" in found.statement
    assert "no theorem" in found.statement


def test_a_fixed_radius_is_formal_and_without_a_clip_covers_only_uploads_within_it():
    found = mechanism_of(laplace(radius=0.5)).guarantee(n=2)
    assert found.kind == "formal"
    assert "Formal within the radius. Each released" in found.statement
    assert "Formal. Each" in mechanism_of(laplace(radius=0.5, clip=1)).guarantee(n=2).statement
    assert "epsilon = n/(nu*r) = 0.8" in found.statement
    assert "Updates are not clipped" in found.statement
    assert "n/nu covers" not in found.statement


def test_a_clip_of_half_the_radius_covers_all_datasets_of_one_hypothesis():
    covering = mechanism_of(laplace(radius=0.5, clip=0.25)).guarantee(n=2).statement
    assert "n/nu covers every two datasets that choose the same hypothesis" in covering
    # Two updates of norm 0.5 may lie 1.0 apart, which is two radii.
    beyond = mechanism_of(laplace(radius=0.5, clip=0.5)).guarantee(n=2).statement
    assert "n/nu covers" not in beyond
    assert "bounded by 0.8, not by n/nu" in beyond
    # 2 * 0.4 / 0.7 * 3 = 3.4285714...: to six digits that is more than 3.42857.
    stated = (
        mechanism_of(laplace(radius=0.7, clip=0.4, noise_multiplier=3)).guarantee(n=9).statement
    )
    assert "bounded by 3.42858, not by n/nu" in stated


def test_between_hypotheses_the_bound_grows_with_their_distance():
    assert "||theta_i - theta_j||," in mechanism_of(laplace(radius=0.5)).guarantee(n=2).statement
    clipped = mechanism_of(laplace(radius=0.5, clip=0.7)).guarantee(n=2).statement
    assert "||theta_i - theta_j|| (at most that plus 1.4)," in clipped
    alone = mechanism_of(laplace(radius=0.5, hypotheses=1)).guarantee(n=2).statement
    assert "theta_i" not in alone


@pytest.mark.parametrize(("hypotheses", "kind"), [(1, "formal"), (2, "heuristic")])
def test_a_reported_choice_leaves_without_noise(hypotheses, kind):
    spec = laplace(radius=0.5, clip=0.25, clustering="reported", hypotheses=hypotheses)
    found = mechanism_of(spec).guarantee(n=2)
    assert found.kind == kind == mechanism_of(spec).inputs(n=2).guarantee
    assert ("without any noise" in found.statement) == (hypotheses > 1)


@pytest.mark.parametrize("radius", ["adaptive", 0.5])
def test_held_out_clients_are_not_covered(radius):
    found = mechanism_of(laplace(radius=radius)).guarantee(n=2)
    assert "Nor are the clients held out for validation" in found.statement


def test_an_adaptive_radius_is_bounded_by_floor_and_clip():
    clipped = mechanism_of(laplace(radius_floor=0.01, clip=2)).guarantee(n=2).statement
    assert "(at least 0.01, and at most 2, to which it is clipped)" in clipped
    assert "at most" not in mechanism_of(laplace()).guarantee(n=2).statement


def test_simulated_noise_protects_no_model():
    simulated = mechanism_of(laplace(radius=0.5, noise="simulation")).guarantee(n=2)
    assert "not for release" in simulated.statement
    assert "not for release" not in mechanism_of(laplace(radius=0.5)).guarantee(n=2).statement


def test_the_ledger_records_public_numbers_only():
    adaptive = mechanism_of(laplace(radius_floor=0.01)).inputs(n=2)
    assert (adaptive.radius, adaptive.radius_floor) == (None, 0.01)
    fixed = mechanism_of(laplace(radius=0.5, clip=0.25)).inputs(n=2)
    assert (fixed.radius, fixed.radius_floor, fixed.clip) == (0.5, None, 0.25)
    assert (fixed.noise, fixed.guarantee, fixed.n) == ("release", "formal", 2)
    none = mechanism_of(a_spec({"mechanism": "none"})).inputs(n=2)
    assert (none.mechanism, none.noise_multiplier, none.guarantee) == ("none", None, "none")


POISSON = {"sampling": "poisson", "rate": 0.1}


GAUSSIAN = {"noise_multiplier": 2, "clip": 0.5, "delta": 1e-5, "noise": "release"}


def central(*, cohort=POISSON, hypotheses=1, **settings):
    privacy = {"mechanism": "gaussian-central", **GAUSSIAN, **settings}
    return a_spec(privacy, cohort=cohort, hypotheses=hypotheses, clustering="reported")


def local(**settings):
    return a_spec({"mechanism": "gaussian-local", **GAUSSIAN, **settings}, hypotheses=1)


def by_record(*, cohort=POISSON, **settings):
    privacy = {
        "mechanism": "record-personalised",
        "budgets": {"distribution": "three-levels"},
        "delta": 1e-3,
        "noise": "release",
        **settings,
    }
    local_steps = {"steps": 5, "batch_size": 8}
    return a_spec(privacy, cohort=cohort, hypotheses=1, loss="mse", local=local_steps)


def test_a_trusted_server_is_not_among_those_that_are_guarded_against():
    found = mechanism_of(central()).guarantee(n=2)
    assert (found.kind, found.unit, found.delta) == ("formal", "client", 1e-5)
    assert found.observers == ("final_model",)
    assert found.adjacency == "add-or-remove-one"
    assert "The server is trusted" in found.statement
    assert "Nothing here protects a client against the server" in found.statement
    assert "add-or-remove-one in the zero-out sense" in found.statement
    assert "more or less" not in found.statement
    assert "held out for validation are not covered" in found.statement
    assert found.reasons == {}


def test_a_cohort_of_fixed_size_protects_against_replacement():
    found = mechanism_of(central(cohort={"clients": 7})).guarantee(n=2)
    assert found.adjacency == "replace-one"
    assert "the whole data of one client" in found.statement
    assert "two clips" in found.statement
    assert "more or less" not in found.statement


def test_a_moving_clip_and_a_choice_are_covered_with_the_updates():
    clip = {"adaptive": {"initial": 0.5, "count_noise": 5.0}}
    found = mechanism_of(central(clip=clip, hypotheses=2)).guarantee(n=2)
    assert found.kind == "formal"
    assert "updates and count share the noise" in found.statement
    assert "one mechanism of noise multiplier 2;" in found.statement
    assert "Gaussian noise of 2.04124 clips" in found.statement
    assert "the choice is covered too" in found.statement


def test_noise_of_the_clients_own_guards_against_the_server():
    found = mechanism_of(local()).guarantee(n=2)
    assert (found.kind, found.unit, found.adjacency) == ("formal", "client", "replace-one")
    assert found.observers == ("server",)
    assert "trusted" not in found.statement
    assert "within two clips" in found.statement
    assert "gains it nothing" in found.statement
    assert "visible to the server and not covered" in found.statement


def test_exact_rates_of_records_are_formal_before_both_observers():
    found = mechanism_of(by_record()).guarantee(n=2)
    assert (found.kind, found.unit, found.adjacency) == ("formal", "record", "add-or-remove-one")
    assert found.observers == ("final_model", "server")
    assert "the server may see more spent than a budget says" in found.statement
    assert "between data that differ by that record" in found.statement
    assert "zero-out" in found.statement
    assert "its budget is drawn by the seed and the record itself" in found.statement
    assert "taken as fixed" not in found.statement
    assert "somebody with many records is protected less" in found.statement


def test_coins_that_always_fall_leave_nobody_in_doubt():
    found = mechanism_of(by_record(cohort={**POISSON, "rate": 1})).guarantee(n=2)
    assert "both observers have the same figure" in found.statement
    assert "in doubt" not in found.statement
    assert "Budgets are kept against both." in found.statement
    statement = mechanism_of(by_record()).guarantee(n=2).statement
    assert "leave in doubt" in statement
    assert "larger in the worst case and may be smaller after a run" in statement


def test_a_fit_is_heuristic():
    found = mechanism_of(by_record(inversion="curve-fit")).guarantee(n=2)
    assert found.kind == "heuristic"
    assert found.statement.startswith("Heuristic.")
    assert "lets small budgets be passed" in found.statement
    assert "Budgets are kept" not in found.statement


@pytest.mark.parametrize("baseline", ["uniform", "strong-for-all", "dropout", "filter"])
def test_a_baseline_names_what_it_takes_as_known(baseline):
    found = mechanism_of(by_record(baseline=baseline)).guarantee(n=2)
    assert found.kind == "heuristic"
    for known in TREATED_AS_PUBLIC[baseline]:
        assert known in found.statement
    assert ("whatever its own budget" in found.statement) == (baseline == "uniform")


def test_a_baseline_without_noise_guarantees_nothing():
    spec = by_record(baseline="privacy-free")
    found = mechanism_of(spec).guarantee(n=2)
    assert (found.kind, found.unit, found.delta, found.observers) == ("none", "record", None, ())
    assert set(found.reasons) == {"adjacency", "delta"}
    inputs = mechanism_of(spec).inputs(n=2)
    assert (inputs.guarantee, inputs.noise_multiplier, inputs.event) == ("none", None, None)


@pytest.mark.parametrize("make", [central, local, by_record])
def test_what_was_spent_is_told_with_who_looks(make):
    spec = make()
    [observer, *_] = mechanism_of(spec).guarantee(n=2).observers
    spent = ObserverEpsilon(observer=observer, delta=1e-5, adjacency="replace-one", value=1.25)
    assert (
        "epsilon = 1.25 against " in mechanism_of(spec).guarantee(n=2, epsilons=[spent]).statement
    )
    assert "Spent" not in mechanism_of(spec).guarantee(n=2).statement


@pytest.mark.parametrize("make", [central, local, by_record])
def test_simulated_noise_protects_nobody_whatever_the_mechanism(make):
    assert "not for release" not in mechanism_of(make()).guarantee(n=2).statement
    assert "not for release" in mechanism_of(make(noise="simulation")).guarantee(n=2).statement
    assert mechanism_of(make(noise="simulation")).guarantee_kind == "formal"


def test_rows_held_out_are_named_where_rows_are_held_out():
    document = by_record().model_dump(mode="json")
    document["federation"]["validation_unit"] = "record"
    found = mechanism_of(parse_spec(document)).guarantee(n=2).statement
    assert "The rows held out for validation are not covered" in found


@given(st.floats(1e-9, 1e9), st.integers(1, 9))
def test_a_bound_in_a_sentence_is_rounded_up(value, digits):
    stated = float(at_most(value, digits=digits))
    assert value <= stated <= value * (1 + 1.001 * 10.0 ** (1 - digits))


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


def test_a_large_figure_within_the_radius_is_as_bad_as_it_looks() -> None:
    assert "practically no protection" in said(MOST + 1e-9, bounds_every_dataset=False)
    assert said(None, bounds_every_dataset=False) == "Nothing bounds what was disclosed."
