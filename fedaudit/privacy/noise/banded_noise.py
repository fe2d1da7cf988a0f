"""Gaussian noise that is correlated over rounds: the banded matrix mechanism. No torch.

A server releases y_t = g_t + w_t, round after round, g_t the sum of the clipped updates of a round.
With C a lower-triangular Toeplitz matrix of coefficients c_0 .. c_(b-1), all at least 0 and their
squares adding up to 1, and z independent normal numbers of standard deviation sigma clips,

    w = C^-1 z,    that is    w_t = (z_t - c_1 w_(t-1) - ... - c_(b-1) w_(t-b+1)) / c_0.

All y together follow from C g + z = C y and the other way round, so they cost what C g + z does
(Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization"; the g_t may follow from
earlier releases: Denisov et al. 2022, theorem 2.1). A client that sends u in round t moves rows
t .. t+b-1 of C g by c_0 u .. c_(b-1) u, a vector no longer than one clip. If it takes part at most
once in any b rounds in a row, the rows of its rounds are disjoint, and each participation is one
Gaussian release of noise multiplier sigma: given all that came before, the likelihood ratio over
the b rows is that of one such release, though others' updates answer to what was released. Rows
that are never played take away from that vector, so a run may end at any round, and noise that
begins anew at some round (C of two blocks) costs the same.

The coefficients are those of the square root of the matrix of running sums, cut to b bands and
scaled: c_j in proportion to (1/2)(3/2)..((2j-1)/2) / j! (banded square root: Kalinin and Lampert
2024). Of running sums over up to 200 rounds, with b = every, it has less mean squared error than
the banded inverse square root (Kalinin et al. 2025), whose C has no zero bands; over 500 rounds of
every = 10 the latter has 2.5 % less of its root.

Floats: what w_t is rounded by moves later ones by C^-1, whose rows' sums of sizes stay below 3.2 at
64 bands. With the errors of z (`gaussian.py`) a number is, on average, within 2^-45.5 standard
deviations of z of the real one (the bound is added up in `tests/privacy/noise/test_banded_noise.py`
). Given what came before, w_t varies by sigma / c_0 clips, more than sigma: the grid of the
release, 2^-12 to 2^-11 of sigma clips, is as fine against it as for independent noise. A number
falls into another cell than its real one with a chance of at most 2^-30 (`CHANCE_OF_CELL`).
"""

from collections.abc import Callable

import numpy as np

from fedaudit.arrays import Floats, Ints

CHANCE_OF_CELL = 2.0**-30
"""Of one number, in any round, at up to 64 bands."""
_AT_ONCE = 64


def banded_root(bands: int) -> Floats:
    """The coefficients c_0 .. c_(bands-1): positive, descending, a vector of length 1."""
    steps = np.arange(1, bands)
    found = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    scaled: Floats = found / np.linalg.norm(found)
    return scaled


def noise_of_sums(bands: int, rounds: int) -> float:
    """The standard deviation of the noise on the sum of all rounds, over that of independent noise
    of the same cost."""
    from scipy.signal import lfilter

    first = np.zeros(rounds)
    first[0] = 1.0
    row = np.cumsum(lfilter([1.0], banded_root(bands), first))
    return float(np.linalg.norm(row) / np.sqrt(rounds))


class BandedNoise:
    """Makes independent noise of consecutive rounds of one run into correlated noise."""

    def __init__(self, bands: int) -> None:
        """`bands`: 2 or more."""
        self._coefficients = banded_root(bands)
        self._last = 0
        """The round that the last of `_kept` is of."""
        self._kept: Floats | None = None
        """[bands - 1, n]: the noise of round t in row t modulo bands - 1; zero before the first."""

    def follow(
        self, noise: Floats, *, first: int, earlier: Callable[[Ints], Floats] | None
    ) -> None:
        """Correlates the noise [rounds, n] of rounds from `first` on, in place.

        Where these do not go on from the last ones, `earlier` draws the independent noise of given
        rounds anew, [rounds, n], and gives the same numbers to the last bit. None: it cannot be
        drawn again, and the correlation begins anew.
        """
        if self._kept is None or self._last != first - 1:
            self._kept = np.zeros((len(self._coefficients) - 1, noise.shape[1]))
            self._last = first - 1 if earlier is None else 0
        while earlier is not None and self._last < first - 1:
            rounds = np.arange(self._last + 1, min(first, self._last + 1 + _AT_ONCE))
            self._advance(earlier(rounds), self._kept)
        self._advance(noise, self._kept)

    def _advance(self, noise: Floats, kept: Floats) -> None:
        coefficients, within = self._coefficients, len(kept)
        for vector in noise:
            self._last += 1
            # The same order of operations wherever rounds are cut: the farthest round first.
            taken = np.zeros_like(vector)
            for back in range(within, 0, -1):
                taken += coefficients[back] * kept[(self._last - back) % within]
            np.divide(vector - taken, coefficients[0], out=vector)
            kept[self._last % within] = vector
