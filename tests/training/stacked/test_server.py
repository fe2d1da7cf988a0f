"""The server's clustering against scikit-learn and against a plain Lloyd's loop, and its sums."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from fedaudit.training.stacked import server
from fedaudit.training.stacked.server import (
    Clusters,
    Server,
    averages,
    block_sums,
    k_means,
    separation,
)
from fedaudit.training.stacked.stack_round import Cohort, RoundResult, Sent
from fedaudit.training.stacked.stack_state import gather_to_host

Points = NDArray[np.float32]


def cluster(theta: Points, uploads: Points, *, relocate: bool) -> Clusters:
    """Of one cell: theta [k, n], uploads [clients, n]."""
    present = torch.ones(1, len(uploads), dtype=torch.bool)
    return k_means(
        torch.from_numpy(theta)[None], torch.from_numpy(uploads)[None], present, relocate=relocate
    )


def scikit_learn(theta: Points, uploads: Points) -> KMeans:
    return KMeans(
        n_clusters=len(theta), init=theta, n_init=1, algorithm="lloyd", tol=0, max_iter=300
    ).fit(uploads)


def in_any_order(points: NDArray[np.floating]) -> NDArray[np.floating]:
    return points[np.lexsort(points.T)]


@st.composite
def problems(draw: st.DrawFn, *, spread: float) -> tuple[Points, Points]:
    """Hypotheses [k, n] and uploads [clients, n]; with a large spread some attract nobody."""
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    k, n = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    clients = draw(st.integers(4 * k, 40))
    theta = spread * random.normal(size=(k, n))
    return theta.astype(np.float32), random.normal(size=(clients, n)).astype(np.float32)


examples = settings(max_examples=30, deadline=None, derandomize=True)


@examples
@given(problems(spread=1.0), st.booleans())
def test_lloyds_iterations_are_scikit_learns(problem, relocate):
    theta, uploads = problem
    first = np.square(uploads[:, None] - theta).sum(-1).argmin(1)
    assume(len(set(first)) == len(theta))
    found, expected = cluster(theta, uploads, relocate=relocate), scikit_learn(theta, uploads)
    assume(len(set(expected.labels_)) == len(theta))
    np.testing.assert_allclose(found.hypotheses[0], expected.cluster_centers_, atol=1e-5)
    assert np.array_equal(found.assigned[0], expected.labels_)
    assert np.array_equal(found.sizes[0], np.bincount(expected.labels_, minlength=len(theta)))


@examples
@given(problems(spread=6.0))
def test_relocation_is_scikit_learns(problem: tuple[Points, Points]) -> None:
    """Several relocated at once may swap their names, which scikit-learn leaves to a partition.

    Where a relocation empties another cluster, scikit-learn puts its centre on the largest one for
    an iteration, while here it has its hypothesis.
    """
    theta, uploads = problem
    nearest = np.square(uploads[:, None] - theta).sum(-1).argmin(1)
    sizes = np.bincount(nearest, minlength=len(theta))
    assume(sizes[sizes > 0].min() > np.count_nonzero(sizes == 0))
    found, expected = cluster(theta, uploads, relocate=True), scikit_learn(theta, uploads)
    np.testing.assert_allclose(
        in_any_order(found.hypotheses[0].numpy()),
        in_any_order(expected.cluster_centers_),
        atol=1e-5,
    )
    assert int(found.sizes.min()) > 0


def lloyd(theta: Points, uploads: Points) -> NDArray[np.float64]:
    """Lloyd's loop in which an empty cluster has the hypothesis it started with."""
    centroids = theta.astype(np.float64)
    labels = None
    for _ in range(300):
        nearest = np.square(uploads[:, None] - centroids).sum(-1).argmin(1)
        if labels is not None and np.array_equal(nearest, labels):
            break
        labels = nearest
        centroids = theta.astype(np.float64)
        for j in set(labels.tolist()):
            centroids[j] = uploads[labels == j].mean(0)
    return centroids


@examples
@given(problems(spread=4.0))
def test_keep_keeps_the_hypothesis_of_an_empty_cluster(problem: tuple[Points, Points]) -> None:
    theta, uploads = problem
    found = cluster(theta, uploads, relocate=False)
    np.testing.assert_allclose(found.hypotheses[0], lloyd(theta, uploads), atol=1e-5)
    for j in np.flatnonzero(found.sizes[0] == 0):
        assert np.array_equal(found.hypotheses[0, j], theta[j])


