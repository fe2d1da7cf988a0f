"""What goes wrong in the ledger, while training does what it ought to."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.accounting import rdp, two_stage
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled
from fedaudit.privacy.accounting.two_stage import log_moments
from fedaudit.privacy.mechanisms.gaussian import GaussianCentralMechanism
from fedaudit.runs.ledger_writer import LedgerWriter
from fedaudit.training.personalised import PersonalisedRun
from tests.attacks.zoo.cells import central, coins, local, records
from tests.attacks.zoo.violations import violation


@violation(central, stage="accounting", check="event of the ledger")
def account_for_coins(patch: pytest.MonkeyPatch) -> None:
    """A cohort of fixed size is accounted for as if coins had drawn it."""

    def one_round(self: Any, training_clients: int = 1) -> Any:
        rate = min(1.0, self.spec.training.cohort.clients / max(training_clients, 1))
        event = PoissonSampled(rate, Gaussian(self.privacy.noise_multiplier))
        return event, "add-or-remove-one"

    patch.setattr(GaussianCentralMechanism, "_round", one_round)


@violation(coins, stage="accounting", check="subjects charged in a round")
def charge_every_other_round(patch: pytest.MonkeyPatch) -> None:
    """Half of the rounds are charged."""
    real = LedgerWriter.record_rounds

    def record_rounds(self: Any, played: Any) -> Any:
        # The replay plays one round at a time.
        assert len(played) == 1
        if played.round[0] % 2:
            return real(self, played)
        recorded = real(copy.deepcopy(self), played)
        return replace(recorded, written=[[]])

    patch.setattr(LedgerWriter, "record_rounds", record_rounds)


@violation(
    lambda: local(noise_multiplier=1.0), stage="accounting", check="epsilon against an attack"
)
def take_the_wrong_neighbours(patch: pytest.MonkeyPatch) -> None:
    """Sums of clients that are replaced are accounted for one clip apart."""
    patch.setitem(rdp._CLIPS_APART, "replace-one", 1.0)


@violation(
    lambda: records(rate=0.3, rounds=8), stage="accounting", check="epsilon against an attack"
)
def miss_the_coin_of_the_client(patch: pytest.MonkeyPatch) -> None:
    """One coin for all steps of a round is accounted for as one for each."""

    def divergence(
        rates: NDArray[np.float64],
        *,
        order: int,
        noise_multiplier: float,
        steps: int,
        client_rate: float,
    ) -> NDArray[np.float64]:
        together = log_moments(client_rate * rates, order=order, noise_multiplier=noise_multiplier)
        return steps * together / (order - 1)

    patch.setattr(two_stage, "round_divergence", divergence)


@violation(coins, stage="accounting", check="epsilon of the ledger")
def state_less_epsilon(patch: pytest.MonkeyPatch) -> None:
    """The ledger states nine tenths of what was spent."""
    real = LedgerContext.epsilons

    def epsilons(self: Any, *given: Any) -> Any:
        found = real(self, *given)
        return None if found is None else 0.9 * found

    patch.setattr(LedgerContext, "epsilons", epsilons)


@violation(records, stage="accounting", check="rounds of the busiest client")
def charge_the_average_client(patch: pytest.MonkeyPatch) -> None:
    """Against the server the rounds of an average client count, not those of the busiest."""
    real = PersonalisedRun._compositions

    def compositions(self: Any) -> Any:
        found = dict(real(self))
        mean = int(self.state.participations[self._records.clients].mean())
        found["server"] = self._repeat_by_group(mean)
        return found

    patch.setattr(PersonalisedRun, "_compositions", compositions)
