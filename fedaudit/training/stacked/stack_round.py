"""One round of Algorithm 1 (Galli et al., section 4) for a stack of experiments."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.networks.stacked_network import Loss, choose_network
from fedaudit.randomness import Source
from fedaudit.spec.models import DEFAULT_SCHEDULE
from fedaudit.training.base.cell import Cell, Splits, draws_in_secret, expected_cohort
from fedaudit.training.base.cohort import Block, Draws, rounds_ahead
from fedaudit.training.base.planted import PlantedUpdates, SentUploads, SummedRound
from fedaudit.training.base.record_steps import local_optimiser, server_moves
from fedaudit.training.base.scored_rows import GroupCounter
from fedaudit.training.mechanisms.base import ClientProtection
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods import training_method
from fedaudit.training.stacked.clients import (
    Lanes,
    batches_of,
    choose_hypotheses,
    own_hypotheses,
    real_rows,
    totals,
)
from fedaudit.training.stacked.server import Server, WeightedServer, block_sums
from fedaudit.training.stacked.validation import Evaluation, Figures, evaluate, evaluate_personal


@dataclass(frozen=True)
class Cohort:
    """Who was drawn in a round; the first axis is [cells]."""

    rounds: Ints
    clients: Ints
    """[cells, clients]."""
    allowed: Bools
    """[cells, clients]: whether the client's budget has room for this round; with coins, whether
    the client was drawn at all."""
    noise: Floats | None
    """[cells, vectors, n] as in `Block`; None where it was not drawn ahead."""
    count_noise: Floats | None = None
    """[cells]."""
    paid: int = 0
    """Rounds that were charged before this one, where records leave after a number of them."""

    def of(self, places: Ints | None) -> "Cohort":
        """The same with some of its clients alone, as in `Learned`."""
        if places is None:
            return self
        return replace(self, clients=self.clients[:, places], allowed=self.allowed[:, places])


@dataclass(frozen=True)
class Learned:
    """What clients made of the hypotheses; the first two axes are [cells, clients]."""

    chosen: Tensor
    """int64: the hypothesis that the client started from."""
    start: Tensor
    """[cells, clients, n]: its parameters."""
    updated: Tensor
    """[cells, clients, n]; weighted, [cells, clients, n + 1] as in `LossWeighting`."""
    places: Ints | None = None
    """[clients]: which of a cohort of one cell they are; None for all of them."""


@dataclass(frozen=True)
class Sent:
    """What clients sent in a round; the first two axes are [cells, clients]."""

    chosen: Tensor
    """int64: the hypothesis that the client started from."""
    uploads: Tensor
    """Uploads as in `Learned.updated`."""
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
    """None where a trusted server, or the coins of clients, keep it secret."""
    clips: Floats | None = None
    """[cells]: the norm to which a trusted server clips updates of the next round."""
    relocated: Tensor | None = None
    """bool [cells, k], as of `Clusters`."""
    moments: Tensor | None = None
    """[cells, moments, k, n]: what the server remembers of averages; None where it takes them as
    they are."""


@dataclass(frozen=True, eq=False)
class Scoring:
    """Hypotheses and the validation clients that they are scored on; each row is a round of the
    cell at its position."""

    theta: Tensor
    """[rows, k, n]."""
    clients: Ints
    """[rows, clients]."""
    positions: Sequence[int]
    sizes: Tensor
    """[rows, k]: uploads in each cluster."""
    tuned: bool = True
    """As of `Learner.measure`."""


class Learner:
    """What clients do with hypotheses on their own rows (lines 5 and 6 of Algorithm 1)."""

    def __init__(self, cell: Cell) -> None:
        """Raises ValueError for a convolutional network, whose images are not padded."""
        self._training = cell.spec.training
        self.network, self.loss = choose_network(cell.shape), build_loss(cell)
        method = training_method(self._training)
        self.weighting = method.weighting
        """How clients weight what they send; None where they send what they updated."""
        self._personal = method.personal_steps

    def learn(
        self, theta: Tensor, lanes: Lanes, *, batches: Source, rounds: Ints, clients: Ints
    ) -> Learned:
        """Train from hypotheses theta [cells, k, n], for `clients` [cells, clients], whose data are
        `lanes`, in `rounds` [cells]; `batches` draws the order of their rows."""
        chosen = choose_hypotheses(self.network, theta, lanes, self.loss)
        start = own_hypotheses(theta, chosen)
        local = self._training.local
        taken = batches_of(lanes, local, batches, rounds=rounds, clients=clients)
        updated = self._updated(start, taken, rounds)
        if self.weighting is not None:
            values = self.loss.values(self.network.forward(theta, lanes.features), lanes.target)
            losses = self.loss.client_loss(totals(real_rows(values, lanes)) / lanes.count)
            updated = self.weighting.weigh(start, updated, losses[0])
        return Learned(chosen, start, updated)

    def _updated(self, start: Tensor, batches: Iterable[Lanes], rounds: Ints) -> Tensor:
        """Parameters [cells, clients, n] after a step over each of the batches."""
        local, theta = self._training.local, start.permute(2, 0, 1).contiguous()
        size: float | Tensor = local.step_size
        if local.schedule != DEFAULT_SCHEDULE:  # cells need not be in the same round
            sizes = [[self._training.step_size(round_)] for round_ in rounds.tolist()]
            size = torch.tensor(sizes, device=theta.device)
        optimiser = local_optimiser(local, size)
        memory = optimiser.start(theta, axis=0)
        for batch in batches:
            gradient = self.network.gradient(
                theta, batch.features, batch.target, batch.weight, self.loss
            )
            moved, after = optimiser.step(theta, gradient, memory)
            # Where a client's rows are used up the gradient is zero, and means would go on.
            taken, pairs = batch.mask.amax(0) > 0, zip(after, memory, strict=True)
            theta = torch.where(taken, moved, theta)
            memory = tuple(torch.where(taken, new, old) for new, old in pairs)
        return theta.permute(1, 2, 0).contiguous()

    def measure(self, theta: Tensor, lanes: Lanes, largest: Tensor, *, tuned: bool) -> Evaluation:
        """Scores hypotheses theta [cells, k, n] on held-out clients; `largest` as in `evaluate`.

        Where clients make their own models: not `tuned` is before their first step.
        """
        if self._personal is None:
            return evaluate(self.network, theta, lanes, self.loss, largest)
        personal = self._personal if tuned else replace(self._personal, steps=0)
        return evaluate_personal(self.network, theta, lanes, self.loss, largest, personal=personal)


class Engine(ABC):
    """Runs and scores rounds. The result of `play` is valid until the next call."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        self._cells, self._splits, self._device = cells, splits, device
        self._loss, self._n = build_loss(cells[0]), cells[0].shape.n
        self._counter = GroupCounter(
            list({id(cell.federation): cell.federation for cell in cells}.values()),
            cells[0].spec.fairness,
        )
        self._personal = training_method(cells[0].spec.training).personal_steps
        self.arrange(range(len(cells)))

    def arrange(self, positions: Sequence[int]) -> None:
        """Prepares for rounds of the cells at `positions`."""
        cells = [self._cells[position] for position in positions]
        self._positions = list(positions)
        self._protection = build_protection(cells, self._device)
        self._server, self._moves = build_server(cells[0]), server_moves(cells[0].spec.training)
        self._draws = build_draws(cells)
        planted = cells[0].planted
        if not isinstance(planted, PlantedUpdates | None):
            raise ValueError("records are planted where steps are private record by record")
        self._planted = planted
        """What an audit plants in the one cell of a stack."""

    def rounds_ahead(self, cells: int) -> int:
        """Rounds whose noise is worth drawing at once for this many cells."""
        one = self._cells[0]
        match self._protection:
            case TrustedServer():
                # Every client tosses a coin.
                elements = one.spec.training.hypotheses * self._n + one.federation.clients
            case ClientProtection():
                elements = int(expected_cohort(one)) * self._n
            case _:
                assert_never(self._protection)
        return rounds_ahead(cells=cells, elements=cells * elements)

    def rounds_together(self, cells: int) -> int:
        """Rounds that are run and validated together: one, where a round is work enough."""
        return 1

    def draw_noise(self, block: Block) -> None:
        """Draws the noise of a block's rounds, once, if noise is drawn ahead."""
        self._protection.draw_noise(self._draws, block)

    @abstractmethod
    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: Floats | None, moments: Tensor | None
    ) -> list[RoundResult]:
        """Rounds, at most `rounds_together`, starting from hypotheses theta [cells, k, n].

        `clips` [cells] and `moments` before the first of them, as those of `RoundResult`.
        """

    @abstractmethod
    def score(self, asked: Scoring, *, per_client: bool = False) -> Figures:
        """The figures of each row, a cell's over all clients or client by client."""

    def _moved(self, found: RoundResult, moments: Tensor | None) -> RoundResult:
        """A round whose hypotheses are averages, with those that the server makes of them."""
        if self._moves is None or moments is None:
            return found
        # Whether anyone is in a trusted server's sum is secret, and all sums were released.
        moved = torch.ones_like(found.sizes) if found.sent is None else found.sizes
        hypotheses, moments = self._moves(
            found.before, found.hypotheses, moments, moved=moved > 0, relocated=found.relocated
        )
        return replace(found, hypotheses=hypotheses, moments=moments)

    def _collect(
        self, theta: Tensor, cohort: Cohort, learned: Iterable[Learned], clips: Floats | None
    ) -> RoundResult:
        """Lines 7 to 10 of Algorithm 1: what clients learned is protected and brought together.

        `learned`: of a whole cohort, or of one part of it after the other; a part is used before
        the next is asked for.
        """
        planted = self._planted
        if planted is not None:
            learned = (_with_planted(planted, theta, cohort, part) for part in learned)
        match self._protection:
            case ClientProtection() as clients:
                sent = self._received(clients, cohort, learned)
                if planted is not None:
                    start, numbers = own_hypotheses(theta, sent.chosen), cohort.clients[0]
                    released = sent.present[0].cpu().numpy()
                    own = np.flatnonzero(np.isin(numbers, planted.clients) & released)
                    planted.see_uploads(
                        SentUploads(
                            clients=numbers[own],
                            start=start[0].cpu().numpy()[own],
                            uploads=sent.uploads[0].cpu().numpy()[own],
                        )
                    )
                clusters = self._server(theta, sent.uploads, sent.present, sent.chosen)
                return RoundResult(
                    theta,
                    clusters.hypotheses,
                    clusters.sizes,
                    Sent(sent.chosen, sent.uploads, sent.present, sent.radii, clusters.assigned),
                    relocated=clusters.relocated,
                )
            case TrustedServer() as trusted:
                if clips is None:
                    raise ValueError("a trusted server needs clips")
                return _add_up(trusted, theta, cohort, learned, clips=clips, planted=planted)
            case _:
                assert_never(self._protection)

    def _received(
        self, protection: ClientProtection, cohort: Cohort, learned: Iterable[Learned]
    ) -> Sent:
        """What the server receives of clients that protect what they learned, and has not yet
        clustered."""
        kept: Sent | None = None
        for part in learned:
            own, noise, places = cohort.of(part.places), cohort.noise, part.places
            if places is not None:  # That of a whole cohort would be too large.
                noise = protection.draw(self._draws, own.rounds, own.clients).vectors
            sent = protection.protect(part.start, part.updated, noise)
            present = _allowed(sent.finite, own.allowed)
            found = Sent(part.chosen, sent.uploads, present, sent.radii, assigned=part.chosen)
            if places is None:
                return found
            given = {name: values for name, values in vars(found).items() if values is not None}
            if kept is None:  # room for what all of them send
                clients = cohort.clients.shape[1]
                room = {n: one.new_zeros(1, clients, *one.shape[2:]) for n, one in given.items()}
                kept = replace(found, **room)
            if not present.all():  # Nothing is sent by the others.
                given["uploads"] = torch.where(present[..., None], sent.uploads, 0.0)
            index = torch.from_numpy(places).to(present.device)
            for name, values in given.items():
                getattr(kept, name).index_copy_(1, index, values)
        if kept is None:
            raise ValueError("a round needs a part of its cohort, whether it may send or not")
        return kept


