"""Searches on many functions side by side; none of them influences another.

L-BFGS: each function has a history and step sizes for itself. The two-loop recursion is that of
Nocedal (1980); the line search brackets a step that meets the weak conditions of Wolfe by halving
and doubling (Lewis and Overton 2013). A batch gives what its functions give one by one, but for
rounding.

Signed Adam: on the signs of slopes within a box, as gradients are inverted by Geiping et al.
(2020).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Values [some] and slopes [some, d] at points [some, d] of the functions `which` [some]."""

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
    points, which = start.clone(), torch.arange(len(start), device=start.device)
    found, slopes = function(points, which)
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
        values, slopes = function(tried, state.which[open_])
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
    slopes_of: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    boxed: int,
    iterations: int,
    progress: Callable[[float], None],
) -> Tensor:
    """The last points [functions, d] of signed Adam from `start`.

    The first `boxed` components of each are kept within 0 and 1. Step sizes shrink to a tenth after
    three, five and seven eighths of the iterations. `progress` is given the share of them done.
    """
    points = start.clone()
    mean, square = torch.zeros_like(points), torch.zeros_like(points)
    for iteration in range(iterations):
        progress(iteration / iterations)
        signs = slopes_of(points).sign()
        mean = _MEAN * mean + (1 - _MEAN) * signs
        square = _SQUARE * square + (1 - _SQUARE) * signs.square()
        taken = iteration + 1
        step = _STEP * _SHRINK ** sum(iteration >= part * iterations for part in _SHRINKS_AT)
        root = (square / (1 - _SQUARE**taken)).sqrt() + _LEAST
        points = points - step * (mean / (1 - _MEAN**taken)) / root
        points[:, :boxed] = points[:, :boxed].clamp(0, 1)
    return points
