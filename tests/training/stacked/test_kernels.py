"""The compiled kernels: the bits of the numpy twins, and no access beyond their arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.native.library import kernels
from fedaudit.privacy.noise.gaussian import wide_normals
from fedaudit.privacy.noise.laplace import Sanitiser
from fedaudit.randomness import CounterSource, Purpose, sample_without_replacement
from fedaudit.spec.training import Local
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.clients import Lanes, batches_of
from fedaudit.training.stacked.server import Server, separation
from tests.native_fallback import fallback_only
from tests.training.bits import fingerprint
from tests.training.specs import cell, groups_spec, linear_spec
from tests.training.test_stack import NETWORKS, run_stacked

compiled = pytest.mark.skipif(kernels() is None, reason="built without a C compiler")
examples = settings(max_examples=30, deadline=None, derandomize=True)


def both(compute: Callable[[], Any]) -> tuple[Any, Any]:
    """What the kernels compute, and what the fallback does."""
    assert kernels() is not None
    by_kernels = compute()
    with fallback_only():
        assert kernels() is None
        return by_kernels, compute()


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


@st.composite
def rounds(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """theta [cells, k, n], uploads [cells, clients, n], present and chosen [cells, clients].

    Some uploads are not finite, and absent for it, and some cells have empty clusters.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    cells, k, n = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 40))
    clients = draw(st.integers(1, 40))
    theta = draw(st.sampled_from([0.1, 1.0, 30.0])) * random.normal(size=(cells, k, n))
    uploads = random.normal(size=(cells, clients, n)).astype(np.float32)
    present = random.random((cells, clients)) < draw(st.sampled_from([0.5, 1.0]))
    uploads[~present & (random.random((cells, clients)) < 0.5)] = np.nan
    chosen = random.integers(0, k, (cells, clients))
    found = (theta.astype(np.float32), uploads, present, chosen)
    theta_, uploads_, present_, chosen_ = (torch.from_numpy(part) for part in found)
    return theta_, uploads_, present_, chosen_


@compiled
@examples
@given(rounds(), st.booleans(), st.booleans())
def test_clusters_and_their_separation(problem, reported, relocate):
    theta, uploads, present, chosen = problem
    server = Server(reported=reported, relocate=relocate)
    here, there = both(lambda: server(theta, uploads, present, chosen))
    assert bits(here.hypotheses) == bits(there.hypotheses)
    assert bits(here.assigned) == bits(there.assigned)
    assert bits(here.sizes) == bits(there.sizes)
    if theta.shape[1] > 1:
        one, other = both(lambda: separation(theta, uploads, present, here.assigned))
        assert np.array_equal(one.numpy(), other.numpy(), equal_nan=True)


@compiled
@examples
@given(
    st.integers(0, 2**31),
    st.integers(1, 40),
    st.sampled_from([None, 0.5, np.inf]),
    st.sampled_from([None, 0.2]),
)
def test_sanitised_updates(seed: int, n: int, clip: float | None, radius: float | None) -> None:
    random = np.random.default_rng(seed)
    cells, clients = 2, 7
    start, step = (
        torch.from_numpy(random.normal(size=(cells, clients, n)).astype(np.float32))
        for _ in range(2)
    )
    updated = start + step
    updated[0, 1, 0] = torch.inf
    updated[1, 2] = start[1, 2]
    noise = random.normal(size=(cells, clients, n + n % 2))[..., :n]

    def column(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)[:, None]

    sanitise = Sanitiser(
        sizes=(n,),
        noise_multiplier=column(0.5, 3.0),
        fixed_radius=None if radius is None else column(radius, np.nan),
        radius_floor=column(1e-3, 0.3),
        clip=None if clip is None else column(clip, np.inf),
    )
    found = sanitise.compiled(start, updated, noise)
    uploads, radii = sanitise(start, updated, torch.from_numpy(noise))
    finite = torch.isfinite(uploads).all(-1)
    assert torch.equal(found[2], finite)
    assert bits(found[0][finite]) == bits(uploads[finite])
    assert bits(found[1][finite]) == bits(radii[finite])


@compiled
@examples
@given(st.integers(0, 2**64 - 1), st.integers(1, 3000), st.integers(0, 2**32 - 1), st.data())
def test_words_and_samples(seed: int, population: int, round_: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, population))
    source = CounterSource(np.array([[seed], [seed ^ 1]], dtype=np.uint64))
    place: dict[str, Any] = {"purpose": Purpose.COHORT, "round_": round_}
    words: dict[str, Any] = {**place, "counters": np.arange(5), "count": count % 50}
    for compute in (
        lambda: source.words(**words),
        lambda: source.wide_words(**words),
        lambda: sample_without_replacement(source, **place, population=population, count=count),
    ):
        here, there = both(compute)
        assert np.array_equal(here, there)


