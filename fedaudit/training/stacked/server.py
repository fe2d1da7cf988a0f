"""How the server combines uploads (Algorithm 1, lines 9 and 10)."""

from ctypes import CDLL
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedaudit.native.library import kernels
from fedaudit.native.tensors import call
from fedaudit.privacy.noise.laplace import SHORT, norms, squared_distances
from fedaudit.reproducible import fixed_order_sum, square_root
from fedaudit.training.methods import LossWeighting

_MAX_ITERATIONS = 300
_MAX_ELEMENTS = 1 << 22  # of the differences from several centroids at once
_LONG = 1 << 12  # parameters beyond which no temporary is as large as the uploads


@dataclass(frozen=True)
class Clusters:
    """The server's view of a round."""

    hypotheses: Tensor
    """float32 [cells, k, n]: unweighted averages; sample counts are never disclosed."""
    assigned: Tensor
    """int64 [cells, clients]."""
    sizes: Tensor
    """int64 [cells, k]: uploads in each cluster."""
    relocated: Tensor | None = None
    """bool [cells, k]: clusters that had no upload and were given one; None where it was not
    asked, or none can be."""


@dataclass(frozen=True)
class Server:
    """How the server combines a round's uploads."""

    reported: bool
    """Whether clients report their choice (IFCA) instead of being clustered."""
    relocate: bool
    """Whether an empty cluster is moved to the farthest upload."""
    names_relocated: bool = False
    """Whether it is asked which were; kernels do not say."""

    def __call__(self, theta: Tensor, uploads: Tensor, present: Tensor, chosen: Tensor) -> Clusters:
        """The next hypotheses; arguments as those of `k_means`, `chosen` [cells, clients]."""
        if self.reported or theta.shape[1] == 1:
            return averages(theta, uploads, present, chosen)
        if self.relocate and self.names_relocated:
            return lloyd(theta, uploads, present, relocate=True)
        return k_means(theta, uploads, present, relocate=self.relocate)


def k_means(theta: Tensor, uploads: Tensor, present: Tensor, *, relocate: bool) -> Clusters:
    """Lloyd's iterations from the current hypotheses, one start.

    `theta` [cells, k, n]; `uploads` [cells, clients, n]; `present` bool [cells, clients]. An empty
    cluster keeps its hypothesis, or is relocated to the upload farthest from its own centroid.
    """
    compiled = _compiled_clusters(theta, uploads, present, given=None, relocate=relocate)
    return lloyd(theta, uploads, present, relocate=relocate) if compiled is None else compiled


def lloyd(theta: Tensor, uploads: Tensor, present: Tensor, *, relocate: bool) -> Clusters:
    """The same without kernels, which names clusters that were relocated in any iteration."""
    centroids, assigned = theta, _nearest(theta, uploads)
    relocated = torch.zeros(theta.shape[:2], dtype=torch.bool, device=theta.device)
    for _ in range(_MAX_ITERATIONS):
        clusters = averages(theta, uploads, present, assigned)
        empty = clusters.sizes == 0
        if relocate and bool(empty.any()):
            given = _relocated(clusters, centroids, uploads, present)
            clusters = averages(theta, uploads, present, given)
            relocated |= empty & (clusters.sizes > 0)
        nearest = _nearest(clusters.hypotheses, uploads)
        if torch.equal(nearest, assigned):
            break
        if len(theta) == 1:
            centroids, assigned = clusters.hypotheses, nearest
            continue
        # A cell that has converged gives the same clusters again while others go on.
        moved = (nearest != assigned).any(-1)[:, None]
        centroids = torch.where(moved[..., None], clusters.hypotheses, centroids)
        assigned = torch.where(moved, nearest, assigned)
    return replace(clusters, relocated=relocated)


def averages(theta: Tensor, uploads: Tensor, present: Tensor, assigned: Tensor) -> Clusters:
    """Unweighted averages of the uploads of each cluster; an empty one keeps its hypothesis."""
    compiled = _compiled_clusters(theta, uploads, present, given=assigned, relocate=False)
    if compiled is not None:
        return compiled
    if theta.shape[2] > _LONG:
        return _long_averages(theta, uploads, present, assigned)
    sums, sizes = _sums(uploads, present, assigned, k=theta.shape[1])
    means = (sums / sizes.clamp_min(1)[..., None]).float()
    return Clusters(
        hypotheses=torch.where((sizes > 0)[..., None], means, theta), assigned=assigned, sizes=sizes
    )


