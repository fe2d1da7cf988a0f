"""One round of Algorithm 1 (Galli et al., section 4) for a stack of experiments."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.choose import Network
from fedaudit.networks.losses import Loss
from fedaudit.privacy.laplace import Sanitiser
from fedaudit.randomness import Source
from fedaudit.training.clustering import Clusters, averages, k_means
from fedaudit.training.data import Lanes
from fedaudit.training.hypotheses import choose_hypotheses, own_hypotheses
from fedaudit.training.local_update import LocalUpdate


@dataclass(frozen=True)
class Method:
    """What all cells of a stack have in common."""

    network: Network
    loss: Loss
    local_update: LocalUpdate
    sanitise: Sanitiser | None
    """None where updates leave as they are."""
    reported: bool
    """Whether clients report their choice (IFCA) instead of being clustered."""
    relocate: bool


@dataclass(frozen=True)
class Cohort:
    """Who was drawn in a round; the first axis is [cells]."""

    rounds: NDArray[np.int64]
    clients: NDArray[np.int64]
    """[cells, clients]."""
    allowed: NDArray[np.bool_]
    """[cells, clients]: whether the client's budget has room for this round."""
    lanes: Lanes
    noise: Tensor | None
    """[cells, clients, n], epsilon = 1."""


@dataclass(frozen=True)
class Played:
    """What a round gave; the first axis is [cells]."""

    before: Tensor
    """[cells, k, n]: the hypotheses that were sent out."""
    chosen: Tensor
    """int64 [cells, clients]."""
    uploads: Tensor
    """[cells, clients, n]."""
    present: Tensor
    """bool [cells, clients]: whether the upload was released."""
    radii: Tensor | None
    clusters: Clusters


def play_round(method: Method, theta: Tensor, cohort: Cohort, batches: Source) -> Played:
    """Lines 4 to 10 of Algorithm 1 for hypotheses theta [cells, k, n]."""
    chosen = choose_hypotheses(method.network, theta, cohort.lanes, method.loss)
    start = own_hypotheses(theta, chosen)
    updated = method.local_update(
        start, cohort.lanes, source=batches, rounds=cohort.rounds, clients=cohort.clients
    )
    uploads, radii = updated, None
    if method.sanitise is not None and cohort.noise is not None:
        uploads, radii = method.sanitise(start, updated, cohort.noise)
    present = _released(uploads, cohort.allowed)
    if method.reported or theta.shape[1] == 1:
        clusters = averages(theta, uploads, present, chosen)
    else:
        clusters = k_means(theta, uploads, present, relocate=method.relocate)
    return Played(
        before=theta,
        chosen=chosen,
        uploads=uploads,
        present=present,
        radii=radii,
        clusters=clusters,
    )


def _released(uploads: Tensor, allowed: NDArray[np.bool_]) -> Tensor:
    """Which uploads leave their client: bool [cells, clients].

    An update that is not finite has no norm to scale noise by, so it is withheld.
    """
    if math.isfinite(uploads.sum().item()):
        present = torch.ones(uploads.shape[:2], dtype=torch.bool, device=uploads.device)
    else:
        present = torch.isfinite(uploads).all(-1)
    if not allowed.all():
        present &= torch.from_numpy(allowed).to(present.device)
    return present
