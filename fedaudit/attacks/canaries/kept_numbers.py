"""Numbers of every release, kept until a training has ended, so that releases can be summed."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_set import CanarySet
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    MOST_RELEASES,
    QuietSum,
    releases_in_sum,
    summed_epsilon,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw

_OTHERS = 2048
"""Numbers beside those that canaries reach, in all releases of one time together."""
_LEAST_OTHERS = 4


def most_kept(canaries: int) -> int:
    """Numbers kept of all releases of one time, at most, where canaries send along axes."""
    return canaries + max(_LEAST_OTHERS * canaries, _OTHERS)


@dataclass(frozen=True, eq=False)
class _Series:
    """Releases to canaries that share them, one after the other: [releases, numbers]."""

    released: list[NDArray[np.float64]]
    signal: list[NDArray[np.float64]]


class KeptNumbers:
    """Of each release, in clips: what is left of it, and the sum of the canaries in it, in the
    numbers that canaries reach and in some others."""

    def __init__(self, canaries: CanarySet) -> None:
        self._canaries = canaries
        self._series: defaultdict[int, _Series] = defaultdict(lambda: _Series([], []))
        self._columns: dict[int, NDArray[np.int64]] = {}
        self._groups = len(np.unique(canaries.release))
        self._model: tuple[NDArray[np.float64], NDArray[np.float64], int] | None = None

    def see(
        self, released: NDArray[np.float64], signal: NDArray[np.float64], groups: NDArray[np.int64]
    ) -> None:
        """Keeps releases [releases, n], of the canaries that share each (`CanarySet.release`)."""
        for group, one, sent in zip(groups.tolist(), released, signal, strict=True):
            series, columns = self._series[group], self._columns_of(group, len(one))
            if len(series.released) < MOST_RELEASES:
                series.released.append(one[columns])
                series.signal.append(sent[columns])

    def see_model(
        self, released: NDArray[np.float64], signal: NDArray[np.float64], *, moment: int
    ) -> None:
        """Keeps a second release [n] of what all canaries sent at a time, counted from 0."""
        columns = self._columns_of(0, len(released))
        self._model = released[columns], signal[columns], moment

    def epsilon(self, law: ReleaseLaw, delta: float, *, significance: float) -> float:
        """The bound, wrong with a chance of at most `significance`; 0 for fewer than two releases,
        or for fewer numbers than their covariance needs."""
        released, signal, moments = self._together()
        if len(released) < 2:
            return 0.0
        # Coins and directions alone decide which numbers measure the noise.
        order = np.argsort(np.square(signal).sum(0), kind="stable")
        measuring, testing = np.split(order, [len(order) // 2])
        found = QuietSum.of_noise(_noise(released[:, measuring], signal[:, measuring]), moments)
        ratio = found.least_ratio(
            released[:, testing], signal[:, testing], significance=significance
        )
        each = np.abs((moments == np.unique(moments)[:, None]) @ found.weights)
        return summed_epsilon(law, ratio * each, delta)

    def _together(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """[releases, numbers], what was released and the signal in it, and the time of each; of the
        first releases, as many as half of the series have."""
        nothing = np.zeros((0, 0))
        if not self._series:
            return nothing, nothing, np.zeros(0, np.int64)
        lengths = sorted(len(one.released) for one in self._series.values())
        middle = lengths[len(lengths) // 2]
        chosen = [one for one in self._series.values() if len(one.released) >= middle]
        numbers = sum(len(one.released[0]) for one in chosen)
        count = releases_in_sum(middle, numbers)
        released, signal = (
            np.concatenate([np.array(part[:count]).reshape(count, -1) for part in parts], axis=1)
            for parts in ([one.released for one in chosen], [one.signal for one in chosen])
        )
        moments = np.arange(count)
        if self._model is None or not count:
            return released, signal, moments
        again, sent, moment = self._model
        return (np.vstack([released, again]), np.vstack([signal, sent]), np.append(moments, moment))

    def _columns_of(self, group: int, n: int) -> NDArray[np.int64]:
        if group not in self._columns:
            canaries = self._canaries
            own = canaries.directions.reached(np.flatnonzero(canaries.release == group))
            others = max(_LEAST_OTHERS, -(-_OTHERS // self._groups))
            spread = np.linspace(0, n - 1, min(n, len(own) + others)).astype(np.int64)
            self._columns[group] = np.union1d(own, np.setdiff1d(spread, own)[:others])
        return self._columns[group]


def _noise(released: NDArray[np.float64], signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left of releases [releases, numbers] without their signal, by least squares."""
    weight = float(np.square(signal).sum())
    length = float((released * signal).sum()) / weight if weight else 0.0
    return released - length * signal
