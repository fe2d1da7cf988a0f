"""SanitizeUpdate by a compiled kernel, with the bits of `fedaudit.privacy.noise.laplace`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.native.library import done, kernels, place_of
from fedaudit.native.tensors import address
from fedaudit.privacy.noise.distances import SHORT

Column = NDArray[np.float64]
"""One number a cell, in one piece."""


def compiled_release(
    start: Tensor,
    updated: Tensor,
    unit_noise: NDArray[np.float64],
    *,
    noise_scale: Column,
    fixed_radius: Column,
    radius_floor: Column,
    clip: tuple[Column, Column] | None,
    spacing: Column,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Uploads, radii, and whether an upload is finite: arguments and results as of `Sanitiser`.

    `fixed_radius` is NaN for an adaptive one; `clip` with its shortened bound. None where there is
    no kernel, or where vectors are too long for it.
    """
    library = kernels()
    cells, clients, n = updated.shape
    if library is None or updated.device.type != "cpu" or n > SHORT:
        return None
    start, updated = start.contiguous(), updated.contiguous()
    # Vectors of noise are filled up to an even length, of which a view leaves out the last number.
    width = unit_noise.strides[1] // unit_noise.itemsize
    if unit_noise.strides != (8 * width * clients, 8 * width, 8):
        unit_noise, width = np.ascontiguousarray(unit_noise), n
    uploads = torch.empty_like(updated)
    radii = torch.empty((cells, clients), dtype=torch.float64)
    finite = torch.empty((cells, clients), dtype=torch.bool)
    done(
        library.fedaudit_sanitise(
            address(start),
            address(updated),
            unit_noise.__array_interface__["data"][0],
            width,
            cells,
            clients,
            n,
            place_of(noise_scale),
            place_of(fixed_radius),
            place_of(radius_floor),
            clip is not None,
            0 if clip is None else place_of(clip[0]),
            0 if clip is None else place_of(clip[1]),
            place_of(spacing),
            address(uploads),
            address(radii),
            address(finite),
        )
    )
    return uploads, radii, finite
