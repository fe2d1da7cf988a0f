"""A clip that follows a quantile of the updates' norms, and the public grid's width. No torch.

Andrew et al., "Differentially private learning with adaptive clipping" (2021). Each client adds
one bit, whether its update lay within the clip, less one half; the sum of the bits is noised, and
the clip moves geometrically until the wanted share is within it. The bits cost privacy too: with
the count's noise sigma_b and

    z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2)

for the update, both together are one Gaussian mechanism of noise multiplier z.
"""

import math

from fedaudit.spec.errors import error_at
from fedaudit.spec.privacy import LEAST_CLIP

STEPS_BITS = 12
FINEST = 2.0**-149
"""What a float32 can just be: a finer grid would be rounded away."""


def spacing_of(deviation: float) -> float:
    """The power of two between 2^-12 (excluded) and 2^-11 of a standard deviation.

    Without noise it is the finest.
    """
    mantissa, exponent = math.frexp(deviation)
    return max(math.ldexp(0.5 if mantissa else 0.0, exponent - STEPS_BITS + 1), FINEST)


def rounded(value: float, *, deviation: float) -> float:
    """A noised number on the grid of its noise's standard deviation; half to even."""
    spacing = spacing_of(deviation)
    return round(value / spacing) * spacing


def update_noise_multiplier(*, noise_multiplier: float, count_noise: float) -> float:
    """z_delta, what is left of z for the update; larger than z.

    `count_noise`: the standard deviation of the noise on the sum of bits. Raises
    InvalidInputError where the count alone spends as much as both may.
    """
    left = noise_multiplier**-2 - (2 * count_noise) ** -2
    if left <= 0:
        raise error_at(
            "/privacy/clip/adaptive/count_noise",
            f"{count_noise:g} is too little: the count of clipped updates alone would "
            f"spend what privacy.noise_multiplier = {noise_multiplier:g} allows for "
            f"both; it must exceed {noise_multiplier / 2:g}",
        )
    multiplier: float = left**-0.5
    return multiplier


def noised_share_within(
    *, within: int, taking_part: int, noise: float, deviation: float, expected: float
) -> float:
    """The share of updates within the clip, as it leaves the clients; may pass 0 or 1.

    `within` of `taking_part` updates had a norm of at most the clip. `noise`: a draw of standard
    deviation `deviation`, which is `count_noise`; the noised sum is rounded to the grid of
    `noise.gaussian`. `expected`: the public size of a cohort, never the realised one.
    """
    noised = rounded(within - taking_part / 2 + noise, deviation=deviation)
    return noised / expected + 0.5


def next_clip(clip: float, *, share_within: float, quantile: float, step_size: float) -> float:
    """clip * exp(-step_size * (share_within - quantile)).

    `quantile`: the share of updates that the clip should not touch. It shrinks while more lie
    within, and grows while fewer do; never below `LEAST_CLIP`, which is public.
    """
    return max(LEAST_CLIP, clip * math.exp(-step_size * (share_within - quantile)))
