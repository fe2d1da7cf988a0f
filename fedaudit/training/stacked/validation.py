"""Scores of hypotheses on clients that took no part in training.

A hypothesis that is chosen and scored on the same row looks better than it is, so each row is
scored by the hypothesis with the smallest loss on the client's other rows, or on those of them that
are set apart for it. The smallest loss over hypotheses, which needs no such care, is
`selection_loss`: it stops training and is used for nothing else.

Rounds are validated together because the work of one is too small to keep a processor busy: a
round takes the place of a cell on the tensors' axis, which changes no figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.fairness.gaps import GroupScores
from fedaudit.networks.stacked_network import Loss, Network
from fedaudit.reproducible import fixed_order_sum
from fedaudit.training.base.scored_rows import GroupCounter, RowPlaces, ScoredRows, final_groups
from fedaudit.training.methods import PersonalSteps
from fedaudit.training.stacked.clients import (
    Lanes,
    choose_hypotheses,
    own_hypotheses,
    real_rows,
    totals,
    without_nan,
)


@dataclass(frozen=True)
class Scores:
    """What the losses of rows say of clients and hypotheses."""

    selection_loss: Tensor
    """float64 [cells, clients]: the smallest loss over hypotheses."""
    validation_loss: Tensor
    """float64 [cells, clients]: the loss under hypotheses chosen without the row."""
    chosen: Tensor | None
    """int64 [rows, cells, clients]: the hypothesis of each row; None where there is one only."""

    def of_chosen(self, values: Tensor) -> Tensor:
        """Each row's value by its own hypothesis: [..., rows, cells, clients] of
        [..., k, rows, cells, clients]."""
        if self.chosen is None:
            return values.select(-4, 0)
        index = self.chosen.expand(*values.shape[:-4], 1, *self.chosen.shape)
        return values.gather(-4, index).squeeze(-4)


@dataclass(frozen=True)
class Evaluation:
    """What hypotheses make of the rows of validation clients."""

    scores: Scores
    values: Tensor
    """float64 [k, rows, cells, clients]: each row's value under each hypothesis."""
    answers: Tensor
    """[rows, cells, clients]: what is predicted of each row, as of `Loss.answers`."""


def score(
    loss: Loss, values: Tensor, *, count: Tensor, scored: Tensor | None, largest: Tensor
) -> Scores:
    """Scores of clients from their rows' values, float64 [k, rows, cells, clients].

    Values are 0 on padding. `count` [cells, clients] of each client's rows; `scored` as in `Lanes`;
    `largest` as in `evaluate`.
    """
    sums = totals(values)
    losses = loss.client_loss(sums / count)
    chosen = None
    if len(values) > 1:
        if scored is None:
            # A row's own value is subtracted, so that it has no say in its hypothesis.
            others = without_nan(sums[:, None] - values)
            chosen = others.min(0).indices
        else:
            others = totals(torch.where(scored, 0.0, values))
            chosen = others.min(0).indices.expand(values.shape[1:])
        chosen = torch.where(count == 1, largest[:, None], chosen)
    found = Scores(losses.amin(0), losses[0], chosen)
    if scored is not None:
        own = torch.where(scored, found.of_chosen(values), 0.0)
        return replace(
            found, validation_loss=loss.client_loss(fixed_order_sum(own, 0) / scored.sum(0))
        )
    if chosen is not None:
        own = fixed_order_sum(found.of_chosen(values), 0)
        return replace(found, validation_loss=loss.client_loss(own / count))
    return found


def evaluate(
    network: Network, theta: Tensor, lanes: Lanes, loss: Loss, largest: Tensor
) -> Evaluation:
    """Scores hypotheses theta [cells, k, n] on the clients of `lanes`.

    `largest` int64 [cells]: the hypothesis for clients with one row, which have no other to
    choose by.
    """
    outputs = network.forward(theta, lanes.features)
    # In float64, so that a total less a row's own large value still distinguishes hypotheses.
    values = real_rows(loss.values(outputs, lanes.target), lanes).double()
    scores = score(loss, values, count=lanes.count, scored=lanes.scored, largest=largest)
    return Evaluation(scores, values, loss.answers(scores.of_chosen(outputs)))