RUNS: dict[str, dict[str, Any]] = {
    **{name: one for name, one in NETWORKS.items() if name != "coins-wide"},
    "clipped": {"privacy__clip": 0.05, "privacy__radius": 0.1},
    "deep": {"model": {"kind": "mlp", "hidden": [5, 3]}, "training__local__step_size": 0.01},
    "mse": {"training__loss": "mse", "training__local__step_size": 0.01},
}


@compiled
@pytest.mark.parametrize("name", RUNS)
def test_whole_runs(name: str) -> None:
    cells = [cell(groups_spec(**{"seed": seed, **RUNS[name]})) for seed in range(2)]
    here, there = both(lambda: run_stacked(cells, 11))
    for position in range(len(cells)):
        assert fingerprint(here[position]) == fingerprint(there[position])


@compiled
@examples
@given(st.integers(0, 2**31), st.integers(1, 300), st.sampled_from([1, 2, 15, 16, 129, 9000]))
def test_normal_numbers(seed: int, rows: int, half: int) -> None:
    random = np.random.default_rng(seed)
    rows = min(rows, 20_000 // half)
    words = random.integers(2**64, size=(rows, 2 * half), dtype=np.uint64)
    # Ends of the radius, and where an angle turns from one quarter to the next.
    turns = [n * 2**61 + d for n in (1, 3, 5, 7) for d in (-1, 0)]
    ends = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1, *turns], dtype=np.uint64)
    replaced = random.random(words.shape) < 0.2
    words[replaced] = random.choice(ends, np.count_nonzero(replaced))
    here, there = both(lambda: wide_normals(words))
    assert here.tobytes() == there.tobytes()
    assert np.isfinite(here).all()


@compiled
def test_a_run_may_go_on_where_there_are_no_kernels() -> None:
    def checkpoint(first: int) -> bytes:
        stack = Stack([cell(linear_spec())])
        if first:
            stack.advance(first)
        with fallback_only():
            resumed = Stack([cell(linear_spec())], checkpoints=[stack.checkpoint(0)])
            resumed.advance(20 - first)
            return resumed.checkpoint(0)

    assert checkpoint(0) == checkpoint(9)


# -- batches: every row of every client has its turn, however many rows there are -----------------


COUNTS = torch.tensor([[6.0, 3.0, 1.0, 2.0]])
ROWS = 6


def visits(local: Local, *, seed: int = 1, round_: int = 1) -> list[list[float]]:
    """How much each row of each client counts in all batches together: row i has the i-th unit
    vector for features."""
    mask = (torch.arange(ROWS)[:, None, None] < COUNTS).float()
    features = torch.eye(ROWS)[:, :, None, None] * mask
    lanes = Lanes(features=features, target=mask.clone(), mask=mask, count=COUNTS)
    source = CounterSource(np.array([[seed]], dtype=np.uint64))
    rounds, clients = np.array([round_]), np.arange(4)[None]
    taken = batches_of(lanes, local, source, rounds=rounds, clients=clients)
    counted = sum((batch.features * batch.weight).sum(1)[:, 0].T for batch in taken)
    return [row[: int(count)] for row, count in zip(counted.tolist(), COUNTS[0], strict=True)]


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ({"epochs": 1}, [[1] * 6, [1] * 3, [1], [1] * 2]),
        ({"epochs": 3}, [[3] * 6, [3] * 3, [3], [3] * 2]),
        # Steps are as many for clients with few rows, and the rest of them goes to some rows.
        ({"steps": 12}, [[2] * 6, [4] * 3, [12], [6] * 2]),
        ({"steps": 8}, [[1, 1, 1, 1, 2, 2], [2, 3, 3], [8], [4] * 2]),
        # A batch of all rows is the whole data.
        ({"epochs": 2, "batch_size": None}, [[2 / 6] * 6, [2 / 3] * 3, [2], [1] * 2]),
        ({"epochs": 2, "batch_size": ROWS}, [[2 / 6] * 6, [2 / 3] * 3, [2], [1] * 2]),
        # Each row counts as a share of the batch that it is in: the last averages over fewer.
        (
            {"epochs": 1, "batch_size": 4},
            [[1 / 4] * 4 + [1 / 2] * 2, [1 / 3] * 3, [1], [1 / 2] * 2],
        ),
    ],
    ids=str,
)
def test_every_row_has_its_turns(local: dict[str, Any], expected: list[list[float]]) -> None:
    found = visits(Local(**{"epochs": None, "batch_size": 1, **local}))
    for row, turns in zip(found, expected, strict=True):
        assert sorted(row) == pytest.approx(turns)


def test_the_order_depends_on_seed_and_round() -> None:
    local = Local(steps=3, epochs=None, batch_size=1)
    assert visits(local) == visits(local)
    orders = {str(visits(local, seed=seed, round_=round_)) for seed in (1, 2) for round_ in (1, 2)}
    assert len(orders) > 1
