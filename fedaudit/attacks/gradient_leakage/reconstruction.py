"""Images from updates, by the method of a spec.

What a layer's update shows by itself: the gradient of a dense layer for one row is the outer
product of the slopes at its outputs and of its inputs, with a 1 for the bias. Under noise of the
same size in every component the nearest such product is the likeliest; it consists of the leading
singular vectors. So the first dense layer gives away its inputs, behind convolutions as well: more
numbers than an image has pixels, from which the image is found by first derivatives alone. And the
last layer gives away the label.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.update_match import UpdateMatch
from fedaudit.networks.shape import Convolution, Flattening, Layer, NetworkShape
from fedaudit.networks.stacked_network import first_values, operation_outputs, parameters_at
from fedaudit.randomness import Purpose, Source, normals
from fedaudit.spec.attacks import GradientLeakageSpec

SMOOTHNESS = 1e-2
"""Weight of the mean total variation beside the cosine, whose distance is at most 2."""
_SMOOTHNESS_OF_NOISE, _LEAST_SMOOTHNESS = 1e-2, 1e-5
"""Weight of the variation in a search by features. Found by trial on handwriting: in proportion to
the noise that the attacker sees in the features, but never nothing."""
_ROUNDNESS = 1e-4
"""Below about its root, differences of pixels count by their squares: L-BFGS needs slopes that do
not jump."""
_SPREAD = 0.3
"""Spread of the starting points of a search by features, around grey."""

Share = Callable[[float], None]


@dataclass(frozen=True)
class Guess:
    """What an attacker makes of some updates."""

    images: Tensor
    """float64 [updates, pixels], between 0 and 1."""
    labels: Tensor
    """int64 [updates]; -1 if it needs none."""
    distances: Tensor
    """[updates]: how far the guess's update is from the one that was sent, in the measure of the
    method; 0 if nothing is searched for."""


@dataclass(frozen=True)
class Reconstruction:
    """An attacker with a network and what it knows of the clients."""

    shape: NetworkShape
    size: tuple[int, int, int]
    """Height, width, channels of an image."""
    classes: int
    spec: GradientLeakageSpec

    def __call__(
        self, theta: Tensor, targets: Tensor, *, numbers: list[int], source: Source, progress: Share
    ) -> Guess:
        """The images behind updates `targets` [updates, n] of the hypothesis `theta` [n].

        `numbers` [updates] give each update its starting points. Everything is float64.
        """
        match self.spec.method:
            case "first-layer":
                images, count = _invert_first_layer(self.shape, targets), len(targets)
                return Guess(images.clamp(0, 1), torch.full((count,), -1), torch.zeros(count))
            case "features":
                start = self._start(numbers, 0, source).to(targets)
                return self._search_features(theta, targets, start, progress=progress)
            case "lbfgs" | "adam-cosine":
                starts = [
                    self._start(numbers, restart, source).to(targets)
                    for restart in range(self.spec.restarts)
                ]
                return self._search_updates(theta, targets, starts, progress=progress)
            case _:
                assert_never(self.spec.method)

    def _start(self, numbers: list[int], restart: int, source: Source) -> Tensor:
        """Standard normal numbers, for an image and the logits of its label."""
        count = self._pixels + self.classes
        words = source.words(
            purpose=Purpose.ATTACK,
            round_=1 + restart,
            counters=np.array(numbers),
            count=count + count % 2,
        )
        drawn = normals(words, np.float64).reshape(len(numbers), -1)
        return torch.from_numpy(drawn[:, :count].astype(np.float64))

    @property
    def _pixels(self) -> int:
        return int(np.prod(self.size))

    def _search_updates(
        self, theta: Tensor, targets: Tensor, starts: list[Tensor], *, progress: Share
    ) -> Guess:
        """The search for images with the same updates, of which the best counts that was found from
        one of the `starts` [updates, numbers]. Adam searches for smooth ones."""
        spec, pixels, known = self.spec, self._pixels, None
        if spec.label != "optimised":
            own = _infer_labels(self.shape, targets)
            known = functional.one_hot(own, self.classes).to(targets)
        match = UpdateMatch(self.shape, theta, targets)

        def labels_of(points: Tensor, which: Tensor) -> Tensor:
            """Shares of classes: [some, classes]."""
            return points[:, pixels:].softmax(-1) if known is None else known[which]

        def values(points: Tensor, which: Tensor) -> Tensor:
            images = points[:, :pixels]
            inner, squared, sent = match.products(images, labels_of(points, which), which)
            if spec.method == "lbfgs":  # the squared distance over the length (Zhu et al. 2019)
                return (squared - 2 * inner + sent) / sent
            # One minus the cosine (Geiping et al. 2020).
            rough = SMOOTHNESS * _variation(images, self.size, Tensor.abs)
            return 1 - inner / (squared * sent).sqrt() + rough

        minimised: Callable[..., tuple[Tensor, Tensor]] = minimise
        if spec.method == "adam-cosine":
            minimised = partial(minimise_signed, boxed=pixels)
        best = None
        for restart, start in enumerate(starts):

            def report(share: float, restart: int = restart) -> None:
                progress((restart + share) / len(starts))

            points, found = minimised(
                values,
                start if known is None else start[:, :pixels],
                iterations=spec.searched_for,
                progress=report,
            )
            labels = labels_of(points, _every(points)).argmax(-1)
            new = points[:, :pixels].clamp(0, 1), labels, found
            best = best or new
            better = found < best[2]
            for kept, other in zip(best, new, strict=True):
                kept[better] = other[better]
        assert best is not None
        return Guess(*best)

    def _search_features(
        self, theta: Tensor, targets: Tensor, start: Tensor, *, progress: Share
    ) -> Guess:
        """The search for images with the inputs of the first dense layer, from `start` [updates,
        numbers]: its value is their squared distance over their squared length, and roughness."""
        dense = next(layer for layer in self.shape.layers if isinstance(layer, Layer))
        wanted, noise = _invert_layer(dense, targets)
        smoothness = (_SMOOTHNESS_OF_NOISE * noise).clamp_min(_LEAST_SMOOTHNESS)

        def features_of(images: Tensor) -> Tensor:
            parameters = iter(parameters_at(self.shape, theta))
            values = first_values(self.shape, images)
            for operation in self.shape.operations:
                if isinstance(operation, Layer):
                    break
                own = next(parameters) if isinstance(operation, Convolution) else None
                values = operation_outputs(operation, values, own)
            return values

        def values(images: Tensor, which: Tensor) -> Tensor:
            own = wanted[which]
            apart = (features_of(images) - own).square().sum(-1)
            rough = _variation(images, self.size, lambda one: (one.square() + _ROUNDNESS).sqrt())
            return apart / own.square().sum(-1) + smoothness[which] * rough

        points, found = minimise(
            values,
            0.5 + _SPREAD * start[:, : self._pixels],
            iterations=self.spec.searched_for,
            progress=progress,
        )
        return Guess(points.clamp(0, 1), torch.full((len(points),), -1), found)


def _variation(
    images: Tensor, size: tuple[int, int, int], length: Callable[[Tensor], Tensor]
) -> Tensor:
    """The mean length of differences of neighbouring pixels, down and across: [images]."""
    maps = torch.unflatten(images, 1, size)
    down, across = (length(maps.diff(dim=axis)).mean((1, 2, 3)) for axis in (1, 2))
    return down + across


def _invert_first_layer(shape: NetworkShape, targets: Tensor) -> Tensor:
    """The image behind each update [updates, n], from a dense first layer: [updates, pixels].

    Raises ValueError if the first layer is a convolution.
    """
    first = shape.layers[0]
    if isinstance(first, Convolution):
        raise ValueError("the first layer is a convolution")
    images, _ = _invert_layer(first, targets)
    if shape.image is not None and any(isinstance(one, Flattening) for one in shape.operations):
        # The layer's inputs hold channels outermost, and rows hold them innermost.
        height, width, channels = shape.image
        images = torch.unflatten(images, 1, (channels, height, width))
        images = images.permute(0, 2, 3, 1).flatten(1)
    return images


def _invert_layer(layer: Layer, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The inputs of a dense layer [updates, inputs], from updates [updates, n] of one image each,
    and about how large their error is beside them [updates], by what of the update is left over.

    The weights' slopes over the bias's, as in Phong et al. 2017, taken over all units at once.
    """
    _, inputs, left_over = _leading_product(layer, targets)
    values, noise = inputs[:, :-1] / inputs[:, -1:], (left_over / max(1, layer.outputs - 1)).sqrt()
    return values.nan_to_num(0.0, 0.0, 0.0), noise.nan_to_num(0.0, 0.0, 0.0)


