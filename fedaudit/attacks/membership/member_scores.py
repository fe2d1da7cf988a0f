"""What an attacker who has the hypotheses sees of rows, and scores by shadow runs.

A row is evaluated under the hypothesis that its client would choose: the one with the smallest loss
on the client's *other* rows, members and non-members alike, so the row does not influence the
choice. A client with one row has no others, and its row is evaluated under the hypothesis that fits
it best, which is what such a client chooses in training.

LiRA: how much likelier a row's statistic is among shadow runs that trained on it (Carlini et al.,
"Membership inference attacks from first principles", 2022, algorithm 1). Statistics are taken for
normal, by row, with and without it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reproducible import one_thread, prepared_device
from fedaudit.training.base.cell import Cell, cells_at_once, stands_alone
from fedaudit.training.base.record_steps import flat_features, flat_target
from fedaudit.training.stack import open_stack
from fedaudit.training.stacked.stack_round import build_loss
from fedaudit.training.stacked.stack_state import CellState

STACK_BYTES = 1 << 32
"""About what shadow runs that are trained together may take, by an estimate for runs that validate
every held-out client at once: 256 runs of the hospital task take a tenth of it."""
_ROUNDS = 4
"""Between two reports of progress."""
_FLOOR = 1e-6
"""A row's variance is at least so much of the average one: a few equal statistics are no proof."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Observations:
    """Of the attacked rows; both [rows]. Not finite where a model has overflowed."""

    loss: Floats
    """The row's loss, as training has it."""
    statistic: Floats
    """For classes the logit of the true class's probability, log(p / (1 - p)) (Carlini et al. 2022,
    section V-A); for a number the residual, prediction less target."""


class RowObserver:
    """Evaluates the attacked rows under one model after the other."""

    def __init__(self, cell: Cell, rows: AttackedRows, device: torch.device) -> None:
        federation = cell.federation
        self._network = ClientNetwork(cell.shape, device)
        self._loss = build_loss(cell)
        clients = np.unique(rows.client)
        # All rows of these clients: the others choose the hypothesis.
        place = federation.rows_of(clients)
        self._features = flat_features(federation, place, device)
        self._target = flat_target(federation, place, device)
        counts = federation.counts[clients]
        self._first = np.cumsum(counts) - counts
        self._own = np.searchsorted(place, rows.place)
        self._client = np.searchsorted(clients, rows.client)
        self._alone = counts[self._client] == 1

    def observe(self, hypotheses: Floats32) -> Observations:
        """Of a model of hypotheses [k, n]."""
        with one_thread(), torch.no_grad():
            found = [self._of_hypothesis(theta) for theta in torch.from_numpy(hypotheses)]
        losses, statistics = (np.stack(part) for part in zip(*found, strict=True))
        chosen = self._chosen(losses)[None]
        return Observations(
            loss=np.take_along_axis(losses[:, self._own], chosen, axis=0)[0],
            statistic=np.take_along_axis(statistics, chosen, axis=0)[0],
        )

    def _chosen(self, losses: Floats) -> Ints:
        """The hypothesis of each attacked row, from the losses of all rows [k, rows]."""
        own = losses[:, self._own]
        if len(losses) == 1:
            return np.zeros(own.shape[1], dtype=np.int64)
        with np.errstate(invalid="ignore", over="ignore"):
            totals = np.add.reduceat(losses, self._first, axis=1)[:, self._client]
            others = np.where(self._alone, own, totals - own)
        return np.asarray(np.nan_to_num(others, nan=np.inf, posinf=np.inf).argmin(0))

    def _of_hypothesis(self, theta: Tensor) -> tuple[Floats, Floats]:
        """Losses of all rows, and statistics of the attacked ones."""
        self._network.load(theta.to(self._features.device))
        losses, statistics = [], []
        for start in range(0, len(self._target), self._network.rows_at_once):
            part = slice(start, start + self._network.rows_at_once)
            outputs, target = self._network.outputs(self._features[part]), self._target[part]
            losses.append(self._loss.values(outputs, target).double().cpu())
            statistics.append(_statistic(outputs.double(), target, self._loss.classes).cpu())
        return torch.cat(losses).numpy(), torch.cat(statistics).numpy()[self._own]


