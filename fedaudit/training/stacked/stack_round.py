"""One round of Algorithm 1 (Galli et al., section 4) for a stack of experiments."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.randomness import Source
from fedaudit.training.base.planted import PlantedUpdates
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    Protection,
    TrustedServer,
)
from fedaudit.training.methods.training_method import LossWeighting
from fedaudit.training.stacked.block_sums import block_sums
from fedaudit.training.stacked.client_tensors import Lanes
from fedaudit.training.stacked.clustering import Server
from fedaudit.training.stacked.hypothesis_choice import (
    choose_hypotheses,
    client_losses,
    own_hypotheses,
)
from fedaudit.training.stacked.local_update import LocalUpdate
from fedaudit.training.stacked.planting import planted_places, show_sum, show_uploads
from fedaudit.training.stacked.weighted_server import WeightedServer

AnyServer = Server | WeightedServer


@dataclass(frozen=True)
class Method:
    """What all cells of a stack have in common."""

    network: Network
    loss: Loss
    local_update: LocalUpdate
    protection: Protection
    server: AnyServer
    weighting: LossWeighting | None
    """How clients weight what they send; None where they send what they updated."""
    planted: PlantedUpdates | None = None
    """What an audit plants in the one cell of a stack."""


@dataclass(frozen=True)
class Cohort:
    """Who was drawn in a round; the first axis is [cells]."""

    rounds: NDArray[np.int64]
    clients: NDArray[np.int64]
    """[cells, clients]."""
    allowed: NDArray[np.bool_]
    """[cells, clients]: whether the client's budget has room for this round; with coins, whether
    the client was drawn at all."""
    noise: NDArray[np.float64] | None
    """[cells, vectors, n] as in `Block`; None where it was not drawn ahead."""
    count_noise: NDArray[np.float64] | None = None
    """[cells]."""


@dataclass(frozen=True)
class Learned:
    """What clients made of the hypotheses; the first two axes are [cells, clients]."""

    chosen: Tensor
    """int64: the hypothesis that the client started from."""
    start: Tensor
    """[cells, clients, n]: its parameters."""
    updated: Tensor
    """[cells, clients, n]; weighted, [cells, clients, n + 1] as in `LossWeighting`."""


@dataclass(frozen=True)
class Sent:
    """What clients sent in a round; the first two axes are [cells, clients]."""

    chosen: Tensor
    """int64: the hypothesis that the client started from."""
    uploads: Tensor
    """As `Learned.updated`."""
    present: Tensor
    """bool: whether the upload was released."""
    radii: Tensor | None
    """[cells, clients]; with noise for each layer, [cells, clients, layers]."""
    assigned: Tensor
    """int64: the cluster that the server put the upload into."""


@dataclass(frozen=True)
class RoundResult:
    """The result of a round; the first axis is [cells]."""

    before: Tensor
    """[cells, k, n]: the hypotheses that were sent out."""
    hypotheses: Tensor
    """[cells, k, n]: the hypotheses after the round."""
    sizes: Tensor
    """int64 [cells, k]: uploads in each cluster; 0 where their numbers are secret."""
    sent: Sent | None
    """None where a trusted server keeps it to itself."""
    clips: NDArray[np.float64] | None = None
    """[cells]: the norm to which a trusted server clips updates of the next round."""


def learn(
    method: Method, theta: Tensor, cohort: Cohort, lanes: Lanes, *, batches: Source
) -> Learned:
    """Lines 5 and 6 of Algorithm 1 for hypotheses theta [cells, k, n].

    `lanes` hold the cohort's data; `batches` draws the order of their rows.
    """
    chosen = choose_hypotheses(method.network, theta, lanes, method.loss)
    start = own_hypotheses(theta, chosen)
    updated = method.local_update(
        start, lanes, source=batches, rounds=cohort.rounds, clients=cohort.clients
    )
    if method.weighting is not None:
        losses = client_losses(method.network, theta, lanes, method.loss)[0]
        updated = method.weighting.weigh(start, updated, losses)
    return Learned(chosen, start, updated)


def collect(
    protection: Protection,
    server: AnyServer,
    theta: Tensor,
    cohort: Cohort,
    learned: Learned,
    *,
    clips: NDArray[np.float64] | None,
    planted: PlantedUpdates | None = None,
) -> RoundResult:
    """Lines 7 to 10 of Algorithm 1: what clients learned is protected and brought together."""
    if planted is not None:
        learned = _with_planted(planted, theta, cohort, learned)
    match protection:
        case ClientProtection() as clients:
            protected = clients.protect(learned.start, learned.updated, cohort.noise)
            found = _bring_together(server, theta, cohort, learned.chosen, protected)
            if planted is not None and found.sent is not None:
                sent = found.sent
                show_uploads(planted, cohort.clients, sent.present, learned.start, sent.uploads)
            return found
        case TrustedServer() as trusted:
            if clips is None:
                raise ValueError("a trusted server needs clips")
            return _add_up(
                trusted,
                theta,
                cohort,
                chosen=learned.chosen,
                updates=learned.updated - learned.start,
                clips=clips,
                planted=planted,
            )
        case _:
            assert_never(protection)


def _with_planted(
    planted: PlantedUpdates, theta: Tensor, cohort: Cohort, learned: Learned
) -> Learned:
    """What planted clients send in place of what they learned, on top of the first hypothesis."""
    own, places = planted_places(planted, cohort.clients[0])
    updates = torch.from_numpy(planted.updates(places)).to(theta.device)
    chosen, start, updated = (
        part.clone() for part in (learned.chosen, learned.start, learned.updated)
    )
    chosen[0, own] = 0
    start[0, own] = theta[0, 0]
    updated[0, own] = theta[0, 0] + updates
    return Learned(chosen, start, updated)


def _bring_together(
    server: AnyServer, theta: Tensor, cohort: Cohort, chosen: Tensor, protected: ProtectedUploads
) -> RoundResult:
    """The server averages what it receives of the uploads that clients have protected."""
    present = _allowed(protected.finite, cohort.allowed)
    clusters = server(theta, protected.uploads, present, chosen)
    return RoundResult(
        before=theta,
        hypotheses=clusters.hypotheses,
        sizes=clusters.sizes,
        sent=Sent(chosen, protected.uploads, present, protected.radii, clusters.assigned),
    )


def _add_up(
    server: TrustedServer,
    theta: Tensor,
    cohort: Cohort,
    *,
    chosen: Tensor,
    updates: Tensor,
    clips: NDArray[np.float64],
    planted: PlantedUpdates | None,
) -> RoundResult:
    """A trusted server adds up clipped updates [cells, clients, n], and adds noise."""
    column = torch.from_numpy(clips).to(theta.device)[:, None]
    clipped, finite = server.clip(updates, column)
    present = _allowed(finite, cohort.allowed)
    sums = block_sums(clipped, present, chosen, hypotheses=theta.shape[1])
    if server.clip_moves:
        within = server.within(updates, column) & present
        clips = server.next_clips(
            clips,
            within=within.sum(-1).tolist(),
            taking_part=present.sum(-1).tolist(),
            noise=cohort.count_noise,
        )
    hypotheses = server.average(theta, sums, cohort.noise, clips=column)
    if planted is not None:
        counted = present & (chosen == 0)
        show_sum(planted, cohort.clients, counted, updates, before=theta, after=hypotheses)
    return RoundResult(
        before=theta,
        hypotheses=hypotheses,
        sizes=torch.zeros(theta.shape[:2], dtype=torch.int64, device=theta.device),
        sent=None,
        clips=clips,
    )


def _allowed(present: Tensor, allowed: NDArray[np.bool_]) -> Tensor:
    """Those of the clients present, bool [cells, clients], who were drawn and have room."""
    if allowed.all():
        return present
    return present & torch.from_numpy(allowed).to(present.device)
