"""What is said to be guaranteed, and that it never claims more than is proven."""

import pytest
from specs_of_privacy import a_spec

from fedaudit.privacy.guarantees import guarantee_statement, mechanism_inputs


def laplace(*, clustering="k-means", hypotheses=2, **settings):
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 5, "noise": "release", **settings}
    return a_spec(privacy, clustering=clustering, hypotheses=hypotheses)


def test_no_mechanism_guarantees_nothing():
    found = guarantee_statement(a_spec({"mechanism": "none"}), 2)
    assert (found.kind, found.delta, found.adjacency, found.observers) == ("none", None, None, ())
    assert set(found.reasons) == {"adjacency", "delta"}
    assert "Nothing bounds" in found.statement


def test_the_adaptive_radius_is_heuristic():
    found = guarantee_statement(laplace(), 2)
    assert found.kind == "heuristic"
    assert found.unit == "client"
    assert found.observers == ("server",)
    assert "delta" in found.reasons
    assert "n/nu = 0.4" in found.statement
    assert "no theorem" in found.statement


def test_a_fixed_radius_is_formal_and_without_a_clip_covers_only_uploads_within_it():
    found = guarantee_statement(laplace(radius=0.5), 2)
    assert found.kind == "formal"
    assert "epsilon = n/(nu*r) = 0.8" in found.statement
    assert "Updates are not clipped" in found.statement
    assert "n/nu covers" not in found.statement


def test_a_clip_of_half_the_radius_covers_all_datasets_of_one_hypothesis():
    covering = guarantee_statement(laplace(radius=0.5, clip=0.25), 2).statement
    assert "n/nu covers every two datasets that choose the same hypothesis" in covering
    # Two updates of norm 0.5 may lie 1.0 apart, which is two radii.
    beyond = guarantee_statement(laplace(radius=0.5, clip=0.5), 2).statement
    assert "n/nu covers" not in beyond
    assert "bounded by 0.8, not by n/nu" in beyond


def test_between_hypotheses_the_bound_grows_with_their_distance():
    assert "||theta_i - theta_j||" in guarantee_statement(laplace(radius=0.5), 2).statement
    alone = guarantee_statement(laplace(radius=0.5, hypotheses=1), 2).statement
    assert "theta_i" not in alone


@pytest.mark.parametrize(("hypotheses", "kind"), [(1, "formal"), (2, "heuristic")])
def test_a_reported_choice_leaves_without_noise(hypotheses, kind):
    spec = laplace(radius=0.5, clip=0.25, clustering="reported", hypotheses=hypotheses)
    found = guarantee_statement(spec, 2)
    assert found.kind == kind == mechanism_inputs(spec, n=2).guarantee
    assert ("without any noise" in found.statement) == (hypotheses > 1)


@pytest.mark.parametrize("radius", ["adaptive", 0.5])
def test_held_out_clients_are_not_covered(radius):
    found = guarantee_statement(laplace(radius=radius), 2)
    assert "Nor are the clients held out for validation" in found.statement


def test_an_adaptive_radius_is_bounded_by_floor_and_clip():
    clipped = guarantee_statement(laplace(radius_floor=0.01, clip=2), 2).statement
    assert "(at least 0.01, and at most 2, to which it is clipped)" in clipped
    assert "at most" not in guarantee_statement(laplace(), 2).statement


def test_simulated_noise_protects_no_model():
    simulated = guarantee_statement(laplace(radius=0.5, noise="simulation"), 2)
    assert "not for release" in simulated.statement
    assert "not for release" not in guarantee_statement(laplace(radius=0.5), 2).statement


def test_the_ledger_records_public_numbers_only():
    adaptive = mechanism_inputs(laplace(radius_floor=0.01), n=2)
    assert (adaptive.radius, adaptive.radius_floor) == (None, 0.01)
    fixed = mechanism_inputs(laplace(radius=0.5, clip=0.25), n=2)
    assert (fixed.radius, fixed.radius_floor, fixed.clip) == (0.5, None, 0.25)
    assert (fixed.noise, fixed.guarantee, fixed.n) == ("release", "formal", 2)
    none = mechanism_inputs(a_spec({"mechanism": "none"}), n=2)
    assert (none.mechanism, none.noise_multiplier, none.guarantee) == ("none", None, "none")
