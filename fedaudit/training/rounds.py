"""One round of Algorithm 1 (Galli et al., section 4) for a stack of experiments."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.choose import Network
from fedaudit.networks.losses import Loss
from fedaudit.privacy.gaussian import LocalGaussian, clip_to_norm
from fedaudit.privacy.laplace import Sanitiser
from fedaudit.privacy.layers import LayerSanitiser
from fedaudit.randomness import Source
from fedaudit.training.block_sums import block_sums
from fedaudit.training.central import Central, within_clip
from fedaudit.training.clustering import Server
from fedaudit.training.data import Lanes
from fedaudit.training.hypotheses import choose_hypotheses, own_hypotheses
from fedaudit.training.local_update import LocalUpdate
from fedaudit.training.mechanism import Mechanism


@dataclass(frozen=True)
class Method:
    """What all cells of a stack have in common."""

    network: Network
    loss: Loss
    local_update: LocalUpdate
    mechanism: Mechanism | None
    """None where updates leave as they are."""
    server: Server


@dataclass(frozen=True)
class Cohort:
    """Who was drawn in a round; the first axis is [cells]."""

    rounds: NDArray[np.int64]
    clients: NDArray[np.int64]
    """[cells, clients]."""
    allowed: NDArray[np.bool_]
    """[cells, clients]: whether the client's budget has room for this round; with coins, whether
    the client was drawn at all."""
    noise: NDArray[np.float32] | None
    """[cells, vectors, n] as in `Block`; None where it was not drawn ahead."""
    count_noise: NDArray[np.float32] | None = None
    """[cells]."""


@dataclass(frozen=True)
class Sent:
    """What clients sent in a round; the first two axes are [cells, clients]."""

    chosen: Tensor
    """int64: the hypothesis that the client started from."""
    uploads: Tensor
    """[cells, clients, n]."""
    present: Tensor
    """bool: whether the upload was released."""
    radii: Tensor | None
    """[cells, clients]; with noise for each layer, [cells, clients, layers]."""
    assigned: Tensor
    """int64: the cluster that the server put the upload into."""


@dataclass(frozen=True)
class Played:
    """What a round gave; the first axis is [cells]."""

    before: Tensor
    """[cells, k, n]: the hypotheses that were sent out."""
    hypotheses: Tensor
    """[cells, k, n]: those that came of it."""
    sizes: Tensor
    """int64 [cells, k]: uploads in each cluster; 0 where their numbers are secret."""
    sent: Sent | None
    """None where a trusted server keeps it to itself."""
    clips: NDArray[np.float64] | None = None
    """[cells]: what updates of the next round are clipped to by a trusted server."""


def play_round(
    method: Method,
    theta: Tensor,
    cohort: Cohort,
    lanes: Lanes,
    *,
    batches: Source,
    clips: NDArray[np.float64] | None,
) -> Played:
    """Lines 4 to 10 of Algorithm 1 for hypotheses theta [cells, k, n].

    `lanes` hold the cohort's data; `batches` draws the order of their rows; `clips` [cells] are
    those of a trusted server.
    """
    chosen = choose_hypotheses(method.network, theta, lanes, method.loss)
    start = own_hypotheses(theta, chosen)
    updated = method.local_update(
        start, lanes, source=batches, rounds=cohort.rounds, clients=cohort.clients
    )
    if isinstance(method.mechanism, Central):
        if clips is None:
            raise ValueError("a trusted server needs clips")
        return _add_up(
            method.mechanism, theta, cohort, chosen=chosen, updates=updated - start, clips=clips
        )
    return _bring_together(method, theta, cohort, chosen=chosen, start=start, updated=updated)


def _bring_together(
    method: Method,
    theta: Tensor,
    cohort: Cohort,
    *,
    chosen: Tensor,
    start: Tensor,
    updated: Tensor,
) -> Played:
    """Each client protects its own upload, and the server averages what it receives."""
    uploads, radii = updated, None
    if isinstance(method.mechanism, LocalGaussian):
        uploads, finite = method.mechanism(start, updated, _noise(cohort, theta.device))
        present = _allowed(finite, cohort.allowed)
    else:
        if isinstance(method.mechanism, Sanitiser | LayerSanitiser):
            uploads, radii = method.mechanism(start, updated, _noise(cohort, theta.device))
        present = _released(uploads, cohort.allowed)
    clusters = method.server(theta, uploads, present, chosen)
    return Played(
        before=theta,
        hypotheses=clusters.hypotheses,
        sizes=clusters.sizes,
        sent=Sent(chosen, uploads, present, radii, clusters.assigned),
    )


def _add_up(
    central: Central,
    theta: Tensor,
    cohort: Cohort,
    *,
    chosen: Tensor,
    updates: Tensor,
    clips: NDArray[np.float64],
) -> Played:
    """A trusted server adds up clipped updates [cells, clients, n], and noise."""
    column = torch.from_numpy(clips).to(theta.device)[:, None]
    clipped, finite = clip_to_norm(updates, clip=column)
    present = _allowed(finite, cohort.allowed)
    sums = block_sums(clipped, present, chosen, hypotheses=theta.shape[1])
    if cohort.count_noise is not None:
        within = within_clip(updates, column) & present
        clips = central.next_clips(
            clips,
            within=within.sum(-1).tolist(),
            taking_part=present.sum(-1).tolist(),
            noise=cohort.count_noise,
        )
    return Played(
        before=theta,
        hypotheses=central.average(theta, sums, _noise(cohort, theta.device), clips=column),
        sizes=torch.zeros(theta.shape[:2], dtype=torch.int64, device=theta.device),
        sent=None,
        clips=clips,
    )


def _noise(cohort: Cohort, device: torch.device) -> Tensor:
    """The noise that was drawn ahead. RuntimeError without it: nothing leaves unprotected."""
    if cohort.noise is None:
        raise RuntimeError("the noise of this round was not drawn")
    return torch.from_numpy(cohort.noise).to(device)


def _released(uploads: Tensor, allowed: NDArray[np.bool_]) -> Tensor:
    """Which uploads leave their client: bool [cells, clients].

    An update that is not finite has no norm to scale noise by, so it is withheld.
    """
    if math.isfinite(uploads.sum().item()):
        present = torch.ones(uploads.shape[:2], dtype=torch.bool, device=uploads.device)
    else:
        present = torch.isfinite(uploads).all(-1)
    return _allowed(present, allowed)


def _allowed(present: Tensor, allowed: NDArray[np.bool_]) -> Tensor:
    """Those of the clients present, bool [cells, clients], who were drawn and have room."""
    if allowed.all():
        return present
    return present & torch.from_numpy(allowed).to(present.device)
