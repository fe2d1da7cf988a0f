"""What canaries send: a direction each, orthogonal to those it shares a release with where there is
room for it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.randomness import Purpose, Source, normals, uniforms

_PAIRS_AT_ONCE = 1024


class Directions(ABC):
    """Unit vectors of n numbers, one for each canary, by its number."""

    @abstractmethod
    def vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """[numbers, n]."""

    @abstractmethod
    def reached(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The coordinates that these directions reach."""

    @abstractmethod
    def along(
        self, releases: NDArray[np.float64], which: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """[numbers]: how far release `which` of [releases, n] reaches along each direction."""

    @abstractmethod
    def summed(
        self,
        weights: NDArray[np.float64],
        which: NDArray[np.int64],
        numbers: NDArray[np.int64],
        *,
        releases: int,
    ) -> NDArray[np.float64]:
        """[releases, n]: the weighted directions, added up in the release `which` of each."""

    @abstractmethod
    def correlation(self) -> float:
        """The largest cosine, in size, of two directions that share a release."""


@dataclass(frozen=True, eq=False)
class AxisDirections(Directions):
    """Axes of the parameters' space, with a random sign: no two that share a release are alike."""

    axis: NDArray[np.int64]
    sign: NDArray[np.float64]
    n: int

    def vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `Directions`."""
        found = np.zeros((len(numbers), self.n), dtype=np.float32)
        found[np.arange(len(numbers)), self.axis[numbers]] = self.sign[numbers]
        return found

    def reached(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Directions`."""
        return self.axis[numbers]

    def along(
        self, releases: NDArray[np.float64], which: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Directions`."""
        found: NDArray[np.float64] = releases[which, self.axis[numbers]] * self.sign[numbers]
        return found

    def summed(
        self,
        weights: NDArray[np.float64],
        which: NDArray[np.int64],
        numbers: NDArray[np.int64],
        *,
        releases: int,
    ) -> NDArray[np.float64]:
        """See `Directions`."""
        found = np.zeros((releases, self.n))
        np.add.at(found, (which, self.axis[numbers]), weights * self.sign[numbers])
        return found

    def correlation(self) -> float:
        """See `Directions`."""
        return 0.0


@dataclass(frozen=True, eq=False)
class RandomDirections(Directions):
    """Drawn uniformly from the sphere, where there are more canaries than parameters."""

    matrix: NDArray[np.float32]
    """[canaries, n]."""
    release: NDArray[np.int64]
    """[canaries]: those of one number share releases."""

    def vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `Directions`."""
        return self.matrix[numbers]

    def reached(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Directions`."""
        return np.arange(self.matrix.shape[1])

    def along(
        self, releases: NDArray[np.float64], which: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Directions`."""
        found = np.empty(len(numbers))
        for one in np.unique(which):
            own = which == one
            found[own] = self.matrix[numbers[own]] @ releases[one].astype(np.float32)
        return found

    def summed(
        self,
        weights: NDArray[np.float64],
        which: NDArray[np.int64],
        numbers: NDArray[np.int64],
        *,
        releases: int,
    ) -> NDArray[np.float64]:
        """See `Directions`."""
        found = np.zeros((releases, self.matrix.shape[1]))
        for one in np.unique(which):
            own = which == one
            found[one] = weights[own].astype(np.float32) @ self.matrix[numbers[own]]
        return found

    def correlation(self) -> float:
        """See `Directions`."""
        largest = 0.0
        for one in np.unique(self.release):
            own = self.matrix[self.release == one]
            for start in range(0, len(own), _PAIRS_AT_ONCE):
                cosines = np.abs(own[start : start + _PAIRS_AT_ONCE] @ own.T)
                place = np.arange(len(cosines))
                cosines[place, start + place] = 0.0
                largest = max(largest, float(cosines.max()))
        return min(1.0, largest)


def draw_directions(release: NDArray[np.int64], *, n: int, source: Source) -> Directions:
    """Directions of canaries, of which those with the same number in `release` [canaries] share
    releases; axes where each release has room for them."""
    canaries = np.arange(len(release))
    order = np.lexsort((canaries, release))
    _, first = np.unique(release[order], return_index=True)
    fits = int(np.diff([*first, len(release)]).max()) <= n
    if not fits:
        words = source.words(
            purpose=Purpose.CANARY_DIRECTIONS, round_=0, counters=canaries, count=n + n % 2
        )
        drawn = normals(words)[:, :n].astype(np.float32)
        return RandomDirections(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), release)
    place = np.empty(len(release), dtype=np.int64)
    begins = np.repeat(first, np.diff([*first, len(release)]))
    place[order] = canaries - begins
    words = source.words(purpose=Purpose.CANARY_DIRECTIONS, round_=0, counters=canaries, count=1)
    sign = np.where(words[:, 0] < 1 << 31, 1.0, -1.0)
    axes = source.words(purpose=Purpose.CANARY_DIRECTIONS, round_=1, counters=0, count=n)
    return AxisDirections(np.argsort(uniforms(axes), kind="stable")[place], sign, n)
