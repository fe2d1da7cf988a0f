"""What is left of the noise being floating-point numbers, where a theorem has real ones."""

import math
from typing import assert_never

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.document.material import ReportMaterial

_CHANCE = 2.0**-34
"""Of one noised number to be another than with real noise; docs/guarantees.md says why."""
_SHARED_PRODUCTS = (
    "Gradients of records are computed in single precision and added up in double. Of networks "
    "with convolutions, or with a layer of more than 256 weights, a record's gradient may be "
    "rounded otherwise for the records beside it in a batch; that this moves no sum by more than "
    "the clip is measured, and not proven."
)
_FLOOR = (
    "The radius is adaptive and the grid that of its floor, which is public: the chance is as many "
    "times as large as a radius is larger than the floor."
)


def floating_point_limits(material: ReportMaterial) -> list[str]:
    """What the numbers of this run's noise are, and the chance by which they miss the theorem."""
    mechanism = mechanism_of(material.spec)
    law = mechanism.facts.noise_law
    match law:
        case "gaussian" | "laplace":
            numbers = mechanism.noised_numbers(material.inputs.n)
            found = [_of_rounded_doubles(mechanism.facts.noise_origin.noised, numbers)]
        case "none":
            return []
        case _:
            assert_never(law)
    if material.inputs.radius_floor is not None:
        found.append(_FLOOR)
    if mechanism.facts.unit == "record":
        found.append(_SHARED_PRODUCTS)
    return found


def _of_rounded_doubles(noised: str, numbers: int) -> str:
    """Of noise from double-precision logarithms, sines and cosines, rounded to a grid."""
    return (
        "The mechanism is proven for real numbers. Noise is drawn in double-precision "
        "floating-point from 64 random bits a number, and what has its noise is rounded once, to a "
        "public grid of 2^-12 to 2^-11 of the noise's standard deviation, so that its low bits "
        f"(Mironov 2012) tell nothing. What remains is in no figure here: {noised}, {numbers:,} "
        "numbers, differs from what real noise would have given with a chance of at most "
        f"{_above(numbers * _CHANCE)}, if logarithm, sine and cosine are right to one unit in the "
        "last place. How long anything takes is not hidden either."
    )


def _above(chance: float) -> str:
    """Two digits, rounded up."""
    exponent = math.floor(math.log10(chance)) - 1
    return f"{math.ceil(chance / 10.0**exponent) * 10.0**exponent:.1e}"