def _with_planted(
    planted: PlantedUpdates, theta: Tensor, cohort: Cohort, learned: Learned
) -> Learned:
    """What planted clients send in place of what they learned, on top of the first hypothesis."""
    clients = cohort.of(learned.places).clients[0]
    own = np.flatnonzero(np.isin(clients, planted.clients))
    places = np.searchsorted(planted.clients, clients[own])
    updates = torch.from_numpy(planted.updates(places)).to(theta.device)
    chosen, start, updated = (
        part.clone() for part in (learned.chosen, learned.start, learned.updated)
    )
    chosen[0, own] = 0
    start[0, own] = theta[0, 0]
    updated[0, own] = theta[0, 0] + updates
    return Learned(chosen, start, updated, learned.places)


def _add_up(
    server: TrustedServer,
    theta: Tensor,
    cohort: Cohort,
    learned: Iterable[Learned],
    *,
    clips: Floats,
    planted: PlantedUpdates | None,
) -> RoundResult:
    """A trusted server adds up clipped updates [cells, clients, n], and adds noise."""
    column = torch.from_numpy(clips).to(theta.device)[:, None]
    total = torch.zeros_like(theta, dtype=torch.float64)
    within = taking_part = np.zeros(len(clips), dtype=np.int64)
    kept: list[tuple[Ints, Tensor, Tensor, Tensor]] = []
    for part in learned:
        own, updates = cohort.of(part.places), part.updated - part.start
        clipped, finite = server.clip(updates, column)
        present = _allowed(finite, own.allowed)
        if part.places is None:
            total = block_sums(clipped, present, part.chosen, hypotheses=theta.shape[1])
        else:
            there = present[0].tolist()
            for hypothesis, update in compress(zip(part.chosen[0], clipped[0], strict=True), there):
                total[0, hypothesis] += update
        if server.moves:
            near = server.within(updates, column) & present
            within = within + near.sum(-1).cpu().numpy()
            taking_part = taking_part + present.sum(-1).cpu().numpy()
        if planted is not None or server.distance is not None:
            kept.append((own.clients, updates, present, part.chosen))
    if server.moves:
        clips = server.next_clips(
            clips,
            within=within.tolist(),
            taking_part=taking_part.tolist(),
            noise=cohort.count_noise,
        )
    apart, each = None, [torch.cat(parts, dim=1) for parts in list(zip(*kept, strict=True))[1:]]
    if server.distance is not None:
        apart = server.distance(each[0], each[1])
    hypotheses = server.average(theta, total, cohort.noise, clips=column, apart=apart)
    if planted is not None:
        updates, present, chosen = each
        counted = (present & (chosen == 0))[0].cpu().numpy()
        planted.see_sum(
            SummedRound(
                clients=np.concatenate([clients[0] for clients, *_ in kept])[counted],
                updates=updates[0].cpu().numpy()[counted],
                before=theta[0, 0].cpu().numpy(),
                after=hypotheses[0, 0].cpu().numpy(),
            )
        )
    sizes = torch.zeros(theta.shape[:2], dtype=torch.int64, device=theta.device)
    return RoundResult(theta, hypotheses, sizes, None, clips)


def _allowed(present: Tensor, allowed: Bools) -> Tensor:
    """Those of the clients present, bool [cells, clients], who were drawn and have room."""
    if allowed.all():
        return present
    return present & torch.from_numpy(allowed).to(present.device)


def build_loss(cell: Cell) -> Loss:
    """The loss that training descends and validation measures."""
    classes, cutoff = len(cell.federation.classes), cell.cutoff
    return Loss(kind=cell.spec.training.loss, classes=classes, cutoff=cutoff)


def build_server(cell: Cell) -> Server | WeightedServer:
    """How uploads are brought together."""
    weighting = training_method(cell.spec.training).weighting
    if weighting is not None:
        return WeightedServer(weighting)
    training = cell.spec.training
    return Server(
        reported=training.reports_choices,
        relocate=training.relocates,
        names_relocated=server_moves(training) is not None,
    )


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=draws_in_secret(cells[0]),
    )