def _sums(uploads: Tensor, present: Tensor, assigned: Tensor, *, k: int) -> tuple[Tensor, Tensor]:
    """The sums of each cluster's uploads, float64 [cells, k, n], and their number, int64
    [cells, k]."""
    if uploads.device.type != "cpu":
        sizes = _members(present, assigned, k=k).sum(-1)
        return block_sums(uploads, present, assigned, hypotheses=k), sizes
    # On the host one upload after the other, by a loop whose order nothing changes.
    cells, _, n = uploads.shape
    cluster = assigned.numpy() + np.arange(0, cells * k, k)[:, None]
    cluster = np.where(present.numpy(), cluster, cells * k)  # behind all: not counted
    place = cluster[..., None] * n + np.arange(n)
    weights = uploads.numpy().ravel()
    sums = np.bincount(place.ravel(), weights, minlength=(cells * k + 1) * n)
    counts = np.bincount(cluster.ravel(), minlength=cells * k + 1)
    return (
        torch.from_numpy(sums[: cells * k * n]).reshape(cells, k, n),
        torch.from_numpy(counts[: cells * k]).reshape(cells, k),
    )


def _members(present: Tensor, chosen: Tensor, *, k: int) -> Tensor:
    """Which clients present [cells, clients] chose each of k: bool [cells, k, clients]."""
    every = torch.arange(k, device=chosen.device)
    return present[:, None] & (chosen[:, None] == every[:, None])


def _long_averages(theta: Tensor, uploads: Tensor, present: Tensor, assigned: Tensor) -> Clusters:
    """Compute `averages` upload by upload, in place."""
    hypotheses, member = theta.clone(), _members(present, assigned, k=theta.shape[1])
    for cell, clusters in enumerate(member.tolist()):
        for mean, members in zip(hypotheses[cell], clusters, strict=True):
            own = [client for client, belongs in enumerate(members) if belongs]
            if own:
                mean.copy_(uploads[cell, own[0]])
                for client in own[1:]:
                    mean.add_(uploads[cell, client])
                mean.div_(len(own))
    return Clusters(hypotheses=hypotheses, assigned=assigned, sizes=member.sum(-1))


