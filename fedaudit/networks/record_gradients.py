"""What all forms of clipped per-record gradients share: the batch, and what a record may weigh.

A record's gradient is scaled by min(1, clip / norm) before the sum, so that adding or removing a
record moves the sum by at most `clip` (Abadi et al., "Deep learning with differential privacy",
2016). A gradient that is not finite has no norm to be scaled by and counts as zero: the record is
left out, and the sum stays within its sensitivity.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Products of float32 round upwards too. Shortened by this much, a contribution never exceeds clip,
# and neither does what it moves a float64 sum of up to 40,000 contributions by.
_SHORTENED = 1 - 2.0**-20
_ALIGNMENT = 64  # bytes, by which torch allocates


@dataclass(frozen=True)
class RecordBatch:
    """The records of one step, one batch a silo; rows beyond a silo's size are padding."""

    features: Tensor
    """float32 [silos, rows, ...]."""
    target: Tensor
    """float32 [silos, rows]; the class index for classification."""
    sizes: NDArray[np.int64]
    """[silos]: records in front. A silo's batch may be empty."""


class ClippedGradients(Protocol):
    """The sum of a batch's clipped per-record gradients."""

    n: int

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """float64 [silos, n] at theta [silos, n], or [n] where all silos share it.

        In float64, because a sum in single precision is rounded with each addition, by up to 2^-24
        of itself: a record among many would move it by more than `clip`.

        Neither the padding nor the other silos change a silo's sum, to the last bit. With `clip`
        infinite nothing is scaled.
        """


def shares(norms: Tensor, *, clip: float) -> Tensor:
    """What is kept of each record: min(1, clip / norm), or 0 where the norm is not finite.

    `norms`: float64, so that no square under- or overflows that a float32 gradient can have.
    """
    return (clip * _SHORTENED / norms).clamp_max(1.0).nan_to_num(0.0)


def squares(vectors: Tensor) -> Tensor:
    """Squared Euclidean norms along the last axis, in float64."""
    return vector_norms(vectors).square()


def vector_norms(vectors: Tensor) -> Tensor:
    """Euclidean norms along the last axis, in float64."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    return norms


def all_finite(norms: Tensor) -> bool:
    """Whether every norm is finite; float64 sums of norms of float32 vectors do not overflow."""
    return math.isfinite(norms.sum().item())


def aligned(values: Tensor) -> Tensor:
    """The same numbers where a cache line begins: matrix products round by where an operand lies.

    Rows of a stack begin anywhere, and a silo's numbers may not depend on its place.
    """
    return values if values.data_ptr() % _ALIGNMENT == 0 else values.clone()
