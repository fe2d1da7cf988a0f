"""Which runs can be drawn in a plane, and what their rounds leave for it."""

from dataclasses import replace

import numpy as np

from fedaudit.ledger.rows import Outcome
from fedaudit.training.base.rounds import (
    axis_names,
    plot_unavailable_reason,
    round_plot,
    truth_points,
)
from fedaudit.training.stack import Stack
from tests.training.specs import cell, groups_spec, linear_spec, train


def test_validated_rounds_have_what_was_released():
    spec = linear_spec(
        training__rounds=12,
        training__stopping={"patience": None, "validate_every": 5},
        privacy__client_budget=4.0,
        privacy__noise_multiplier=1.0,
    )
    records, result = train(spec)
    assert [one.round for one in records if one.plane is not None] == [5, 10, 12]
    for record in records:
        if record.plane is None:
            continue
        released = record.outcomes == Outcome.RELEASED
        assert record.plane.uploads.shape == (released.sum(), 2)
        assert record.plane.clusters.tolist() == record.clusters[released].tolist()
        for cluster, size in enumerate(record.cluster_sizes):
            own = record.plane.uploads[record.plane.clusters == cluster]
            assert len(own) == size
            if size:
                expected = record.plane.hypotheses[cluster]
                np.testing.assert_allclose(own.mean(axis=0), expected, rtol=1e-4, atol=1e-5)
    best = next(one for one in records if one.round == result.best_round)
    np.testing.assert_array_equal(best.plane.hypotheses, result.hypotheses)


def test_the_plane_is_the_same_whatever_a_run_is_stacked_with():
    """Beside a run of the same shape over other data, in any cuts."""
    specs = [linear_spec(seed=seed, training__rounds=9) for seed in (1, 2)]
    stack, together = Stack([cell(spec) for spec in specs]), []
    while stack.active:
        together += stack.advance(4)[1]
    alone, _ = train(specs[1])
    for one, other in zip(alone, together, strict=True):
        for name, values in vars(one.plane).items():
            np.testing.assert_array_equal(values, getattr(other.plane, name))


def test_real_data_are_never_drawn_not_even_beside_synthetic_ones():
    synthetic = cell(linear_spec(training__rounds=3))
    real = replace(synthetic, federation=replace(synthetic.federation, truth=None))
    assert "real clients" in plot_unavailable_reason(real)
    records = Stack([synthetic, real]).advance(3)
    assert all(record.plane is not None for record in records[0])
    assert all(record.plane is None for record in records[1])


def test_an_intercept_is_a_parameter_too():
    made = cell(linear_spec(federation__thetas=[[2.0], [-3.0]], model__intercept=True))
    assert plot_unavailable_reason(made) is None
    assert axis_names(made) == ("weight of x1", "intercept")
    assert truth_points(made).tolist() == [[2.0, 0.5], [-3.0, 0.5]]
    assert "3 parameters" in plot_unavailable_reason(cell(groups_spec()))


def test_many_uploads_are_thinned_evenly():
    clusters = np.arange(250).astype(np.int16) % 5 - 1
    uploads = np.stack([np.arange(250), np.arange(250)], axis=1).astype(np.float32)
    found = round_plot(hypotheses=np.zeros((4, 2), np.float32), uploads=uploads, clusters=clusters)
    assert found.uploads.shape == (100, 2)
    assert (found.clusters >= 0).all()
    assert found.uploads[0, 0] == 1
    assert found.uploads[-1, 0] == 249
    steps = np.diff(found.uploads[:, 0])
    assert steps.min() >= 1
    assert steps.max() <= 5
    assert len(found.as_dict()["clusters"]) == 100


def test_what_is_not_finite_is_not_drawn():
    hypotheses = np.array([[0, np.nan], [1, 2]], np.float32)
    uploads, clusters = np.zeros((1, 2), np.float32), np.zeros(1, np.int16)
    assert round_plot(hypotheses=hypotheses, uploads=uploads, clusters=clusters) is None
