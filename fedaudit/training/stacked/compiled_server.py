"""Clustering by the compiled kernels, with the bits of `fedaudit.training.stacked.clustering`."""

import torch
from torch import Tensor

from fedaudit.native.library import done, kernels
from fedaudit.native.tensors import address
from fedaudit.privacy.noise.laplace import SHORT


def compiled_clusters(
    theta: Tensor,
    uploads: Tensor,
    present: Tensor,
    *,
    given: Tensor | None,
    relocate: bool,
    iterations: int,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Hypotheses, assignments and sizes as of `Clusters`: of the clusters that are `given`, or of
    those found in at most so many iterations.

    None where there is no kernel, or where vectors are too long for it.
    """
    library = kernels()
    if library is None or theta.device.type != "cpu" or theta.shape[2] > SHORT:
        return None
    (cells, k, n), clients = theta.shape, uploads.shape[1]
    theta, uploads, present = theta.contiguous(), uploads.contiguous(), present.contiguous()
    hypotheses = torch.empty_like(theta)
    sizes = torch.empty((cells, k), dtype=torch.int64)
    if given is None:
        assigned = torch.empty((cells, clients), dtype=torch.int64)
    else:
        assigned, iterations = given.contiguous(), 0
    done(
        library.fedaudit_cluster(
            address(theta),
            address(uploads),
            address(present),
            cells,
            clients,
            k,
            n,
            relocate,
            iterations,
            address(hypotheses),
            address(assigned),
            address(sizes),
        )
    )
    return hypotheses, assigned, sizes


def compiled_separation(
    theta: Tensor, uploads: Tensor, present: Tensor, assigned: Tensor
) -> Tensor | None:
    """As `separation`; None where there is no kernel, or where vectors are too long for it."""
    library = kernels()
    if library is None or theta.device.type != "cpu" or theta.shape[2] > SHORT:
        return None
    (cells, k, n), clients = theta.shape, uploads.shape[1]
    found = torch.empty(cells, dtype=torch.float64)
    # Kept by name: the kernel is given only where they lie.
    theta, uploads = theta.contiguous(), uploads.contiguous()
    present, assigned = present.contiguous(), assigned.contiguous()
    done(
        library.fedaudit_separation(
            address(theta),
            address(uploads),
            address(present),
            address(assigned),
            cells,
            clients,
            k,
            n,
            address(found),
        )
    )
    return found
