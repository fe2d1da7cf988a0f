"""The theorem's own sum over a run (Galli et al., Theorem 4.2), or why there is none.

It says how far apart the transcripts of any two datasets of a client may be, however large the
radius was chosen. n/nu does not: it holds between uploads within a radius that is free, and the
same noise has any n/nu.
"""

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.metric.leakage import worst_log_ratio

SECRET_RATES = (
    "the radius is adaptive, so the rates are secret, and the theorem needs public ones; leakage "
    "adds up by the paper's convention instead"
)
NO_CLIP = "updates are not clipped, so nothing bounds how far a client's uploads may lie apart"


def theorem_sum(inputs: MechanismParameters, releases: int) -> float | str:
    """The sum over `releases` rounds between datasets that choose alike in every round, or the
    reason why there is none.

    Raises ValueError where the cost is not counted as leakage.
    """
    if inputs.cost_kind != "leakage" or inputs.noise_multiplier is None:
        raise ValueError(f"the cost of {inputs.mechanism} is not counted as leakage")
    if inputs.radius is None:
        return SECRET_RATES
    if inputs.clip is None:
        return NO_CLIP
    return worst_log_ratio(
        releases,
        sizes=inputs.noised_sizes,
        noise_multiplier=inputs.noise_multiplier,
        radius=inputs.radius,
        clip=inputs.clip,
    )
