"""What replay expects of cohorts in rotation, and of noise that is correlated over rounds.

Computed here anew, from the definitions and with none of training's functions: coefficients from
binomials, and noise as the solution of a triangular system.
"""

import numpy as np
from scipy import linalg, special

from fedaudit.arrays import Floats, Ints
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.spec.privacy import PrivacySpec


def bands_of(privacy: PrivacySpec) -> int:
    """Rounds that the noise of one is spread over; 1 where noise is independent."""
    correlation = getattr(privacy, "correlation", None)
    return 1 if correlation is None else int(correlation.bands)


def correlated(independent: Floats, bands: int) -> Floats:
    """The noise [rounds, vectors, n] of all rounds from the first on, as it is to be added: what a
    lower triangular Toeplitz matrix of `bands` diagonals makes into independent noise, its columns
    of length 1 and in proportion to the binomials of -1/2 without their signs."""
    rounds = len(independent)
    column = np.abs(special.binom(-0.5, np.arange(bands)))
    column = column / np.sqrt(np.square(column).sum())
    banded = np.tile(column[:rounds, None], (1, rounds))
    flat = independent.reshape(rounds, -1)
    found: Floats = linalg.solve_banded((len(banded) - 1, 0), banded, flat)
    return found.reshape(independent.shape)


def check_rotation(taking_part: Floats, *, places: Ints, every: int, findings: Findings) -> None:
    """Every client enters exactly one round of a block, the same in all blocks, with as many others
    as every other place has, or one more. `taking_part` [rounds, clients], 0 or 1; `places`
    [rounds]: within the block."""
    counts = np.zeros((every, taking_part.shape[1]))
    np.add.at(counts, places, taking_part)
    blocks = np.bincount(places, minlength=every)[:, None]
    sizes = (counts > 0).sum(axis=1)
    at = findings.at("sampling")
    at.expect(
        "rounds of a client in a block",
        bool(((counts == 0) | (counts == blocks)).all() and ((counts > 0).sum(axis=0) == 1).all()),
        allowed="exactly one, in the same place of every block",
        measured="other rounds",
    )
    at.expect(
        "clients of a place",
        int(sizes.max() - sizes.min()) <= 1,
        allowed="as many as of every other place, or one more",
        measured=f"{sizes.min()} to {sizes.max()}",
    )
