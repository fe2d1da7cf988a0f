"""Sums of rounded products against whole numbers of any length, and what they do to a clip."""

import math
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedaudit.native.library import kernels
from fedaudit.networks import record_gradients
from fedaudit.networks.record_gradients import (
    PRODUCT_BITS,
    DenseClippedGradients,
    LayerOfSilos,
    RecordBatch,
    vector_norms,
)
from fedaudit.networks.shape import DenseShape, Layer
from fedaudit.networks.stacked_network import Loss
from tests.native_fallback import fallback_only

compiled = pytest.mark.skipif(kernels() is None, reason="built without a C compiler")
KINDS = ["normal", "halves", "powers", "any size", "subnormal", "largest", "sparse", "broken"]


def numbers(kind: str, *shape: int, seed: int) -> Tensor:
    """float32: of kinds that rounding, ties and exponents find hard."""
    random = np.random.default_rng(seed)
    normal = random.normal(size=shape)
    match kind:
        case "normal":
            found = normal
        case "halves":  # Products of these are halfway between integers, until they are odd.
            found = random.integers(-9, 10, shape) + 0.5
        case "powers":
            found = np.sign(normal) * 2.0 ** random.integers(-20, 20, shape)
        case "any size":
            found = normal * 10 ** random.uniform(-30, 30, shape)
        case "subnormal":
            found = normal * 2.0**-140
        case "largest":
            found = np.sign(normal) * np.finfo(np.float32).max
        case "sparse":
            found = normal * (random.random(shape) < 0.1)
        case "broken":
            found = np.where(random.random(shape) < 0.05, [np.nan, np.inf][seed % 2], normal)
        case _:
            raise ValueError(kind)
    return torch.from_numpy(found.astype(np.float32))


def rounded(left: Tensor, right: Tensor) -> list[list[int]]:
    """The sums of rounded products in whole numbers; fails where a product is halfway."""
    sums = []
    for row in left.tolist():
        sums.append([])
        for column in right.t().tolist():
            products = [Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)]
            assert all(abs(product) <= 2**PRODUCT_BITS for product in products)
            assert all((2 * product).denominator != 1 or product == 0 for product in products)
            sums[-1].append(sum(round(product) for product in products))
    return sums


def layer_of(weights: Tensor, bias: Tensor | None, *, rows: int) -> LayerOfSilos:
    """A layer of one silo with weights [outputs, inputs]."""
    parts = weights.flatten(), weights[:, 0] * 0 if bias is None else bias
    layer = Layer(weights.shape[1], len(weights), 0, bias is not None)
    return LayerOfSilos(layer, torch.cat(parts)[None], np.array([rows]))


def times(rows: Tensor, weights: Tensor) -> Tensor:
    return layer_of(weights, None, rows=len(rows)).outputs(rows[None])[0]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "broken"])
@pytest.mark.parametrize("native", [pytest.param(True, marks=compiled), False])
def test_every_product_is_rounded_by_itself_and_none_is_halfway(kind: str, native: bool) -> None:
    values, slopes = numbers(kind, 300, 19, seed=1), numbers(kind, 300, 5, seed=2)
    right, units = record_gradients._odd(values.numpy(), bits=9, axis=1)
    left, _ = record_gradients._odd(slopes.numpy(), bits=10, axis=None)
    # Shares take each factor to an odd number below 2^10 before its row's unit multiplies it.
    shares = torch.from_numpy(1 / units[None, :, 0])
    layer = layer_of(torch.zeros(5, 19), None, rows=300)
    found = torch.zeros(1, 100, dtype=torch.float64)
    with nullcontext() if native else fallback_only():
        layer.summed(torch.from_numpy(left)[None], shares, values[None], unit=1.0, out=found)
    expected = rounded(torch.from_numpy(left.T.copy()), torch.from_numpy(right))
    assert found[0, :95].view(5, 19).tolist() == expected
    size = np.abs(values.numpy().astype(np.float64))
    kept = size >= size.max(1, keepdims=True) * 2.0**-60
    moved = np.abs(right * units - values.numpy())
    assert (moved <= size * 2.0**-23 + 2.0**-140)[kept].all()