def _statistic(outputs: Tensor, target: Tensor, classes: int) -> Tensor:
    """As in `Observations`, from float64 outputs [out, rows] and targets [rows]; from outputs,
    since a probability would have been rounded to 1."""
    if classes == 0:
        return outputs[0] - target
    if classes == 2:
        return torch.where(target > 0, outputs[0], -outputs[0])
    own = target.long()[None]
    others = outputs.scatter(0, own, -torch.inf)
    return outputs.gather(0, own)[0] - others.logsumexp(0)


@dataclass(frozen=True, eq=False)
class ShadowObservations:
    """What was seen of the attacked rows under the shadow runs."""

    trained: Bools
    """[shadows, rows]: whether the shadow run trained on the row."""
    statistic: Floats
    """[shadows, rows]: as in `Observations`."""

    @property
    def fewest(self) -> tuple[int, int]:
        """Shadow runs that trained on a row, and that did not, at least over the rows."""
        within = self.trained.sum(0)
        return int(within.min()), int(len(self.trained) - within.max())


def observe_shadows(
    cells: Sequence[Cell],
    trained: Bools,
    rows: AttackedRows,
    *,
    device: str,
    progress: Callable[[float], None],
) -> ShadowObservations:
    """Trains the cells, as one stack if memory allows, and evaluates the rows under each.

    `trained` [shadows, rows]: the rows that each trains on. `progress` gets the share that is done.
    """
    observer = RowObserver(cells[0], rows, prepared_device(device))
    statistic = np.zeros(trained.shape)
    together = 1 if stands_alone(cells[0]) else cells_at_once(cells[0], memory_bytes=STACK_BYTES)
    for first in range(0, len(cells), together):
        part = cells[first : first + together]

        def report(done: float, first: int = first, part: Sequence[Cell] = part) -> None:
            progress((first + len(part) * done) / len(cells))

        for place, hypotheses in enumerate(_train(part, device=device, progress=report)):
            statistic[first + place] = observer.observe(hypotheses).statistic
            report(0.9 + 0.1 * (place + 1) / len(part))
    return ShadowObservations(trained, statistic)


def _train(
    cells: Sequence[Cell], *, device: str, progress: Callable[[float], None]
) -> list[Floats32]:
    """The hypotheses [k, n] of each cell at its best round; it is nine tenths of the progress."""
    trainer = open_stack(list(cells), device=device)
    rounds, played = len(cells) * cells[0].spec.training.rounds, 0
    while active := trainer.active:
        trainer.advance(_ROUNDS)
        # Cells that have stopped early count as done.
        played += _ROUNDS * len(active)
        progress(0.9 * min(1.0, played / rounds))
    role = mechanism_of(cells[0].spec).facts.applied_by
    match role:
        case "clients" | "server":
            # Without the scores that take most of a result's time.
            states = [CellState.decode(trainer.checkpoint(place)) for place in range(len(cells))]
            return [state.best_hypotheses for state in states]
        case "local-steps":
            return [trainer.result(place).hypotheses for place in range(len(cells))]
        case _:
            assert_never(role)


def likelihood_ratios(target: Floats, shadows: ShadowObservations) -> Floats:
    """The score of each row, larger for likelier members: the logarithm of the ratio of densities
    with the row and without it, [rows]. `target` [rows]: statistics under the attacked run."""
    with_it = _log_density(target, shadows.statistic, shadows.trained)
    return with_it - _log_density(target, shadows.statistic, ~shadows.trained)


def _log_density(target: Floats, statistic: Floats, of: Bools) -> Floats:
    """Of normal laws, one for each row, fitted to statistics [shadows, rows]; `of`, of that shape,
    says which of them count. Less a constant."""
    counted = of & np.isfinite(statistic)
    count = counted.sum(0)
    mean = np.where(counted, statistic, 0.0).sum(0) / np.maximum(count, 1)
    squares = (np.where(counted, statistic - mean, 0.0) ** 2).sum(0)
    free = np.maximum(count - 1, 0)
    common = float(squares.sum() / max(int(free.sum()), 1))
    # If all are equal, any number will do.
    least = max(_FLOOR * common, _TINY)
    deviation = np.sqrt(np.maximum(squares / np.maximum(free, 1), least))
    found: Floats = -0.5 * ((target - mean) / deviation) ** 2 - np.log(deviation)
    return found
