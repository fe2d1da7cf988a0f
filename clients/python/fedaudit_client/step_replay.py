"""Replays one step of a training that runs elsewhere, on a dataset and on a neighbour of it, with
the noise held. Needs numpy; torch's generators are held where torch is loaded.

What differs between the two may be no more than what the noise is meant to hide. It tests the code
with these data, and proves nothing.
"""

import math
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Stage = Literal["sampling", "clip", "sum", "noise", "normaliser"]
Adjacency = Literal["add-or-remove-one", "replace-one"]
_LEVEL = 1e-7
"""Level of each test; all tests of a replay together reject an honest step once in a million."""
_FAR = 5.2
"""Standard deviations that are passed at this level."""
_ROUNDING = 1e-4
"""Share of a clip: single precision, and the small numbers that libraries add to a norm."""


@dataclass(frozen=True)
class Finding:
    """A stage of a step that is not what was declared."""

    stage: Stage
    text: str
    allowed: float
    measured: float


@dataclass
class StepReplay:
    """What a replay found."""

    findings: list[Finding] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    """Figures of all tests that were made, in clips where they are lengths."""

    @property
    def broken(self) -> Stage | None:
        """The stage of the first finding."""
        return self.findings[0].stage if self.findings else None

    def add(self, stage: Stage, text: str, *, allowed: float, measured: float) -> None:
        """One more finding."""
        self.findings.append(Finding(stage, text, allowed, measured))


class RecordedDraws:
    """Noise of a source that has no state to be held: a step calls it as it would the source, and a
    replay plays the same draws again."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw
        self._kept: list[Any] = []
        self._place = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The next draw."""
        if self._place == len(self._kept):
            self._kept.append(self._draw(*arguments, **named))
        self._place += 1
        return self._kept[self._place - 1]

    def get_state(self) -> int:
        """Where the next draw comes from."""
        return self._place

    def set_state(self, place: int) -> None:
        """Play from there again."""
        self._place = place


def _states(named: Sequence[Any]) -> list[Any]:
    """Of all generators that a step may draw from: Python's, numpy's, torch's and those named."""
    torch = sys.modules.get("torch")
    of_torch = None if torch is None else torch.get_rng_state()
    own = [
        one.bit_generator.state if isinstance(one, np.random.Generator) else one.get_state()
        for one in named
    ]
    return [random.getstate(), np.random.get_state(), of_torch, *own]


def _restore(named: Sequence[Any], states: Sequence[Any]) -> None:
    of_python, of_numpy, of_torch, *own = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    if of_torch is not None:
        sys.modules["torch"].set_rng_state(of_torch)
    for generator, state in zip(named, own, strict=True):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)


def replay(
    step: Callable[[Any], ArrayLike],
    data: Any,
    neighbour: Any,
    *,
    clip: float,
    noise_multiplier: float,
    divisor: float = 1.0,
    louder: Any = None,
    adjacency: Adjacency = "add-or-remove-one",
    generators: Sequence[Any] = (),
    draws: int = 100,
) -> StepReplay:
    """Whether a step on `data` and on `neighbour` releases what was declared.

    `step` takes a dataset and returns the noised sum of clipped contributions, over `divisor`: one
    that starts from the same parameters each time. The unit in which the neighbours differ has to
    be loud: opposite to the others, and longer than they are together. `louder`: the data
    with one that is louder still, which separates a missing clip from a wrong factor.
    `generators`: numpy's or torch's that only the step has, or `RecordedDraws`. Raises
    ValueError where the noise cannot be held.
    """
    found = StepReplay()
    unit, reach = divisor / clip, 2.0 if adjacency == "replace-one" else 1.0

    def released(dataset: Any) -> Floats:
        return unit * np.asarray(step(dataset), dtype=np.float64).ravel()

    start = _states(generators)
    first = released(data)
    behind = _states(generators)
    _restore(generators, start)
    if not np.array_equal(first, released(data)):
        raise ValueError(
            "the same step with the same generators gives another release: name those that it has "
            "for itself in `generators`, let it draw from `RecordedDraws`, or start it from "
            "the same parameters each time"
        )
    _restore(generators, start)
    apart = first - released(neighbour)
    _restore(generators, behind)
    again = released(data)
    _restore(generators, behind)
    _judge_distance(found, apart, again - released(neighbour), reach=reach)
    if louder is not None:
        _restore(generators, start)
        _judge_loudness(found, apart, released(louder) - (first - apart), reach=reach)
    _judge_noise(found, [released(data) for _ in range(draws)], declared=noise_multiplier)
    order: list[Stage] = ["clip", "normaliser", "sum", "noise"]
    found.findings.sort(key=lambda one: order.index(one.stage))
    return found


def _judge_distance(found: StepReplay, apart: Floats, again: Floats, *, reach: float) -> None:
    distance, moved = float(np.linalg.norm(apart)), float(np.abs(apart - again).max())
    found.measured |= {"distance": distance, "distance_follows_noise": moved}
    if moved > 10 * _ROUNDING * max(1.0, distance):
        text = "what differs between neighbours follows the noise: its factor depends on the data"
        found.add("normaliser", text, allowed=0.0, measured=moved)
    elif distance > reach * (1 + _ROUNDING) + _ROUNDING:
        text = f"one unit moves the release by {distance:.4g} clips, and {reach:g} are declared"
        found.add("sum", text, allowed=reach, measured=distance)


