"""Names of those who were drawn, against the sampling that is declared: honest and not."""

import numpy as np
import pytest

from fedaudit.privacy.declared.figures import FALSE_ALARMS, Drawn, contradictions
from fedaudit.privacy.declared.histories import Histories, charge_of, steps_of
from fedaudit.spec.declared_ledgers import LedgerTerms, PoissonRelease

NOBODY = np.array([], dtype=np.int32)


def _alarms(
    seed: int, *, population: int, rounds: int, rate: float, steps: int = 1, named: float = 1.0
) -> int:
    """In how many of a training's states there is a contradiction; each client that is drawn is
    named with the chance `named`, at rates that change from round to round."""
    draw = np.random.default_rng(seed)
    terms = LedgerTerms(
        name="t", mechanism="gaussian-central", delta=1e-6, accountant="rdp",
        adjacency="add-or-remove-one", observer="final_model", unit="client", population=population,
    )  # fmt: skip
    histories, drawn, alarms = Histories(), Drawn(), 0
    for number in range(rounds):
        own = min(1.0, rate * (1 + number % 3))
        # Half of the rounds have all steps, and the others one.
        taken = steps if number % 2 else 1
        release = PoissonRelease(
            kind="poisson-gaussian", rate=own, noise_multiplier=1.0, steps=taken
        )
        histories.charge(charge_of(terms, release), NOBODY, steps=steps_of(release))
        came = draw.random(population) < named * (1 - (1 - own) ** taken)
        drawn.add(map(str, np.flatnonzero(came)))
        alarms += bool(contradictions(terms, histories, drawn))
    return alarms


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    ("population", "rounds", "rate"), [(5, 40, 0.02), (100, 40, 0.1), (1000, 20, 0.05), (20, 9, 1)]
)
def test_honest_names_contradict_nothing(
    population: int, rounds: int, rate: float, steps: int
) -> None:
    """Looked at after every round; all of these together alarm with a chance below 1e-7."""
    assert FALSE_ALARMS == 1e-9
    asked = {"population": population, "rounds": rounds, "rate": rate, "steps": steps}
    assert sum(_alarms(seed, **asked) for seed in range(8)) == 0


@pytest.mark.parametrize(("named", "missed"), [(0.0, 0), (0.5, 0), (0.7, 0), (1.0, 20)])
def test_fewer_names_than_were_drawn_are_a_contradiction_and_how_many_fewer(
    named: float, missed: int
) -> None:
    """2,000 participations in 20 rounds are expected; of a trainer that names 0.7 of them each of
    20 is found."""
    found = [
        _alarms(seed, population=1000, rounds=20, rate=0.05, named=named) > 0 for seed in range(20)
    ]
    assert found.count(False) == missed
