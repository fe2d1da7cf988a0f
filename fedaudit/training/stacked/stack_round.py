"""One round of Algorithm 1 (Galli et al., section 4) for a stack of experiments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import ConvolutionalShape, DenseShape, LayeredShape
from fedaudit.networks.stacked_network import (
    BatchedNetwork,
    Network,
    SmallDenseNetwork,
    choose_network,
)
from fedaudit.randomness import Source
from fedaudit.spec.training import KMeans, Reported
from fedaudit.training.base.cell import Cell, draws_in_secret, expected_cohort
from fedaudit.training.base.cohort import Draws, rounds_ahead
from fedaudit.training.base.planted import PlantedUpdates, SentUploads, SummedRound, of_updates
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    Protection,
    TrustedServer,
)
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods import LossWeighting, PersonalSteps, training_method
from fedaudit.training.stacked.clients import (
    Lanes,
    LocalUpdate,
    choose_hypotheses,
    client_losses,
    own_hypotheses,
    whole_data,
)
from fedaudit.training.stacked.server import Server, WeightedServer, block_sums


def planted_places(
    planted: PlantedUpdates, clients: NDArray[np.int64]
) -> tuple[Tensor, NDArray[np.int64]]:
    """Where planted clients stand among these [clients], and which of the planted they are."""
    own = np.flatnonzero(np.isin(clients, planted.clients))
    return torch.from_numpy(own), np.searchsorted(planted.clients, clients[own])


def show_sum(
    planted: PlantedUpdates,
    clients: NDArray[np.int64],
    counted: Tensor,
    updates: Tensor,
    *,
    before: Tensor,
    after: Tensor,
) -> None:
    """Shows a round of one cell: `clients` and `counted` bool [1, clients], who added to the sum of
    the first hypothesis; `updates` [1, clients, n]; `before`, `after` [1, k, n]."""
    own = counted[0].cpu().numpy()
    planted.see_sum(
        SummedRound(
            clients=clients[0][own],
            updates=updates[0].cpu().numpy()[own],
            before=before[0, 0].cpu().numpy(),
            after=after[0, 0].cpu().numpy(),
        )
    )


def show_uploads(
    planted: PlantedUpdates,
    clients: NDArray[np.int64],
    present: Tensor,
    start: Tensor,
    uploads: Tensor,
) -> None:
    """Shows what planted clients sent in a round of one cell: `clients` and `present` bool [1,
    clients]; `start` and `uploads` [1, clients, n]."""
    own = np.flatnonzero(np.isin(clients[0], planted.clients) & present[0].cpu().numpy())
    planted.see_uploads(
        SentUploads(
            clients=clients[0][own],
            start=start[0].cpu().numpy()[own],
            uploads=uploads[0].cpu().numpy()[own],
        )
    )


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


def build_method(cells: Sequence[Cell], device: torch.device) -> Method:
    """What the rounds of these cells have in common.

    Raises ValueError for a convolutional network, whose images are not padded.
    """
    first = cells[0]
    training = first.spec.training
    network, loss = build_network(first), build_loss(first)
    rows = first.federation.longest
    return Method(
        network=network,
        loss=loss,
        local_update=LocalUpdate(network, loss, training.local, rows=rows),
        protection=build_protection(cells, device),
        server=build_server(first),
        weighting=training_method(training).weighting,
        planted=of_updates(first.planted),
    )


def build_network(cell: Cell) -> Network:
    """What computes the cell's model for clients of its longest client's rows."""
    return choose_network(_stacked(cell), rows=cell.federation.longest)


def rounds_worth_drawing(protection: Protection, cell: Cell, *, n: int, cells: int) -> int:
    """Rounds whose noise is worth drawing at once for so many cells like this one."""
    match protection:
        case TrustedServer():
            # Every client tosses a coin.
            elements = cell.spec.training.hypotheses * n + cell.federation.clients
        case ClientProtection():
            elements = int(expected_cohort(cell)) * n
        case _:
            assert_never(protection)
    return rounds_ahead(cells=cells, elements=cells * elements)


def trims_lanes(cell: Cell) -> bool:
    """Whether lanes may be cut to their longest client without changing a bit of any figure."""
    network = build_network(cell)
    match network:
        case SmallDenseNetwork():
            return whole_data(cell.spec.training.local, cell.federation.longest)
        case BatchedNetwork():
            return False
        case _:
            assert_never(network)


def _stacked(cell: Cell) -> DenseShape | LayeredShape:
    shape = cell.shape
    match shape:
        case DenseShape() | LayeredShape():
            return shape
        case ConvolutionalShape():
            raise ValueError(f"{cell.spec.model.kind} needs a federation of images")
        case _:
            assert_never(shape)


def build_loss(cell: Cell) -> Loss:
    """The loss that training descends and validation measures."""
    return Loss(kind=cell.spec.training.loss, classes=len(cell.federation.classes))


def personal_steps(cell: Cell) -> PersonalSteps | None:
    """How held-out clients make models of their own; None where they do not."""
    return training_method(cell.spec.training).personal_steps


def build_server(cell: Cell) -> AnyServer:
    """How uploads are brought together."""
    weighting = training_method(cell.spec.training).weighting
    if weighting is not None:
        return WeightedServer(weighting)
    clustering = cell.spec.training.clustering
    match clustering:
        case Reported():
            return Server(reported=True, relocate=False)
        case KMeans():
            return Server(reported=False, relocate=_relocates(clustering))
        case _:
            assert_never(clustering)


def _relocates(clustering: KMeans) -> bool:
    """Whether an empty cluster is moved to the farthest upload."""
    match clustering.empty_cluster:
        case "keep":
            return False
        case "relocate":
            return True
        case _:
            assert_never(clustering.empty_cluster)


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=draws_in_secret(cells[0]),
    )
