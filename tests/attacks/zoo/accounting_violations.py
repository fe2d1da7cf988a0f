"""What goes wrong in the ledger, while training does what it ought to."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from fedaudit.ledger.encoding import LedgerHash
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled
from fedaudit.privacy.mechanisms.gaussian import GaussianCentralMechanism
from fedaudit.runs.ledger_writer import LedgerWriter
from fedaudit.training.personalised import RecordCharges
from tests.attacks.zoo.cells import central, coins, records
from tests.attacks.zoo.violations import violation


@violation(central, "accounting", "event of the ledger")
def account_for_coins(patch: pytest.MonkeyPatch) -> None:
    """A cohort of fixed size is accounted for as if coins had drawn it."""

    def event(self, noise_multiplier, *, training_clients):
        rate = min(1.0, self.spec.training.cohort.clients / max(training_clients, 1))
        return PoissonSampled(rate, Gaussian(noise_multiplier))

    patch.setattr(GaussianCentralMechanism, "_event", event)
    patch.setattr(GaussianCentralMechanism, "adjacency", "add-or-remove-one")


@violation(coins, "accounting", "subjects charged in a round", at=(LedgerWriter, "record_rounds"))
def charge_every_other_round(real, self, played):
    """Half of the rounds are charged."""
    # The replay plays one round at a time.
    assert len(played) == 1
    if played.round[0] % 2:
        return real(self, played)
    # A hash has no deep copy; another takes its place.
    forgotten = copy.deepcopy(self, {id(self._hash): LedgerHash()})
    return replace(real(forgotten, played), written=[])


@violation(coins, "accounting", "epsilon of the ledger", at=(LedgerContext, "epsilons"))
def state_less_epsilon(real, self, *given):
    """The ledger states nine tenths of what was spent."""
    found = real(self, *given)
    return None if found is None else 0.9 * found


@violation(records, "accounting", "rounds of the busiest client", at=(RecordCharges, "count_in"))
def charge_the_average_client(real, self, *given):
    """Against the server the rounds of an average client count, not those of the busiest."""
    found = real(self, *given)
    mean = int(self._state.releases[0, self._engine.records.clients].mean())
    found["server"] = np.full_like(found["server"], mean)
    return found
