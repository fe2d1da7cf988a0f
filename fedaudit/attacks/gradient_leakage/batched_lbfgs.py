"""L-BFGS on many functions side by side, each with a history and step sizes of its own.

The two-loop recursion is that of Nocedal (1980); the line search brackets a step that meets the
weak conditions of Wolfe by halving and doubling (Lewis and Overton 2013). What one function does
moves no other one: a batch gives what its functions give one by one, but for rounding.
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


@dataclass
class _Pair:
    """What one step told of the curvature; the first axis is that of the functions."""

    move: Tensor
    turn: Tensor
    """How the slope changed with the move."""
    weight: Tensor
    """One over their inner product; 0 for a function that it told nothing of."""


@dataclass
class _State:
    """Where the functions stand that still move; the first axis is theirs."""

    which: Tensor
    points: Tensor
    values: Tensor
    slopes: Tensor
    scale: Tensor
    """The size of the inverse curvature, by the newest pair."""
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


def minimise(
    function: Function,
    start: Tensor,
    *,
    iterations: int,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Tensor, Tensor]:
    """The last points [functions, d] and values [functions] from `start`.

    A function rests where its slope is 0 or no step along its direction makes it smaller, that of
    steepest descent included. `progress` is given the share of iterations done.
    """
    points = start.clone()
    state = _first(function, points)
    values = state.values.clone()
    for iteration in range(iterations):
        progress(iteration / iterations)
        if not len(state.which):
            break
        has_history = state.scale > 0
        moved = _search_line(function, state, _direction(state))
        points[state.which], values[state.which] = state.points, state.values
        # One that is stuck forgets its history and tries the steepest descent before it rests.
        _forget(state, ~moved)
        state.keep(moved | has_history)
    return points, values


def _first(function: Function, points: Tensor) -> _State:
    which = torch.arange(len(points), device=points.device)
    values, slopes = function(points, which)
    scale = torch.zeros_like(values)
    return _State(which, points.clone(), values, slopes, scale, deque(maxlen=_HISTORY))


def _direction(state: _State) -> Tensor:
    """Minus the slope times the inverse of the curvature, as far as the history tells it."""
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


def _forget(state: _State, stuck: Tensor) -> None:
    if stuck.any():
        state.scale[stuck] = 0
        for pair in state.pairs:
            pair.weight[stuck] = 0


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
        # The lowest so far counts where the trials run out before the slope is flat.
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
    """Takes the new points over, and what each function whose curvature is positive told of it."""
    move, turn = points - state.points, slopes - state.slopes
    curvature, length = (move * turn).sum(-1), turn.square().sum(-1)
    told = curvature > _LEAST_CURVATURE * length
    none = torch.zeros_like(curvature)
    state.pairs.append(_Pair(move, turn, torch.where(told, 1 / curvature, none)))
    state.scale = torch.where(told, curvature / length, state.scale)
    state.points, state.values, state.slopes = points, values, slopes