@compiled
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.integers(1, 20),
    st.sampled_from([1, 7, 8, 9, 255, 256, 257, 520]),
    st.sampled_from([1, 2, 15, 16, 17, 32, 33, 47, 48, 49, 70]),
    st.integers(0, 2**31),
)
def test_the_kernels_give_the_bits_of_the_fallback(one, other, silos, rows, inner, columns, seed):
    shape = DenseShape((inner, columns), intercept=seed % 2 == 0)
    values = numbers(one, silos, rows, inner, seed=seed)
    slopes = numbers(one, silos, rows, columns, seed=seed)
    theta = numbers(other, silos if seed % 3 else 1, shape.n, seed=seed + 1)
    sizes = np.random.default_rng(seed).integers(0, rows + 1, silos)
    layer = LayerOfSilos(shape.layers[0], theta, sizes)
    mine = torch.arange(rows) < torch.from_numpy(sizes)[:, None]
    shares = torch.linspace(0, 1, silos * rows, dtype=torch.float64).view(silos, rows)

    def compute() -> list[Tensor]:
        out = torch.full((silos, shape.n), math.nan, dtype=torch.float64)
        layer.summed(slopes, shares, values, unit=2.0**-10, out=out)
        forwards, backwards = layer.outputs(values), layer.slopes_of_inputs(slopes, values)
        squared = torch.ones(silos, rows, dtype=torch.float64)
        layer.add_squares(slopes, values, to=squared)
        return [squared, forwards[mine], backwards[mine], out]

    here = compute()
    with fallback_only():
        there = compute()
    lengths = vector_norms(slopes) * shares * vector_norms(values)
    bounded = (lengths.nan_to_num(math.inf) <= 2.0**9).all()
    for found, expected in zip(here[: None if bounded else -1], there, strict=False):
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.nan_to_num(), expected.nan_to_num())


def test_a_row_follows_from_itself_and_the_weights() -> None:
    left, weights = numbers("any size", 40, 300, seed=1), numbers("normal", 37, 300, seed=2)
    whole = times(left, weights)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    for row in range(40):
        alone = times(left[[row]], weights)[0]
        assert torch.equal(alone, whole[row])
        assert torch.equal(times(left[[row]][:, order].contiguous(), weights[:, order])[0], alone)


@pytest.mark.parametrize("inner", [10, 784, 4000])
@pytest.mark.parametrize("native", [pytest.param(True, marks=compiled), False])
def test_it_is_as_near_as_products_of_19_bits_allow(inner: int, native: bool) -> None:
    left, right = numbers("normal", 50, inner, seed=1), numbers("normal", 20, inner, seed=2)
    exact = left.double() @ right.double().t()
    lengths = left.double().norm(dim=1, keepdim=True) * right.double().norm(dim=1)
    with nullcontext() if native else fallback_only():
        assert ((times(left, right) - exact).abs() / lengths).max() < 2.0**-16


# -- the clip --------------------------------------------------------------------------------------

WIDE = DenseShape((300, 4, 3), intercept=True)


def batch_of(features: Tensor, classes: int) -> RecordBatch:
    target = torch.arange(len(features)) % classes if classes else -torch.ones(len(features))
    return RecordBatch(features[None], target.float()[None], np.array([len(features)]))


@pytest.mark.parametrize("kind", [*KINDS, "alike", "cancelling"])
@pytest.mark.parametrize("clip", [1.0, 1e-30, 3e-5, 1023.5])
def test_a_record_moves_the_sum_by_what_it_adds_alone_and_that_is_within_the_clip(kind, clip):
    """Without any tolerance."""
    rows = 41
    match kind:
        case "alike":
            features = numbers("normal", 1, 300, seed=3).expand(rows, 300).contiguous()
        case "cancelling":
            signs = torch.tensor([1.0, -1.0]).repeat(rows)[:rows, None]
            features = signs * numbers("normal", 1, 300, seed=3)
        case _:
            features = numbers(kind, rows, 300, seed=3)
    form = DenseClippedGradients(WIDE, Loss("cross-entropy", 3))
    theta = 0.3 * numbers("normal", WIDE.n, seed=4)

    def summed(kept: list[int]) -> Tensor:
        whole = batch_of(features, 3)
        own = RecordBatch(whole.features[:, kept], whole.target[:, kept], np.array([len(kept)]))
        return form(theta, own, clip=clip)[0]

    everyone = list(range(rows))
    whole = summed(everyone)
    assert whole.isfinite().all()
    for row in (0, 1, 20, rows - 1):
        moved = whole - summed(everyone[:row] + everyone[row + 1 :])
        assert torch.equal(moved, summed([row]))
        assert moved.norm().item() <= clip
    backwards = summed(everyone[::-1])
    assert torch.equal(backwards, whole)


def test_what_rounding_adds_to_a_gradient_is_taken_off_the_clip(monkeypatch):
    """Gradients of equal numbers, which are all rounded up: without it the clip is passed."""

    def longest() -> float:
        found = []
        for inputs in range(300, 420):
            form = DenseClippedGradients(DenseShape((inputs, 1), intercept=False), Loss("mse", 0))
            summed = form(torch.zeros(inputs), batch_of(torch.ones(1, inputs), 0), clip=1.0)
            found.append(summed.norm().item())
        return max(found)

    assert longest() <= 1.0
    whole = record_gradients.shares
    monkeypatch.setattr(
        record_gradients, "shares", lambda norms, *, clip, rounding=0.0: whole(norms, clip=clip)
    )
    assert longest() > 1.0