def _infer_labels(shape: NetworkShape, targets: Tensor) -> Tensor:
    """The class of the one image behind each update [updates, n]: int64 [updates].

    Cross-entropy slopes down at the output of the true class alone (Zhao et al. 2020).
    """
    last = shape.layers[-1]
    assert isinstance(last, Layer)
    slopes, _, _ = _leading_product(last, targets)
    if last.outputs == 1:  # the logit of the second of two classes
        return (slopes[:, 0] < 0).long()
    return slopes.argmin(-1)


def _leading_product(layer: Layer, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest outer product to each update's part in a layer: slopes [updates, outputs], inputs
    [updates, inputs + 1], the last one, that of the bias, not negative, and [updates] the squared
    length of the rest over that of the product."""
    if layer.bias is None:
        raise ValueError("a layer without bias does not show the size of its inputs")
    weights = torch.unflatten(targets[:, layer.weights], 1, layer.weight_sizes)
    whole = torch.cat((weights, targets[:, layer.bias, None]), dim=-1)
    wide = layer.outputs <= layer.inputs
    smaller = whole @ whole.transpose(1, 2) if wide else whole.transpose(1, 2) @ whole
    found = torch.linalg.eigh(smaller)
    leading = found.eigenvectors[..., -1]
    other = torch.einsum("ujk,uj->uk" if wide else "ujk,uk->uj", whole, leading)
    slopes, inputs = (leading, other) if wide else (other, leading)
    sign = torch.where(inputs[:, -1:] < 0, -1.0, 1.0)
    lengths = found.eigenvalues.clamp_min(0)
    return slopes * sign, inputs * sign, lengths[:, :-1].sum(-1) / lengths[:, -1]


Function = Callable[[Tensor, Tensor], Tensor]
"""Values [some] at points [some, d] of the functions `which` [some], differentiable by points."""

_HISTORY = 20
_DECREASE, _CURVATURE = 1e-4, 0.9
_TRIALS = 20
"""Steps tried on one line."""
_LEAST_CURVATURE = 1e-12
_STEP, _SHRINK = 0.1, 0.1
_SHRINKS_AT = (3 / 8, 5 / 8, 7 / 8)
_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8


@dataclass
class _Pair:
    """What one step showed of the curvature; the first axis is that of the functions."""

    move: Tensor
    turn: Tensor
    """How the slope changed with the move."""
    weight: Tensor
    """One over their inner product; 0 for a function of which it showed nothing."""


@dataclass
class _State:
    """The functions that still move; the first axis is theirs."""

    which: Tensor
    points: Tensor
    values: Tensor
    slopes: Tensor
    scale: Tensor
    """The size of the inverse curvature by the newest pair; 0 without a history."""
    pairs: deque[_Pair]
    """The newest last."""

    def keep(self, kept: Tensor) -> None:
        """Leaves out the functions that are not `kept`."""
        if kept.all():
            return
        for part in (self, *self.pairs):
            for name, value in vars(part).items():
                if isinstance(value, Tensor):
                    setattr(part, name, value[kept])

    def forget(self, stuck: Tensor) -> None:
        """Removes the history of the functions that are `stuck`."""
        self.scale[stuck] = 0
        for pair in self.pairs:
            pair.weight[stuck] = 0


def _with_slopes(function: Function, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """Values [some] and slopes [some, d] at points [some, d]."""
    points = points.detach().requires_grad_()
    with torch.enable_grad():
        values = function(points, which)
        (slopes,) = torch.autograd.grad(values.sum(), points)
    return values.detach(), slopes


def _every(points: Tensor) -> Tensor:
    """The numbers of all functions, of which there are points."""
    return torch.arange(len(points), device=points.device)


def minimise(
    function: Function,
    start: Tensor,
    *,
    iterations: int,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Tensor, Tensor]:
    """The last points [functions, d] and values [functions] of L-BFGS from `start`.

    A function rests where its slope is 0 or no step along its direction makes it smaller, including
    that of steepest descent. `progress` is given the share of iterations done.
    """
    points, which = start.clone(), _every(start)
    found, slopes = _with_slopes(function, points, which)
    values, none = found.clone(), torch.zeros_like(found)
    state = _State(which, points.clone(), found, slopes, none, deque(maxlen=_HISTORY))
    for iteration in range(iterations):
        progress(iteration / iterations)
        if not len(state.which):
            break
        has_history = state.scale > 0
        moved = _search_line(function, state, _direction(state))
        points[state.which], values[state.which] = state.points, state.values
        # One that is stuck forgets its history and tries the steepest descent before it rests.
        state.forget(~moved)
        state.keep(moved | has_history)
    return points, values


def _direction(state: _State) -> Tensor:
    """Minus the slope times the inverse of the curvature, as far as the history shows it."""
    found, shares = state.slopes.clone(), []
    for pair in reversed(state.pairs):
        share = pair.weight * (pair.move * found).sum(-1)
        found -= share[:, None] * pair.turn
        shares.append(share)
    # Before there is any, a first step of length 1 at most.
    first = 1 / state.slopes.norm(dim=-1).clamp_min(1)
    found *= torch.where(state.scale > 0, state.scale, first)[:, None]
    for pair in state.pairs:
        share = shares.pop() - pair.weight * (pair.turn * found).sum(-1)
        found += share[:, None] * pair.move
    return -found


def _search_line(function: Function, state: _State, direction: Tensor) -> Tensor:
    """Moves each function along its direction; returns which of them moved: bool [functions]."""
    descent = (state.slopes * direction).sum(-1)
    step = torch.ones_like(descent)
    low, high = torch.zeros_like(step), torch.full_like(step, torch.inf)
    best = (state.points.clone(), state.values.clone(), state.slopes.clone())
    moved = torch.zeros_like(step, dtype=torch.bool)
    open_ = (descent < 0).nonzero()[:, 0]
    for _ in range(_TRIALS):
        if not len(open_):
            break
        tried = state.points[open_] + step[open_, None] * direction[open_]
        values, slopes = _with_slopes(function, tried, state.which[open_])
        bound = state.values[open_] + _DECREASE * step[open_] * descent[open_]
        lower = values <= bound  # False where a value is no number
        flat = (slopes * direction[open_]).sum(-1) >= _CURVATURE * descent[open_]
        # The lowest so far counts if the trials run out before the slope is flat.
        better = lower & (values <= best[1][open_])
        for kept, new in zip(best, (tried, values, slopes), strict=True):
            kept[open_[better]] = new[better]
        moved[open_[better]] = True
        high[open_[~lower]] = step[open_[~lower]]
        low[open_[lower]] = step[open_[lower]]
        middle = torch.where(high.isinf(), 2 * low, (low + high) / 2)
        open_ = open_[~(lower & flat)]
        step[open_] = middle[open_]
    _remember(state, *best)
    return moved


def _remember(state: _State, points: Tensor, values: Tensor, slopes: Tensor) -> None:
    """Takes over the new points, and the curvature of each function for which it is positive."""
    move, turn = points - state.points, slopes - state.slopes
    curvature, length = (move * turn).sum(-1), turn.square().sum(-1)
    positive = curvature > _LEAST_CURVATURE * length
    weight = torch.where(positive, 1 / curvature, torch.zeros_like(curvature))
    state.pairs.append(_Pair(move, turn, weight))
    state.scale = torch.where(positive, curvature / length, state.scale)
    state.points, state.values, state.slopes = points, values, slopes


def minimise_signed(
    function: Function,
    start: Tensor,
    *,
    boxed: int,
    iterations: int,
    progress: Callable[[float], None],
) -> tuple[Tensor, Tensor]:
    """The last points [functions, d] and values [functions] of signed Adam from `start`.

    The first `boxed` components of each are kept within 0 and 1. Step sizes shrink to a tenth after
    three, five and seven eighths of the iterations. `progress` is given the share of them done.
    """
    points, which = start.clone(), _every(start)
    mean, square = torch.zeros_like(points), torch.zeros_like(points)
    for iteration in range(iterations):
        progress(iteration / iterations)
        signs = _with_slopes(function, points, which)[1].sign()
        mean = _MEAN * mean + (1 - _MEAN) * signs
        square = _SQUARE * square + (1 - _SQUARE) * signs.square()
        taken = iteration + 1
        step = _STEP * _SHRINK ** sum(iteration >= part * iterations for part in _SHRINKS_AT)
        root = (square / (1 - _SQUARE**taken)).sqrt() + _LEAST
        points = points - step * (mean / (1 - _MEAN**taken)) / root
        points[:, :boxed] = points[:, :boxed].clamp(0, 1)
    return points, _with_slopes(function, points, which)[0]
