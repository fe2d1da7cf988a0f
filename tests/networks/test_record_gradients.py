"""Clipped per-record gradients against a loop over records."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.record_gradients import (
    AnyNetworkClippedGradients,
    ClippedGradients,
    DenseClippedGradients,
    RecordBatch,
    SmallDenseClippedGradients,
    clipped_gradients,
    exact_product,
)
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss, record_loss
from fedaudit.spec.models import Maps
from tests.accelerator import DEVICE
from tests.networks.test_networks import images_shape, reference, reference_loss

HERE = torch.device(DEVICE)
LossOfRecord = Callable[[Tensor, Tensor, Tensor], Tensor]


def torch_loss(shape: DenseShape, loss: Loss) -> LossOfRecord:
    """The loss of one record with torch's own functions."""
    return lambda theta, features, target: reference_loss(
        loss, reference(shape, theta, features[None]), target[None]
    )


def all_forms(shape: DenseShape, loss: Loss) -> list[ClippedGradients]:
    return [
        SmallDenseClippedGradients(shape, loss),
        DenseClippedGradients(shape, loss),
        AnyNetworkClippedGradients(partial(record_loss, shape, loss), n=shape.n),
    ]


def naive(value: LossOfRecord, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
    """The loop over silos and records, [silos, n]."""
    sums = []
    for silo, size in enumerate(batch.sizes.tolist()):
        own = (theta if theta.dim() == 1 else theta[silo]).clone().requires_grad_()
        total = torch.zeros_like(own)
        for row in range(size):
            loss = value(own, batch.features[silo, row], batch.target[silo, row])
            (gradient,) = torch.autograd.grad(loss, own)
            total = total + gradient * min(1.0, clip / max(gradient.norm().item(), 1e-30))
        sums.append(total.detach())
    return torch.stack(sums)


def a_batch(
    width: int, classes: int, *, silos: int = 3, rows: int = 7, seed: int = 1, scale: float = 1.0
) -> RecordBatch:
    random = torch.Generator().manual_seed(seed)
    target = torch.randn(silos, rows, generator=random)
    if classes:
        target = torch.randint(classes, (silos, rows), generator=random).float()
    return RecordBatch(
        features=scale * torch.randn(silos, rows, width, generator=random).to(HERE),
        target=target.to(HERE),
        sizes=np.random.default_rng(seed).integers(0, rows + 1, silos),
    )


def a_theta(shape: DenseShape, *lead: int, seed: int = 2) -> Tensor:
    return torch.randn(*lead, shape.n, generator=torch.Generator().manual_seed(seed)).to(HERE)


@st.composite
def problems(draw: st.DrawFn) -> tuple[DenseShape, Loss]:
    classes = draw(st.sampled_from([0, 2, 3, 5]))
    hidden = draw(st.lists(st.integers(1, 5), max_size=2))
    sizes = (draw(st.integers(1, 6)), *hidden, classes if classes > 2 else 1)
    kind = draw(st.sampled_from(["mse", "cross-entropy"])) if classes else "mse"
    return DenseShape(sizes, draw(st.booleans())), Loss(kind, classes)


@settings(max_examples=40, deadline=None)
@given(
    problems(),
    st.integers(1, 4),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([0.01, 1.0, 5.0, math.inf]),
    st.integers(0, 2**31),
)
def test_all_forms_agree_with_the_loop(problem, silos, rows, shared, clip, seed):
    shape, loss = problem
    batch = a_batch(shape.sizes[0], loss.classes, silos=silos, rows=rows, seed=seed)
    theta = a_theta(shape, *([] if shared else [silos]), seed=seed)
    expected = naive(torch_loss(shape, loss), theta, batch, clip=clip)
    size = min(clip, expected.abs().max().item() + 1)
    for form in all_forms(shape, loss):
        found = form(theta, batch, clip=clip)
        assert found.dtype == torch.float64
        # Wide layers round each product to 2^-19 of the largest, and each record to 2^-18 of the
        # clip. A record that is nearly right has slopes such as p - 1, whatever the clip.
        torch.testing.assert_close(found, expected.double(), rtol=1e-5, atol=1e-4 * size + 1e-6)


@settings(max_examples=60, deadline=None)
@given(problems(), st.floats(-12, 12), st.floats(-12, 3), st.floats(-6, 3), st.integers(0, 2**31))
def test_no_record_contributes_more_than_the_clip(problem, features, theta, clip, seed):
    """Without any tolerance, whatever the magnitudes: scales are powers of ten."""
    shape, loss = problem
    batch = a_batch(shape.sizes[0], loss.classes, silos=8, rows=1, seed=seed, scale=10**features)
    batch.sizes[:] = 1
    for form in all_forms(shape, loss):
        found = form(10**theta * a_theta(shape, seed=seed), batch, clip=10**clip)
        assert found.isfinite().all()
        assert found.double().norm(dim=1).max().item() <= 10**clip


@pytest.mark.parametrize("magnitude", [1e19, 1e25, 1e30, 3e38])
def test_the_bound_holds_where_squares_overflow(magnitude: float) -> None:
    shape, loss = DenseShape((3, 1), intercept=True), Loss("mse", 0)
    batch = RecordBatch(
        features=torch.full((1, 1, 3), magnitude, device=HERE),
        target=torch.zeros(1, 1, device=HERE),
        sizes=np.array([1]),
    )
    for form in all_forms(shape, loss):
        found = form(torch.full((4,), 1e-1, device=HERE), batch, clip=1.0)
        assert found.isfinite().all()
        assert found.double().norm().item() <= 1.0


@pytest.mark.parametrize("magnitude", [1e20, 1e37, 3e38])
def test_the_bound_holds_where_factors_are_below_normal_numbers(magnitude: float) -> None:
    """Multiplied in float32, what is kept of a gradient was rounded to twice the clip."""
    shape, loss = DenseShape((1, 1), intercept=True), Loss("cross-entropy", 2)
    batch = RecordBatch(
        features=torch.full((1, 1, 1), magnitude, device=HERE),
        target=torch.ones(1, 1, device=HERE),
        sizes=np.array([1]),
    )
    for form in all_forms(shape, loss):
        for clip in np.geomspace(1e-30, 1.0, 200).tolist():
            found = form(torch.zeros(2, device=HERE), batch, clip=clip)
            assert found.norm().item() <= clip


SHAPES = [
    (DenseShape((13, 1), intercept=True), Loss("cross-entropy", 2)),
    (DenseShape((5, 4, 3), intercept=True), Loss("cross-entropy", 3)),
    (DenseShape((4, 3, 1), intercept=False), Loss("mse", 0)),
]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize(("shape", "loss"), SHAPES, ids=str)
def test_padding_and_records_that_are_not_finite_contribute_nothing(shape, loss, broken):
    batch = a_batch(shape.sizes[0], loss.classes, rows=6)
    batch.sizes[:] = [4, 0, 6]
    theta = a_theta(shape)
    padding = RecordBatch(batch.features.clone(), batch.target.clone(), batch.sizes)
    padding.features[0, 4:], padding.target[1] = broken, broken
    for form in all_forms(shape, loss):
        clean = form(theta, batch, clip=1.0)
        assert torch.equal(form(theta, padding, clip=1.0), clean)
        assert torch.equal(clean[1].cpu(), torch.zeros(shape.n))
        # In place of the last record, which its neighbour lacks.
        poisoned = RecordBatch(batch.features.clone(), batch.target, batch.sizes)
        poisoned.features[2, 5] = broken
        poisoned.features[2, 5, 0] = -broken
        fewer = RecordBatch(batch.features, batch.target, np.array([4, 0, 5]))
        found = form(theta, poisoned, clip=1.0)
        assert torch.equal(found[:2], clean[:2])
        without = form(theta, fewer, clip=1.0)[2]
        assert (found[2] - without).double().norm().item() <= (1 + 1e-5 if broken == 3e38 else 1e-5)


def test_parameters_that_are_not_finite_give_zeros() -> None:
    for shape, loss in SHAPES:
        batch = a_batch(shape.sizes[0], loss.classes)
        for form in all_forms(shape, loss):
            found = form(torch.full((shape.n,), math.nan, device=HERE), batch, clip=1.0)
            assert torch.equal(found.cpu(), torch.zeros(3, shape.n))


def check_layout(shape: DenseShape, loss: Loss, *, silos: int, more: int, seed: int) -> None:
    """A silo alone, beside others and with more padding gives the same bits."""
    batch = a_batch(shape.sizes[0], loss.classes, silos=silos, rows=80, seed=seed)
    theta = a_theta(shape, silos)
    padded = RecordBatch(
        functional.pad(batch.features, (0, 0, 0, more), value=7.0),
        functional.pad(batch.target, (0, more)),
        batch.sizes,
    )
    # The third takes one record after the other.
    for form in all_forms(shape, loss)[:2]:
        together = form(theta, batch, clip=1.0)
        assert torch.equal(form(theta, padded, clip=1.0), together)
        for silo, size in enumerate(batch.sizes.tolist()):
            alone = RecordBatch(
                batch.features[[silo], : max(1, size)],
                batch.target[[silo], : max(1, size)],
                batch.sizes[[silo]],
            )
            assert torch.equal(form(theta[[silo]], alone, clip=1.0)[0], together[silo])
            assert torch.equal(form(theta[silo], alone, clip=1.0)[0], together[silo])


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(1, 9), st.integers(0, 200), st.integers(0, 2**31))
def test_a_silo_does_not_notice_padding_or_neighbours(problem, silos, more, seed):
    check_layout(*problem, silos=silos, more=more, seed=seed)


