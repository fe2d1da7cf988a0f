"""Canaries in a training that runs elsewhere: contributions that the adapter adds, each of which is
there by the fall of a fair coin, and which are searched for in what leaves. Needs numpy.

A canary sends sixteen clips along a direction of the parameters' space, so that the training's own
clip shortens it. Directions and signs are drawn anew for each release; coins stay.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BEFORE_THE_CLIP = 16.0
_LEAST, _MOST = 1e-9, 1e30
"""What the service takes."""
_TINY = 1e-6
"""Length in clips used instead of 0, where a training divides by the length of what it clips."""


@dataclass(frozen=True)
class Canaries:
    """What an adapter plants: `audit=Canaries(count=350)`."""

    count: int = 350
    """More find a smaller lack of noise, or find it earlier: they add up over releases."""
    directions: Literal["dirac", "random"] = "dirac"
    """One number each, of which there have to be as many; or all numbers at random."""
    stop: bool = False
    """Whether the training ends by `NoiseContradicted` in the round of an alarm."""


class NoiseContradicted(Exception):  # noqa: N818 a finding, and no fault of the caller
    """Canaries contradict the noise that a ledger declares."""


class _Release:
    """Some canaries in one release, and their directions."""

    def __init__(self, sent: Floats, n: int, kind: str, random: np.random.Generator) -> None:
        self.sent, self.n = sent, n
        """[canaries]: 1, 0 or -1 times the direction."""
        if kind == "random":
            drawn = random.standard_normal((len(sent), n))
            self._matrix: Floats | None = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
            return
        if n < len(sent):
            raise ValueError(
                f"{len(sent)} canaries of one release need as many numbers, and there are {n}: "
                'lower `count`, or take directions="random"'
            )
        self._matrix = None
        self._axis = random.permutation(n)[: len(sent)]
        self._sign = np.where(random.random(len(sent)) < 0.5, 1.0, -1.0)

    def rows(self, places: NDArray[np.intp], *, length: float) -> Floats:
        """[places, n]: what these canaries send."""
        if self._matrix is not None:
            return length * self.sent[places, None] * self._matrix[places]
        found = np.zeros((len(places), self.n))
        found[np.arange(len(places)), self._axis[places]] = (self.sent * self._sign)[places]
        return length * found

    def signal(self) -> Floats:
        """[n]: the sum of what all send, a clip long each."""
        if self._matrix is not None:
            return self.sent @ self._matrix
        found = np.zeros(self.n)
        found[self._axis] = self.sent * self._sign
        return found

    def along(self, released: Floats) -> Floats:
        """[canaries]: how far the release [n] reaches along each direction."""
        if self._matrix is not None:
            return self._matrix @ released
        return released[self._axis] * self._sign


class PlantedCanaries:
    """The canaries of one training, and what they show in the round that is open."""

    def __init__(self, audit: Canaries, *, clip: float, replaces: bool) -> None:
        """`clip`: the declared bound on a contribution. `replaces`: a canary that is not there
        sends the opposite, as under replace-one, and otherwise nothing."""
        if audit.count < 2:
            raise ValueError(f"{audit.count} canaries show nothing; take 2 or more")
        self.audit, self.clip = audit, clip
        self._random = np.random.default_rng(secrets.randbits(128))
        self._coins = np.array([secrets.randbits(1) == 1 for _ in range(audit.count)])
        self._sent = np.where(self._coins, 1.0, -1.0 if replaces else 0.0)
        self._open: _Release | None = None
        self._known: Floats | float = 0.0
        self.forget()

    def forget(self) -> None:
        """Drop what the open round showed."""
        self._scores = np.zeros(self.audit.count)
        self._product = self._weight = self._squares = 0.0
        self._numbers = self._releases = 0
        self._passes = 1

    def begin(self, n: int) -> Floats:
        """[present, n]: what the canaries of the next release of n numbers send."""
        self._open = _Release(self._sent, n, self.audit.directions, self._random)
        return self._open.rows(np.flatnonzero(self._sent), length=_BEFORE_THE_CLIP * self.clip)

    def end(self, released: Floats) -> Floats:
        """Look at a release [n], less what all others sent; returns what the canaries added."""
        if self._open is None:
            raise ValueError("no canaries were planted in this release: call `begin` before it")
        release, self._open = self._open, None
        self._see(release, np.arange(self.audit.count), released / self.clip)
        self._releases += 1
        return self.clip * release.signal()

    def plant(self, updates: Floats) -> Floats:
        """The updates [clients, n], and below them those of the canaries, to be clipped, summed and
        noised together. Their sum must be divided by no number that counts them."""
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        clipped = updates * np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))
        self._known = clipped.sum(axis=0)
        return np.concatenate([updates, self.begin(updates.shape[1])])

    def read(self, total: Floats) -> Floats:
        """The noised sum [n] of what `plant` returned, without the canaries in it."""
        return total - self.end(total - self._known)

    def beside(
        self, release: Callable[[Floats], Floats], *, n: int, group: int, passes: int = 1
    ) -> None:
        """Send the canaries through `release` beside the training, `group` at a time: it takes
        updates [group, n] and returns their noised sum [n]. With groups of 1 it is the noise of
        each upload.

        Each of several passes draws new directions and noise. All of them measure the noise; the
        first alone scores coins, which the declared release shows once.
        """
        self._passes = passes
        for number, start in product(range(passes), range(0, self.audit.count, group)):
            places = np.arange(start, min(start + group, self.audit.count))
            sent = np.concatenate([self._sent[places], np.zeros(group - len(places))])
            one = _Release(sent, n, self.audit.directions, self._random)
            rows = one.rows(np.arange(group), length=_BEFORE_THE_CLIP * self.clip)
            rows[sent == 0, 0] = _TINY * self.clip
            self._see(one, places if number == 0 else places[:0], release(rows) / self.clip)
        self._releases += 1

    def _see(self, release: _Release, places: NDArray[np.intp], seen: Floats) -> None:
        signal = release.signal()
        self._product += float(seen @ signal)
        self._weight += float(signal @ signal)
        self._squares += float(seen @ seen)
        self._numbers += release.n
        self._scores[places] += release.along(seen)[: len(places)]

    def taken(self) -> dict[str, Any]:
        """What the round that ends shows, as it is posted; empty where nothing was planted, or a
        training that diverges left no numbers: the round has to be declared all the same."""
        shown = np.abs([self._product, self._squares, *self._scores])
        if not self._weight or self._squares < _LEAST or not shown.max() <= _MOST:
            self.forget()
            return {}
        found = {
            "present": "".join("01"[int(coin)] for coin in self._coins),
            "scores": [float(f"{one:.9g}") for one in self._scores],
            "releases": self._releases,
            "product": self._product,
            "weight": self._weight,
            "squares": self._squares,
            "numbers": self._numbers,
            **({"passes": self._passes} if self._passes > 1 else {}),
        }
        self.forget()
        return {"canaries": found}
