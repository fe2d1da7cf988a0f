"""Scaling by public constants that a spec declares, never by statistics of the data."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at, pointer, raise_errors
from fedaudit.spec.errors import FieldError
from fedaudit.spec.sources import Centre, Range, Scale

Scales = Mapping[str, Scale]
EVERY_NUMBER = "*"
"""Names, under `scale`, every numeric feature that is not named itself."""


def scale_pointer(name: str) -> str:
    """The field of the spec that scales a column."""
    return pointer("federation", "scale", name)


def check_scales(
    scales: Scales, *, features: Sequence[str], one_hot: Sequence[str], target: str, classes: bool
) -> None:
    """Refuse scales without a column to scale.

    `features` are the columns that may be scaled, `one_hot` those encoded as one column per
    category; `classes` means that the target is one. Raises InvalidInputError below
    /federation/scale.
    """
    faults: list[FieldError] = []
    for name, scale in scales.items():
        problem = None
        if name in one_hot:
            problem = (
                f"{name!r} becomes a column of 0 and 1 per category and has no scale; leave it out"
            )
        elif name == target and classes:
            problem = "the target is a class and has no scale; leave it out"
        elif name == target and isinstance(scale, Range | Centre):
            problem = (
                "the target takes a divisor: values brought to the ends of a range could not be "
                "distinguished, and rules of fairness are in its own units; give a number"
            )
        elif name not in (*features, target, EVERY_NUMBER):
            problem = (
                f"{name!r} is neither a feature nor the target; leave it out or correct the name"
            )
        if problem is not None:
            faults.append(FieldError(scale_pointer(name), problem))
    raise_errors(faults)


def scaled(values: NDArray[np.float64], scale: Scale) -> tuple[NDArray[np.float64], int]:
    """Values on their scale, and how many of them were clamped to its range. Each by itself."""
    with np.errstate(over="ignore"):
        match scale:
            case Centre():
                return (values - scale.mean) / scale.deviation, 0
            case Range():
                outside = int(np.count_nonzero((values < scale.low) | (values > scale.high)))
                kept = np.clip(values, scale.low, scale.high)
                return (kept - scale.low) / (scale.high - scale.low), outside
            case _:  # a number: by any other class mypy lets nothing be divided
                return values / scale, 0


def as_float32(values: NDArray[np.float64], name: str) -> NDArray[np.float32]:
    """Scaled values as float32 for training.

    Raises InvalidInputError at the column's scale where a value is too large for 32 bits.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise error_at(
            scale_pointer(name),
            f"{name!r} divided by its scale does not fit a 32-bit number; give a larger scale",
        )
    return narrow