@pytest.mark.parametrize("hidden", [[], [37], [64, 20]])
def test_nor_does_a_silo_with_a_large_network(hidden: list[int]) -> None:
    shape = DenseShape((301, *hidden, 5), intercept=True)
    check_layout(shape, Loss("cross-entropy", 5), silos=4, more=9, seed=1)


def adverse_features(kind: str, rows: int) -> Tensor:
    """Rows whose gradients at zero parameters and a target of -1 are twice themselves."""
    random = torch.Generator().manual_seed(3)
    alike = torch.tensor([0.6, 0.64, 0.48]).expand(rows, 3) * 10
    match kind:
        case "alike":
            return alike
        case "large and tiny":
            sizes = torch.ones(rows, 1)
            sizes[::2] = 1e-6
            return alike * sizes
        case "cancelling":
            return alike * (2 * torch.randint(2, (rows, 1), generator=random) - 1)
        case "any size":
            return alike * 10 ** (9 * torch.rand(rows, 1, generator=random) - 7)
        case _:
            raise ValueError(kind)


@pytest.mark.parametrize("kind", ["alike", "large and tiny", "cancelling", "any size"])
def test_among_many_rows_of_adverse_sizes_none_moves_the_sum_by_more(kind: str) -> None:
    """In float32 sums some of these passed the clip: by 3e-5 among 1,000 rows, 2e-3 among 10^5."""
    shape, rows = DenseShape((3, 1), intercept=False), 20_000
    features, random = adverse_features(kind, rows).to(HERE), np.random.default_rng(5)
    removed = [0, rows // 3, rows - 1, *random.integers(rows, size=5)]
    # The third adds up one record after the other, in the same float64.
    for form in all_forms(shape, Loss("mse", 0))[:2]:

        def summed(kept: np.ndarray, form: ClippedGradients = form) -> Tensor:
            batch = RecordBatch(
                features[kept][None], -torch.ones(1, len(kept), device=HERE), np.array([len(kept)])
            )
            return form(torch.zeros(3, device=HERE), batch, clip=1.0)[0]

        whole = summed(np.arange(rows))
        moved = [(whole - summed(np.delete(np.arange(rows), row))).norm() for row in removed]
        assert max(moved) <= 1.0


IMAGES = images_shape(Maps(8, 8, 1), filters=(2, 3))
RECORDS_BESIDE_OTHERS = [
    (DenseShape((13, 16, 3), intercept=True), 200),
    (DenseShape((300, 40, 3), intercept=True), 200),
    (DenseShape((784, 128, 3), intercept=True), 67),
    (DenseShape((700, 3), intercept=False), 130),
    (IMAGES, 70),
]


@pytest.mark.parametrize(("shape", "rows"), RECORDS_BESIDE_OTHERS, ids=str)
def test_a_record_moves_the_sum_by_exactly_what_it_contributes(shape, rows):
    """Nobody else's gradient is rounded otherwise for the record's being there, wherever it is.

    In float32 products of a whole batch gradients of others moved by 1e-7 of themselves. Without a
    clip nothing hides that.
    """
    loss = Loss("cross-entropy", 3)
    width = 64 if shape is IMAGES else shape.sizes[0]
    batch = a_batch(width, 3, silos=1, rows=rows)
    theta = 0.3 * a_theta(shape)
    form = clipped_gradients(shape, loss)

    def summed(kept: np.ndarray) -> Tensor:
        size = np.array([len(kept)])
        one = RecordBatch(batch.features[:, kept], batch.target[:, kept], size)
        return form(theta, one, clip=math.inf)[0]

    whole = summed(np.arange(rows))
    sizes = sum(summed(np.array([row])).norm().item() for row in range(rows))
    for row in (0, rows // 3, rows - 1):
        moved = whole - summed(np.delete(np.arange(rows), row))
        rest = (moved - summed(np.array([row]))).norm().item()
        assert rest <= rows * 2.0**-52 * sizes


def test_the_loss_must_be_a_mean_over_records() -> None:
    shape = DenseShape((3, 1), intercept=True)
    with pytest.raises(ValueError, match="use mse"):
        clipped_gradients(shape, Loss("rmse", 0))


def test_products_of_reduced_precision_are_refused() -> None:
    shape, loss = DenseShape((30, 20, 3), intercept=True), Loss("cross-entropy", 3)
    form = clipped_gradients(shape, loss)
    assert isinstance(form, DenseClippedGradients)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(RuntimeError, match="highest"):
            form(a_theta(shape), a_batch(30, 3), clip=1.0)
    finally:
        torch.set_float32_matmul_precision(before)


def test_norms_are_taken_in_full_precision() -> None:
    """A network that computes in bfloat16 still stays within the clip."""

    def reduced(theta: Tensor, features: Tensor, target: Tensor) -> Tensor:
        outputs = theta.bfloat16() @ features.bfloat16()
        return (outputs.float() - target).square()

    batch = a_batch(2000, 0, silos=4, rows=3, scale=100.0)
    batch.sizes[:] = 1
    form = AnyNetworkClippedGradients(reduced, n=2000)
    found = form(torch.randn(2000, device=HERE), batch, clip=1.0)
    norms = found.double().norm(dim=1)
    assert ((norms <= 1) & (norms > 1 - 1e-5)).all()


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(HERE)


@given(st.integers(1, 40), st.integers(1, 70), st.integers(1, 9), st.integers(0, 2**31))
def test_the_order_of_the_sum_says_nothing(rows, inner, width, seed):
    left, right = normal(rows, inner, seed=seed), normal(inner, width, seed=seed + 1)
    left *= 10 ** torch.linspace(-20, 20, rows, device=HERE)[:, None]
    order = torch.from_numpy(np.random.default_rng(seed).permutation(inner))
    found = exact_product(left, right)
    assert torch.equal(exact_product(left[:, order], right[order]), found)
    for row in range(rows):
        assert torch.equal(exact_product(left[[row]], right)[0], found[row])


@pytest.mark.parametrize("inner", [1, 60, 784, 2047, 2048, 5000])
def test_all_sums_are_integers_below_two_to_the_53(inner):
    """As large as they can be: all numbers alike, just below a power of two."""
    largest = math.nextafter(2.0, 0)
    alike = torch.full((3, inner), largest, device=HERE)
    found = exact_product(alike, alike.t())
    bits = (53 - inner.bit_length()) // 2
    rounded = round(float(alike[0, 0]) * 2 ** (bits - 1))
    assert found.tolist() == [[inner * rounded**2 / 4 ** (bits - 1)] * 3] * 3
    assert inner * rounded**2 <= 2**53


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_so_as_a_whole_and_alone(broken):
    left, right = normal(4, 6), normal(6, 3, seed=2)
    clean = exact_product(left, right)
    left[2, 4] = broken
    found = exact_product(left, right)
    assert not found[2].isfinite().any()
    others = [0, 1, 3]
    assert torch.equal(found[others], clean[others])


@pytest.mark.parametrize("inner", [10, 784, 4000])
def test_it_is_as_near_as_numbers_of_21_bits_allow(inner):
    left, right = normal(50, inner), normal(inner, 20, seed=2)
    exact = left.double() @ right.double()
    lengths = left.double().norm(dim=1, keepdim=True) * right.double().norm(dim=0)
    assert ((exact_product(left, right) - exact).abs() / lengths).max() < 2.0**-18
    assert torch.equal(exact_product(torch.zeros_like(left[:2]), right).cpu(), torch.zeros(2, 20))


def test_the_largest_and_smallest_numbers_of_single_precision():
    left = torch.tensor([[3e38, -3e38, 1e38], [1e-45, 2e-45, 0.0]], device=HERE)
    right = torch.tensor([[3e38], [3e38], [3e38]], device=HERE)
    found = exact_product(left, right)
    assert found.isfinite().all()
    torch.testing.assert_close(found, left.double() @ right.double(), rtol=1e-5, atol=1e70)