def _nearest(centroids: Tensor, uploads: Tensor) -> Tensor:
    """The nearest centroid of each upload: int64 [cells, clients]."""
    if uploads.shape[-1] <= _LONG:
        # Clients last, so that every operation is a long one; and not by a matrix product, whose
        # rounding depends on the stack.
        columns = uploads.permute(2, 0, 1).contiguous()[:, None]
        points = centroids.permute(2, 1, 0)[..., None]
        together = max(1, _MAX_ELEMENTS // columns.numel())
        squares = [
            fixed_order_sum((columns - part).square_(), 0)
            for part in torch.split(points, together, dim=1)
        ]
        # The indices of `min`, because `argmin` over a leading axis is many times slower.
        return torch.cat(squares).min(0).indices
    distances = [
        torch.stack([squared_distances(own, centroid) for centroid in points], dim=-1)
        for own, points in zip(uploads, centroids, strict=True)
    ]
    return torch.stack(distances).argmin(-1)


def _relocated(clusters: Clusters, centroids: Tensor, uploads: Tensor, present: Tensor) -> Tensor:
    """Assignments in which each empty cluster has been given the farthest upload.

    Scikit-learn's habit: the farthest uploads, each from the centroid it is assigned to, in order.
    """
    assigned = clusters.assigned.clone()
    distance = torch.where(present, _own_distances(uploads, centroids, assigned), -1.0)
    rows = torch.arange(len(assigned), device=assigned.device)
    for cluster in range(centroids.shape[1]):
        farthest = distance.argmax(-1)
        empty = (clusters.sizes[:, cluster] == 0) & (distance[rows, farthest] > 0)
        assigned[rows, farthest] = torch.where(empty, cluster, assigned[rows, farthest])
        distance[rows, farthest] = torch.where(empty, -1.0, distance[rows, farthest])
    return assigned


def _own_distances(uploads: Tensor, points: Tensor, own: Tensor) -> Tensor:
    """Distances of uploads from their own one of points [cells, k, n]: float64 [cells, clients]."""
    if uploads.shape[-1] <= _LONG:
        return norms(uploads - points.gather(1, own[..., None].expand_as(uploads)))
    cells = range(len(uploads))
    squares = [
        squared_distances(upload[None], points[cell, place])
        for cell in cells
        for upload, place in zip(uploads[cell], own[cell].tolist(), strict=True)
    ]
    return square_root(torch.cat(squares).reshape(own.shape))


def separation(theta: Tensor, uploads: Tensor, present: Tensor, assigned: Tensor) -> Tensor:
    """How far equation 9 of Galli et al. holds, to the server: float64 [cells]; small is well
    separated.

    `assigned` [cells, clients]: the cluster that the server put each upload into, whose hypothesis
    before the round is taken for the upload's own. The equation speaks of the hypothesis that the
    client chose, but choices have no noise, and a figure made of them would disclose some.

    The median over uploads of the distance to their own hypothesis, divided by the distance of that
    hypothesis to the nearest other.
    """
    library = _kernels_for(theta)
    if library is not None:
        (cells, k, n), clients = theta.shape, uploads.shape[1]
        found = torch.empty(cells, dtype=torch.float64)
        given = (one.contiguous() for one in (theta, uploads, present, assigned))
        call(library.fedaudit_separation, *given, cells, clients, k, n, found)
        return found
    if theta.shape[-1] <= _LONG:
        between = norms(theta[:, :, None] - theta[:, None])
    else:
        rows = [squared_distances(points, point) for points in theta for point in points]
        between = square_root(torch.stack(rows).reshape(*theta.shape[:2], -1))
    between.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    nearest = between.amin(-1).gather(1, assigned)
    ratio = torch.where(present, _own_distances(uploads, theta, assigned) / nearest, torch.nan)
    return ratio.nanmedian(-1).values


def block_sums(updates: Tensor, present: Tensor, chosen: Tensor, *, hypotheses: int) -> Tensor:
    """Sums [cells, k, n] of the updates [cells, clients, n] of those who chose each hypothesis.

    In float64: rounding in single precision can let one client among thousands move the sum by
    more than the norm of its update, which the noise is scaled to.

    `present` bool and `chosen` int64 [cells, clients]. Clients who are not present only pad, and
    neither they nor other cells move the rounding: the axis is filled up to a power of two.
    """
    clients = updates.shape[1]
    missing = (1 << max(0, clients - 1).bit_length()) - clients
    filled = torch.nn.functional.pad(updates.double(), (0, 0, 0, missing))
    member = torch.nn.functional.pad(_members(present, chosen, k=hypotheses), (0, missing))
    blocks = [
        fixed_order_sum(torch.where(one[..., None], filled, 0.0), 1) for one in member.unbind(1)
    ]
    return torch.stack(blocks, dim=1)


@dataclass(frozen=True)
class WeightedServer:
    """Adds up what clients sent, and divides by the sum of the numbers behind it."""

    weighting: LossWeighting

    def __call__(self, theta: Tensor, uploads: Tensor, present: Tensor, chosen: Tensor) -> Clusters:
        """The next model of theta [cells, 1, n]; `uploads` [cells, clients, n + 1], `present` bool
        and `chosen` int64 [cells, clients]."""
        weighted = self.weighting.weighted(uploads, present)
        sums = block_sums(weighted, present, chosen, hypotheses=1)
        return Clusters(
            hypotheses=self.weighting.step(theta, sums),
            assigned=torch.zeros_like(chosen),
            sizes=present.sum(-1, keepdim=True),
        )


def _kernels_for(theta: Tensor) -> CDLL | None:
    """The kernels; None without them, and for vectors that are too long for them."""
    on_host = theta.device.type == "cpu" and theta.shape[2] <= SHORT
    return kernels() if on_host else None


def _compiled_clusters(
    theta: Tensor, uploads: Tensor, present: Tensor, *, given: Tensor | None, relocate: bool
) -> Clusters | None:
    """The averages of the clusters that are `given`, or what `k_means` finds; None without
    kernels."""
    library = _kernels_for(theta)
    if library is None:
        return None
    (cells, k, n), clients = theta.shape, uploads.shape[1]
    theta, uploads, present = theta.contiguous(), uploads.contiguous(), present.contiguous()
    hypotheses = torch.empty_like(theta)
    sizes = torch.empty((cells, k), dtype=torch.int64)
    if given is None:
        assigned, iterations = torch.empty((cells, clients), dtype=torch.int64), _MAX_ITERATIONS
    else:
        assigned, iterations = given.contiguous(), 0
    call(
        library.fedaudit_cluster,
        *(theta, uploads, present, cells, clients, k, n, relocate, iterations),
        *(hypotheses, assigned, sizes),
    )
    return Clusters(hypotheses, assigned, sizes)
