"""Score hypotheses on clients that took no part in training.

A hypothesis that is chosen and scored on the same row looks better than it is, so each row is
scored by the hypothesis with the smallest loss on the client's other rows, or on those of them that
are set apart for it. The smallest loss over hypotheses, which needs no such care, is
`selection_loss`: it stops training and is used for nothing else.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss, predicted_class
from fedaudit.networks.network_choice import Network
from fedaudit.reproducible import fixed_order_sum
from fedaudit.training.stacked.client_tensors import Lanes
from fedaudit.training.stacked.hypothesis_choice import real_rows, totals, without_nan


@dataclass(frozen=True)
class Evaluation:
    """Figures of each cell on its validation clients."""

    selection_loss: Tensor
    """float64 [cells]: mean over clients of the smallest loss over hypotheses."""
    validation_loss: Tensor
    """float64 [cells]: mean over clients of the loss under hypotheses chosen without the row."""
    accuracy: Tensor | None
    """float64 [cells]: share of all rows classified rightly; None for regression."""
    predictions: Tensor
    """[rows, cells, clients]: the predicted target (scaled), or the predicted class."""
    scores: "Scores"
    values: Tensor
    """float64 [k, rows, cells, clients]: each row's value under each hypothesis."""


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
    return evaluation_of(loss, lanes, scores, values=values, outputs=scores.of_chosen(outputs))


def evaluation_of(
    loss: Loss, lanes: Lanes, scores: Scores, *, values: Tensor, outputs: Tensor
) -> Evaluation:
    """The figures that follow from scores.

    `values` [k, rows, cells, clients]; `outputs` [out, rows, cells, clients]: what is predicted.
    """
    accuracy = None
    predictions = outputs[0]
    if loss.classes:
        predictions = predicted_class(outputs, loss.classes)
        right = (predictions == lanes.target) & (lanes.mask > 0)
        rows = lanes.count.double().sum(-1)
        if lanes.scored is not None:
            right &= lanes.scored
            rows = lanes.scored.sum((0, 2)).double()
        accuracy = right.sum((0, 2)).double() / rows
    return Evaluation(
        selection_loss=_mean(scores.selection_loss),
        validation_loss=_mean(scores.validation_loss),
        accuracy=accuracy,
        predictions=predictions,
        scores=scores,
        values=values,
    )


def _mean(losses: Tensor) -> Tensor:
    """The mean over clients of losses [cells, clients]."""
    return fixed_order_sum(losses, -1) / losses.shape[-1]