def test_relocation_goes_on_where_it_emptied_another_cluster() -> None:
    """The farthest upload was alone: moving it leaves its own cluster to be filled in turn."""
    theta = np.array([[9.0], [0.0], [90.0]], dtype=np.float32)
    uploads = np.array([[20.0], [0.0], [1.0]], dtype=np.float32)
    found = cluster(theta, uploads, relocate=True)
    assert sorted(found.sizes[0].tolist()) == [1, 1, 1]
    assert sorted(found.hypotheses[0].flatten().tolist()) == [0.0, 1.0, 20.0]


@pytest.mark.parametrize("distinct", [1, 2])
def test_fewer_distinct_uploads_than_hypotheses_come_to_an_end(distinct: int) -> None:
    uploads = np.arange(8, dtype=np.float32)[:, None] % distinct
    theta = np.array([[0.0], [5.0], [6.0], [7.0]], dtype=np.float32)
    found = cluster(theta, uploads, relocate=True)
    assert int(found.sizes.sum()) == 8
    assert torch.isfinite(found.hypotheses).all()


def stacked(seeds: list[int], draw: Callable[[np.random.Generator], Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack([draw(np.random.default_rng(seed)) for seed in seeds]))


def cells_of(seeds: list[int], *, k: int, clients: int, n: int) -> list[torch.Tensor]:
    """Hypotheses [cells, k, n], uploads [cells, clients, n], and whose of them are there."""
    theta = stacked(seeds, lambda random: random.normal(size=(k, n))).float()
    uploads = stacked(seeds, lambda random: random.normal(size=(clients, n))).float()
    return [theta, uploads, stacked(seeds, lambda random: random.random(clients) < 0.8)]


@examples
@given(
    st.lists(st.integers(0, 2**31), min_size=2, max_size=6),
    st.integers(2, 5),
    st.integers(0, 6),
    st.booleans(),
)
def test_cells_do_not_touch_each_other(seeds: list[int], k: int, more: int, relocate: bool) -> None:
    """Also where one needs more iterations than another, and clusters run empty."""
    theta, uploads, present = cells_of(seeds, k=k, clients=k + more, n=2)
    theta = theta * 5
    together = k_means(theta, uploads, present, relocate=relocate)
    for row in range(len(seeds)):
        one = slice(row, row + 1)
        alone = k_means(theta[one], uploads[one], present[one], relocate=relocate)
        assert torch.equal(alone.hypotheses[0], together.hypotheses[row])
        assert torch.equal(alone.assigned[0], together.assigned[row])
        assert torch.equal(alone.sizes[0], together.sizes[row])


@pytest.mark.parametrize(
    ("present", "hypotheses", "sizes"),
    [([True, False, True, False], [[1.0], [9.0]], [1, 1]), ([False] * 4, [[0.0], [10.0]], [0, 0])],
    ids=["some", "nobody"],
)
def test_what_was_not_released_moves_nothing(present, hypotheses, sizes):
    theta = torch.tensor([[[0.0], [10.0]]])
    uploads = torch.tensor([[[1.0], [torch.nan], [9.0], [1e30]]])
    released = torch.tensor([present])
    for found in (
        k_means(theta, uploads, released, relocate=True),
        k_means(theta, uploads, released, relocate=False),
        averages(theta, uploads, released, torch.tensor([[0, 0, 1, 1]])),
    ):
        assert found.hypotheses.tolist() == [hypotheses]
        assert found.sizes.tolist() == [sizes]


@examples
@given(
    st.lists(st.integers(0, 2**31), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 8),
    st.booleans(),
)
def test_long_vectors_are_clustered_alike(seeds, k, more, relocate):
    """Whatever is too long for temporaries of all uploads goes to the same clusters."""
    theta, uploads, present = cells_of(seeds, k=k, clients=k + more, n=3)
    uploads[~present] = 0
    chosen = stacked(seeds, lambda random: random.integers(0, k, k + more))
    found = []
    for longest in (1 << 12, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "_LONG", longest)
            found.append(
                (
                    k_means(theta * 3, uploads, present, relocate=relocate),
                    averages(theta, uploads, present, chosen),
                    separation(theta, uploads, present, chosen),
                )
            )
    for short, long in zip(*found, strict=True):
        if isinstance(short, Clusters) and isinstance(long, Clusters):
            assert torch.equal(short.assigned, long.assigned)
            assert torch.equal(short.sizes, long.sizes)
            torch.testing.assert_close(short.hypotheses, long.hypotheses)
        else:
            torch.testing.assert_close(short, long, equal_nan=True)


def median(values: list[float]) -> float:
    """The lower one of two."""
    return sorted(values)[(len(values) - 1) // 2]


@given(problems(spread=2.0), st.integers(0, 2**31))
def test_separation_is_equation_9(problem: tuple[Points, Points], seed: int) -> None:
    theta, uploads = problem
    assume(len(theta) > 1)
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(theta), len(uploads))
    present = random.random(len(uploads)) < 0.7
    assume(present.any())
    ratios = []
    for upload, own in zip(uploads[present], chosen[present], strict=True):
        others = [np.linalg.norm(theta[own] - one) for j, one in enumerate(theta) if j != own]
        ratios.append(float(np.linalg.norm(upload - theta[own]) / min(others)))
    found = separation(
        *(torch.from_numpy(part)[None] for part in (theta, uploads, present, chosen))
    )
    assert found.shape == (1,)
    assert found.item() == pytest.approx(median(ratios), rel=1e-5)


@given(
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(0, 2**31),
)
def test_sums_are_those_of_a_loop_and_padding_moves_no_bit(cells, clients, k, more, seed):
    random = torch.Generator().manual_seed(seed)
    updates = torch.randn(cells, clients, 5, generator=random)
    present = torch.rand(cells, clients, generator=random) < 0.7
    chosen = torch.randint(k, (cells, clients), generator=random)
    found = block_sums(updates, present, chosen, hypotheses=k)
    expected = torch.zeros(cells, k, 5, dtype=torch.float64)
    for cell in range(cells):
        for client in range(clients):
            if present[cell, client]:
                expected[cell, chosen[cell, client]] += updates[cell, client]
    torch.testing.assert_close(found, expected)
    padded = block_sums(
        torch.nn.functional.pad(updates, (0, 0, 0, more), value=torch.nan),
        torch.nn.functional.pad(present, (0, more)),
        torch.nn.functional.pad(chosen, (0, more)),
        hypotheses=k,
    )
    assert torch.equal(padded, found)
    alone = block_sums(updates[:1], present[:1], chosen[:1], hypotheses=k)
    assert torch.equal(alone[0], found[0])


def test_one_client_among_ten_thousand_moves_a_sum_by_its_own_norm() -> None:
    random = torch.Generator().manual_seed(3)
    updates = torch.nn.functional.normalize(torch.randn(1, 10_000, 8, generator=random), dim=-1)
    everyone = torch.ones(1, 10_000, dtype=torch.bool)
    chosen = torch.zeros(1, 10_000, dtype=torch.int64)
    others = everyone.clone()
    others[0, 17] = False
    moved = block_sums(updates, everyone, chosen, hypotheses=1) - block_sums(
        updates, others, chosen, hypotheses=1
    )
    norm = torch.linalg.vector_norm(updates[0, 17].double())
    assert abs(torch.linalg.vector_norm(moved) / norm - 1) < 1e-10


CLIENTS = 7


def round_of(seed: int) -> tuple[Cohort, RoundResult]:
    """Two hypotheses closer to each other than the noise, and uploads as the server gets them."""
    random = np.random.default_rng(seed)
    theta = torch.from_numpy(random.normal(size=(1, 2, 11))).float()
    chosen = torch.from_numpy(random.integers(0, 2, (1, CLIENTS)))
    noise = torch.from_numpy(10 * random.normal(size=(1, CLIENTS, 11))).float()
    uploads = theta.gather(1, chosen[..., None].expand(-1, -1, 11)) + noise
    present = torch.ones(1, CLIENTS, dtype=torch.bool)
    found = Server(reported=False, relocate=False)(theta, uploads, present, chosen)
    sent = Sent(chosen, uploads, present, None, found.assigned)
    cohort = Cohort(
        rounds=np.array([1]),
        clients=np.arange(CLIENTS)[None],
        allowed=np.ones((1, CLIENTS), dtype=bool),
        noise=None,
    )
    return cohort, RoundResult(theta, found.hypotheses, found.sizes, sent)


@pytest.mark.parametrize("seed", range(5))
def test_separation_says_nothing_of_choices_that_the_uploads_do_not(seed: int) -> None:
    """Whoever knows the uploads, as the server does, finds all 128 possible choices left by it."""
    cohort, played = round_of(seed)
    assert played.sent is not None
    figures = set()
    for choice in range(2**CLIENTS):
        chosen = torch.tensor([[choice >> client & 1 for client in range(CLIENTS)]])
        sent = replace(played.sent, chosen=chosen)
        found = gather_to_host([cohort], [replace(played, sent=sent)], subjects=1)
        figures.add(float(found.separation[0, 0]))
    assert len(figures) == 1
    assert np.isfinite(list(figures)).all()