def _judge_loudness(found: StepReplay, apart: Floats, louder: Floats, *, reach: float) -> None:
    """A distance that grows with the unit is not clipped; one that does not has a wrong factor."""
    quiet, loud = float(np.linalg.norm(apart)), float(np.linalg.norm(louder))
    found.measured["distance_of_louder"] = loud
    if loud <= reach * (1 + _ROUNDING) + _ROUNDING:
        return
    found.findings = [one for one in found.findings if one.stage != "sum"]
    if loud > 1.05 * quiet:
        text = f"a louder unit moves the release further, by {loud:.4g} clips: nothing bounds it"
        found.add("clip", text, allowed=reach, measured=loud)
    elif not found.findings:
        text = f"any loud unit moves the release by {loud:.4g} clips: a factor is wrong"
        found.add("normaliser", text, allowed=reach, measured=loud)


def _judge_noise(found: StepReplay, releases: Sequence[Floats], *, declared: float) -> None:
    drawn = np.stack(releases)
    if len({one.tobytes() for one in drawn}) < len(drawn):
        text = (
            "the same noise comes again, or none: a generator is seeded anew, or noise is missing"
        )
        found.add("noise", text, allowed=declared, measured=0.0)
        return
    left = drawn - drawn.mean(axis=0)
    freedom = (len(drawn) - 1) * drawn.shape[1]
    squares = float(np.square(left).sum())
    deviation = math.sqrt(squares / freedom)
    found.measured["noise_multiplier"] = deviation
    if _chi_square(squares / declared**2, freedom) < -_FAR:
        text = f"noise has a deviation of {deviation:.4g} clips, and {declared:.4g} are declared"
        found.add("noise", text, allowed=declared, measured=deviation)
    together = float((left[1:] * left[:-1]).sum()) / squares
    found.measured["noise_follows_itself"] = together
    # Without dependence it is about normal around -1 / draws, with 1 / sqrt(freedom).
    if abs(together + 1 / len(drawn)) > 2 * _FAR / math.sqrt(freedom):
        text = "the noise of one step follows that of the step before"
        found.add("noise", text, allowed=0.0, measured=together)


def _chi_square(value: float, freedom: int) -> float:
    """About standard normal (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return float(((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def replay_sampler(
    epoch: Callable[[], Iterable[Sequence[int]]], *, population: int, rate: float, epochs: int = 20
) -> StepReplay:
    """Whether batches are drawn by Poisson's coins of this rate, anew for each step.

    `epoch` gives the indices of each batch of one more epoch, such as `lambda:
    list(loader.batch_sampler)`.
    """
    found = StepReplay()
    drawn = [
        [np.unique(np.fromiter(map(int, batch), dtype=np.int64)) for batch in epoch()]
        for _ in range(epochs)
    ]
    steps = [batch for one in drawn for batch in one]
    sizes = np.array([len(one) for one in steps])
    included, coins = int(sizes.sum()), population * len(steps)
    found.measured |= {"rate": included / coins, "batch_deviation": float(sizes.std())}
    keys = [tuple(batch.tobytes() for batch in one) for one in drawn]
    if (again := len(keys) - len(set(keys))) > 0:
        text = "an epoch repeats the batches of another: coins are seeded anew"
        found.add("sampling", text, allowed=0.0, measured=float(again))
        return found
    if included > rate * coins and _chernoff(included, coins, rate) < math.log(_LEVEL):
        text = f"a unit enters a step with a chance of {included / coins:.4g}, not of {rate:.4g}"
        found.add("sampling", text, allowed=rate, measured=included / coins)
        return found
    spread = float(np.square(sizes - population * rate).sum()) / (population * rate * (1 - rate))
    if len(steps) > 1 and abs(_chi_square(spread, len(steps))) > 2 * _FAR:
        text = "batches do not vary in size as Poisson's coins make them"
        declared = math.sqrt(population * rate * (1 - rate))
        found.add("sampling", text, allowed=declared, measured=float(sizes.std()))
    _judge_epochs(found, drawn, population=population, rate=rate)
    return found


def _judge_epochs(
    found: StepReplay, drawn: Sequence[Sequence[NDArray[Any]]], *, population: int, rate: float
) -> None:
    """Whether units enter each epoch alike often."""
    counts = np.zeros((len(drawn), population))
    for place, one in enumerate(drawn):
        for batch in one:
            counts[place, batch] += 1
    steps = np.array([len(one) for one in drawn])
    variance = float((steps * population).sum()) * rate * (1 - rate)
    spread = float(np.square(counts - steps[:, None] * rate).sum()) / variance
    found.measured["entries_spread"] = spread
    # Each of the cells has a variance of a squared deviation of at most about 2 + 1 / mean.
    error = math.sqrt((2 + 1 / (rate * steps.mean())) / counts.size)
    if spread < 1 - 2 * _FAR * error:
        text = "units enter each epoch about alike often: their coins depend on one another"
        found.add("sampling", text, allowed=1.0, measured=spread)


def _chernoff(count: int, coins: int, rate: float) -> float:
    """The logarithm of an upper bound on the chance of so many or more."""
    share = min(count / coins, 1 - 1e-15)
    gain = share * math.log(share / rate) + (1 - share) * math.log((1 - share) / (1 - rate))
    return -coins * gain