def evaluate_personal(
    network: Network,
    theta: Tensor,
    lanes: Lanes,
    loss: Loss,
    largest: Tensor,
    *,
    personal: PersonalSteps,
) -> Evaluation:
    """Scores the models that the clients of `lanes` make of hypotheses theta [cells, k, n].

    `largest` as in `evaluate`. The selection loss is the validation loss: both are of the scored
    rows alone. Raises ValueError for lanes all of whose rows are scored.
    """
    scored = lanes.scored
    if scored is None:
        raise ValueError("a personal model needs rows that are not scored")
    tunes = (lanes.mask > 0) & ~scored
    mask = tunes.to(lanes.mask.dtype)
    tuning = replace(
        lanes,
        features=torch.where(tunes, lanes.features, 0.0),
        target=torch.where(tunes, lanes.target, 0.0),
        mask=mask,
        count=mask.sum(0).clamp_min(1),
        scored=None,
    )
    chosen = choose_hypotheses(network, theta, tuning, loss)
    chosen = torch.where(lanes.count == 1, largest[:, None], chosen)
    common = own_hypotheses(theta, chosen).permute(2, 0, 1).contiguous()
    own, memory = common, personal.optimiser.start(common, axis=0)
    for _ in range(personal.steps):
        gradient = network.gradient(own, tuning.features, tuning.target, tuning.weight, loss)
        own, memory = personal.after(own, common, gradient, memory)
    # To the network every client is now a separate cell.
    models, features = own.flatten(1).T[:, None], lanes.features.flatten(2, 3)[..., None]
    outputs = torch.unflatten(network.forward(models, features).squeeze(-1), -1, own.shape[1:])
    values = real_rows(loss.values(outputs, lanes.target), lanes).double()
    sums = fixed_order_sum(torch.where(scored, values[0], 0.0), 0)
    losses = loss.client_loss(sums / scored.sum(0))
    k = theta.shape[1]
    return Evaluation(
        Scores(losses, losses, chosen.expand(values.shape[1:]) if k > 1 else None),
        # The client's own model predicts, whichever hypothesis it was made from.
        values.expand(k, -1, -1, -1),
        loss.answers(outputs[:, 0]),
    )


@dataclass(frozen=True)
class Figures:
    """Validation figures on the host, one a cell of the evaluated stack."""

    selection_loss: Floats
    validation_loss: Floats
    accuracy: Floats | None
    counts: dict[str, Ints]
    """Attribute -> [cells, groups, 4], or [cells, clients, groups, 4] per client."""
    scores: Mapping[str, GroupScores] | None = None
    """Attribute -> each client's groups, of the only cell, where figures are per client."""
    rows: ScoredRows | None = None
    """The rows from which these were added up."""


def scored_rows(found: Evaluation, lanes: Lanes, loss: Loss) -> ScoredRows:
    """The rows of the only cell, client after client on the host, without padding."""
    within = lanes.mask[:, 0].T.cpu().numpy() > 0

    def flat(values: Tensor) -> NDArray[Any]:
        """Flatten values [rows, 1, clients] to [the clients' rows]."""
        return values[:, 0].T.cpu().numpy()[within]

    chosen = found.scores.chosen
    return ScoredRows(
        predictions=flat(loss.predictions(found.answers)),
        logits=flat(found.answers) if loss.classes == 2 else None,
        values=flat(found.scores.of_chosen(found.values)),
        hypotheses=None if chosen is None else flat(chosen),
        scored=None if lanes.scored is None else flat(lanes.scored),
    )


def joined_figures(parts: Sequence[Figures]) -> Figures:
    """The figures of several cells or rounds, one after the other."""
    accuracies = [part.accuracy for part in parts if part.accuracy is not None]
    return Figures(
        selection_loss=np.concatenate([part.selection_loss for part in parts]),
        validation_loss=np.concatenate([part.validation_loss for part in parts]),
        accuracy=np.concatenate(accuracies) if accuracies else None,
        counts={
            name: np.concatenate([part.counts[name] for part in parts]) for name in parts[0].counts
        },
    )


def flat_figures(
    counter: GroupCounter,
    rows: ScoredRows,
    places: RowPlaces,
    losses: tuple[Floats, Floats],
    *,
    per_client: bool,
) -> Figures:
    """Figures as of a stack of one; selection and validation loss are [1]."""
    right, accuracy = counter.right(rows.predictions, places.place), None
    if right is not None:
        scored = right if rows.scored is None else right[rows.scored]
        accuracy = np.array([int(scored.sum()) / len(scored)])
    slot, slots = np.zeros(len(places.place), dtype=np.int64), 1
    if per_client:
        slot, slots = places.client, places.clients
    counts = counter.count_rows(
        rows.predictions, places.place, slot, slots=slots, scored=rows.scored
    )
    if not per_client:
        return Figures(*losses, accuracy, counts)
    counts = {name: of_clients[np.newaxis] for name, of_clients in counts.items()}
    return Figures(*losses, accuracy, counts, final_groups(counter, rows, places), rows)
