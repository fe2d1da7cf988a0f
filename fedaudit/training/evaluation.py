"""How good the hypotheses are for clients that took no part in training.

A hypothesis that is chosen and scored on the same row looks better than it is, so each row is
scored by the hypothesis with the smallest loss on the client's other rows. The smallest loss over
hypotheses, which needs no such care, is `selection_loss`: it stops training and nothing else.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedaudit.networks.choose import Network
from fedaudit.networks.folding import fold
from fedaudit.networks.losses import Loss, predicted_class
from fedaudit.training.data import Lanes
from fedaudit.training.hypotheses import real_rows, totals, without_nan


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


def evaluate(
    network: Network, theta: Tensor, lanes: Lanes, loss: Loss, largest: Tensor
) -> Evaluation:
    """Scores hypotheses theta [cells, k, n] on the clients of `lanes`.

    `largest` int64 [cells]: the hypothesis for clients with one row, which have no other to
    choose by.
    """
    outputs = network.forward(theta, lanes.features)
    # In float64, so that a total less a row's own large value still tells hypotheses apart.
    values = real_rows(loss.values(outputs, lanes.target), lanes).double()
    sums = totals(values)
    losses = loss.client_loss(sums / lanes.count)
    if theta.shape[1] == 1:
        scored_outputs, own_loss = outputs[:, 0], losses[0]
    else:
        # A row's own value is subtracted, so that it has no say in its hypothesis.
        others = without_nan(sums[:, None] - values)
        chosen = others.min(0).indices
        chosen = torch.where(lanes.count == 1, largest[:, None], chosen)
        scored = values.gather(0, chosen[None])[0]
        own_loss = loss.client_loss(fold(scored, 0) / lanes.count)
        index = chosen[None, None].expand(outputs.shape[0], 1, *chosen.shape)
        scored_outputs = outputs.gather(1, index)[:, 0]
    accuracy = None
    predictions = scored_outputs[0]
    if loss.classes:
        predictions = predicted_class(scored_outputs, loss.classes)
        right = (predictions == lanes.target) & (lanes.mask > 0)
        accuracy = right.sum((0, 2)).double() / lanes.count.double().sum(-1)
    return Evaluation(
        selection_loss=losses.amin(0).mean(-1),
        validation_loss=own_loss.mean(-1),
        accuracy=accuracy,
        predictions=predictions,
    )
