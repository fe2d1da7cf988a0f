"""One round of rPDP-FL (CCS 2024): clients by coins, private local steps, the mean of their models.

Local steps start from the global model with an optimiser that remembers nothing, so that all that a
client's records leave behind is in the model.

The server divides by the number of clients whose coins fell. That keeps the two-stage bound: fix
the coins of all other clients; a record's own client then adds itself to m others or does not. The
round is the mixture (1 - lambda) P0 + lambda P1 with the record and (1 - lambda) P0 + lambda P1'
without, P0 being the same in both. P1 and P1' both divide by m + 1 and differ by the client's own
steps, at a divergence of at most tau rho(alpha). exp((alpha - 1) D_alpha) is jointly convex, so the
divergence of the round is at most

    log(1 - lambda + lambda exp((alpha - 1) tau rho(alpha))) / (alpha - 1),

and so it stays when the other coins are drawn. Nothing here asks P0 to be like P1.
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import Source
from fedaudit.reproducible import fixed_order_sum, one_thread
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.flat_rows import flat_features, flat_target
from fedaudit.training.base.length_classes import length_classes
from fedaudit.training.base.planted import of_records
from fedaudit.training.base.planted_gradients import PlantedGradients
from fedaudit.training.base.record_sources import TrainingRecords
from fedaudit.training.base.record_steps import SiloRecords
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    RecordMechanism,
    RecordProtection,
    ServerMechanism,
)
from fedaudit.training.mechanisms.registry import training_mechanism
from fedaudit.training.stacked.round_method import build_loss

_NUMBERS_TOGETHER = 1 << 23
"""Parameters of the clients that are computed at once: an optimiser holds a few times as many."""


@dataclass(frozen=True)
class PersonalisedPlayed:
    """The result of a round."""

    theta: Tensor
    """float32 [n]: the model after it."""
    present: NDArray[np.bool_]
    """[clients drawn]: whose models were averaged. One that is not finite is withheld; that follows
    from output that noise has already protected, and costs nothing."""


class PersonalisedRound:
    """Runs rounds of one cell; the result does not depend on the number of threads."""

    def __init__(
        self, cell: Cell, records: TrainingRecords, plan: RecordPlan, device: torch.device
    ) -> None:
        self._plan = plan
        self._records = records
        self._features = flat_features(cell.federation, records.place, device)
        self._target = flat_target(cell.federation, records.place, device)
        self._counts = records.counts
        self._first = np.cumsum(self._counts) - self._counts
        self._classes = length_classes(self._counts)
        protection = _protection(cell, plan, clients=len(self._counts))
        self._planted = of_records(cell.planted)
        self._noise, self._steps = protection.noise_multipliers, protection.steps

    def play(
        self, theta: Tensor, drawn: NDArray[np.int64], *, source: Source, round_: int, paid: int
    ) -> PersonalisedPlayed:
        """The round `round_` from the model theta [n], for the drawn clients of the federation.

        `paid`: rounds that were charged before this one. A record whose rounds are used up takes no
        further part.
        """
        places = np.searchsorted(self._records.clients, drawn)
        if not len(places):
            return PersonalisedPlayed(theta, np.zeros(0, dtype=np.bool_))
        together = max(1, _NUMBERS_TOGETHER // len(theta))
        models = theta.new_empty(len(places), len(theta))
        with one_thread():
            # A client's model is the same whoever is computed beside it, and however far padded.
            for one in self._classes:
                own = np.flatnonzero(np.isin(places, one.clients))
                for start in range(0, len(own), together):
                    part = own[start : start + together]
                    inclusion = self._inclusion(places[part], paid, rows=one.rows)
                    models[torch.from_numpy(part)] = self._models(
                        theta, places[part], inclusion=inclusion, source=source, round_=round_
                    )
            present = torch.isfinite(models).all(-1)
            theta = _mean(models[present]) if present.any() else theta
        return PersonalisedPlayed(theta, present.cpu().numpy())

    def _models(
        self,
        theta: Tensor,
        places: NDArray[np.int64],
        *,
        inclusion: NDArray[np.float64],
        source: Source,
        round_: int,
    ) -> Tensor:
        """What the training clients at these places make of the model: [clients, n]."""
        silos = SiloRecords(
            features=self._features,
            target=self._target,
            first=self._first[places],
            inclusion=inclusion,
            noise_multipliers=self._noise[places],
            silos=self._records.clients[places],
            planted=self._gradients(places, rows=inclusion.shape[1]),
        )
        return self._steps(theta, silos, source=source, round_=round_)[0]

    def _gradients(self, places: NDArray[np.int64], *, rows: int) -> PlantedGradients | None:
        """The planted records of the clients at these places, if any."""
        if self._planted is None:
            return None
        return PlantedGradients.among(self._planted, self._records.clients[places], rows=rows)

    def _inclusion(self, places: NDArray[np.int64], paid: int, *, rows: int) -> NDArray[np.float64]:
        """The chance of each record of the clients at `places` in each step of a round: [places,
        rows], 0 beyond a client's own."""
        number = np.arange(rows)
        client, row = np.nonzero(number < self._counts[places, None])
        index = self._first[places[client]] + row
        inclusion = np.zeros((len(places), rows))
        inclusion[client, row] = np.where(
            paid < self._plan.rounds[index], self._plan.rates[index], 0.0
        )
        return inclusion


def _mean(models: Tensor) -> Tensor:
    """The unweighted mean of models [clients, n]: the number of a client's records is not
    disclosed."""
    return fixed_order_sum(models, 0) / len(models)


def _protection(cell: Cell, plan: RecordPlan, *, clients: int) -> RecordProtection:
    """The local steps of a cell. Raises ValueError for a mechanism that does not protect
    records."""
    mechanism = training_mechanism(cell.spec.privacy)
    match mechanism:
        case RecordMechanism():
            return mechanism.protection(cell, build_loss(cell), plan, clients=clients)
        case ClientMechanism() | ServerMechanism():
            raise ValueError(f"{mechanism.name} takes no steps record by record")
        case _:
            assert_never(mechanism)
