"""Score clients that took no part in training by models of their own.

A client makes its model from the rows that are not scored; the scored ones are blanked before, so
that no bit of them can move it. Of several hypotheses it starts from the one that fits those other
rows best. A client without other rows keeps what it was given.
"""

from dataclasses import replace

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.reproducible import fixed_order_sum
from fedaudit.training.methods.training_method import PersonalSteps
from fedaudit.training.stacked.client_tensors import Lanes
from fedaudit.training.stacked.evaluation import Evaluation, Scores, evaluation_of
from fedaudit.training.stacked.hypothesis_choice import choose_hypotheses, own_hypotheses, real_rows


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
    tuning, scored = tuning_lanes(lanes)
    chosen = choose_hypotheses(network, theta, tuning, loss)
    chosen = torch.where(lanes.count == 1, largest[:, None], chosen)
    own = personal_models(network, own_hypotheses(theta, chosen), tuning, loss, personal)
    outputs = _own_outputs(network, own, lanes.features)
    values = real_rows(loss.values(outputs, lanes.target), lanes).double()
    sums = fixed_order_sum(torch.where(scored, values[0], 0.0), 0)
    losses = loss.client_loss(sums / scored.sum(0))
    k = theta.shape[1]
    return evaluation_of(
        loss,
        lanes,
        Scores(losses, losses, chosen.expand(values.shape[1:]) if k > 1 else None),
        # The client's own model predicts, whichever hypothesis it was made from.
        values=values.expand(k, -1, -1, -1),
        outputs=outputs[:, 0],
    )


def tuning_lanes(lanes: Lanes) -> tuple[Lanes, Tensor]:
    """The rows that clients tune on, all others blanked, and a mask of those that are scored.

    Raises ValueError where every row is scored.
    """
    if lanes.scored is None:
        raise ValueError("a personal model needs rows that are not scored")
    tunes = (lanes.mask > 0) & ~lanes.scored
    mask = tunes.to(lanes.mask.dtype)
    tuning = replace(
        lanes,
        features=torch.where(tunes, lanes.features, 0.0),
        target=torch.where(tunes, lanes.target, 0.0),
        mask=mask,
        count=mask.sum(0).clamp_min(1),
        scored=None,
    )
    return tuning, lanes.scored


def personal_models(
    network: Network, start: Tensor, tuning: Lanes, loss: Loss, personal: PersonalSteps
) -> Tensor:
    """What clients make of `start` [cells, clients, n] on the rows of `tuning`: of that shape."""
    common = start.permute(2, 0, 1).contiguous()
    own = common
    for _ in range(personal.steps):
        gradient = network.gradient(own, tuning.features, tuning.target, tuning.weight, loss)
        own = personal.after(own, common, gradient)
    return own.permute(1, 2, 0).contiguous()


def _own_outputs(network: Network, own: Tensor, features: Tensor) -> Tensor:
    """Outputs [out, 1, rows, cells, clients] of each client's own model [cells, clients, n].

    `features` [inputs, rows, cells, clients]. To the network every client is a cell of its own.
    """
    outputs = network.forward(own.flatten(0, 1)[:, None], features.flatten(2, 3)[..., None])
    return torch.unflatten(outputs.squeeze(-1), -1, own.shape[:2])
