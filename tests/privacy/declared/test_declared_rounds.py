"""Names of those who were drawn, against the sampling that is declared: honest and not."""

from collections import Counter
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from fedaudit.privacy.accounting.accountant import LOSS_STEP
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, Gaussian, PoissonSampled
from fedaudit.privacy.declared import figures
from fedaudit.privacy.declared.figures import (
    FALSE_ALARMS,
    MAX_EVENTS,
    contradictions,
    read_reservation,
    read_rounds,
)
from fedaudit.privacy.declared.histories import MAX_CELLS, Charge, Histories, charge_of, loss_cells
from fedaudit.spec.declared_ledgers import GaussianRelease, LedgerTerms, PoissonRelease
from fedaudit.spec.errors import InvalidInputError
from tests.api.ledgers.trainings import LOCAL
from tests.refusals import refused_by

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
    histories, drawn, alarms = Histories(), Counter[str](), 0
    for number in range(rounds):
        own = min(1.0, rate * (1 + number % 3))
        # Half of the rounds have all steps, and the others one.
        taken = steps if number % 2 else 1
        release = PoissonRelease(
            kind="poisson-gaussian", rate=own, noise_multiplier=1.0, steps=taken
        )
        histories.charge(charge_of(terms, release), NOBODY, steps=release.steps)
        came = draw.random(population) < named * (1 - (1 - own) ** taken)
        drawn.update(map(str, np.flatnonzero(came)))
        alarms += bool(contradictions(terms, histories, drawn))
    return alarms


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    ("population", "rounds", "rate"), [(5, 40, 0.02), (100, 40, 0.1), (1000, 20, 0.05), (20, 9, 1)]
)
def test_honest_names_contradict_nothing(population, rounds, rate, steps):
    """Looked at after every round; all of these together alarm with a chance below 1e-7."""
    assert FALSE_ALARMS == 1e-9
    asked = {"population": population, "rounds": rounds, "rate": rate, "steps": steps}
    assert sum(_alarms(seed, **asked) for seed in range(8)) == 0


@pytest.mark.parametrize(("named", "missed"), [(0.0, 0), (0.5, 0), (0.7, 0), (1.0, 20)])
def test_fewer_names_than_were_drawn_are_a_contradiction_and_how_many_fewer(named, missed):
    """2,000 participations in 20 rounds are expected; of a trainer that names 0.7 of them each of
    20 is found."""
    found = [
        _alarms(seed, population=1000, rounds=20, rate=0.05, named=named) > 0 for seed in range(20)
    ]
    assert found.count(False) == missed


_TERMS = LedgerTerms.model_validate({**LOCAL, "population": 10})


def _event(place: int) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": 1.0 + place}


def _histories(events: int) -> Histories:
    found = Histories()
    places = found.enter(["a"])
    for place in range(events):
        release = GaussianRelease.model_validate(_event(place))
        found.charge(charge_of(_TERMS, release), places, steps=1)
    return found


def _posted(histories: Histories, *places: int) -> list[str]:
    rounds = [
        {"round": number, "event": _event(place), "participants": ["a"]}
        for number, place in enumerate(places, start=1)
    ]
    try:
        read_rounds({"rounds": rounds}, _TERMS, histories)
    except InvalidInputError as error:
        return [one.pointer for one in error.errors]
    return []


def test_one_event_too_many_is_the_fault_of_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_EVENTS", 3)
    assert _posted(_histories(1), 1, 2, 1, 0) == []
    assert _posted(_histories(1), 1, 2, 3, 1, 4) == ["/rounds/2/event", "/rounds/4/event"]
    # Those that are known may come for ever.
    assert _posted(_histories(3), 2, 1, 0) == []


def test_what_is_reserved_counts_for_what_is_reserved_next() -> None:
    body = {"event": _event(MAX_EVENTS), "participants": ["a"]}
    spent, held = _histories(1), _histories(MAX_EVENTS)
    [fault] = refused_by(read_reservation, body, _TERMS, spent, held=held)
    assert fault.pointer == "/event"
    assert "rounded down" in fault.message
    read_reservation({**body, "event": _event(5)}, _TERMS, spent, held=held)


_RELATIONS = {
    "add-or-remove-one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def _library(event: Event) -> dp_accounting.DpEvent:
    if isinstance(event, PoissonSampled):
        return dp_accounting.PoissonSampledDpEvent(event.rate, _library(event.event))
    assert isinstance(event, Gaussian)
    return dp_accounting.GaussianDpEvent(event.noise_multiplier)


def _made(pairs: list[tuple[Event, int]], adjacency: Adjacency) -> int:
    """Cells of the largest array of the composition."""
    accountant, largest = PLDAccountant(_RELATIONS[adjacency], LOSS_STEP), 0
    for event, count in pairs:
        accountant.compose(_library(event), count)
        found = accountant._pld
        largest = max(largest, found._pmf_remove.size, found._pmf_add.size)
    return largest


@pytest.mark.parametrize(
    ("adjacency", "pairs"),
    [
        *(
            ("add-or-remove-one", [(event, count)])
            for event, count in (
                *((Gaussian(0.5), 1), (Gaussian(3.0), 200), (Gaussian(300.0), 200)),
                (PoissonSampled(1e-4, Gaussian(0.6)), 1),
                (PoissonSampled(0.01, Gaussian(4)), 300),
                (PoissonSampled(0.3, Gaussian(1.1)), 10),
            )
        ),
        ("replace-one", [(Gaussian(2.0), 5)]),
        ("replace-one", [(Gaussian(40.0), 500)]),
        ("add-or-remove-one", [(Gaussian(2.0), 3), (PoissonSampled(0.1, Gaussian(1.0)), 20)]),
    ],
)
def test_no_array_is_larger_than_was_said(adjacency, pairs):
    charges = [Charge(event, everyone=False) for event, _ in pairs]
    history = np.array([count for _, count in pairs])
    said = loss_cells(history, charges, adjacency=adjacency)
    made = _made(pairs, adjacency)
    assert made <= said
    # And of large ones not so much larger that what could be composed is refused.
    assert said <= max(MAX_CELLS / 40, 60 * len(pairs) * made)


def test_more_compositions_are_never_said_to_need_less() -> None:
    charge = Charge(PoissonSampled(0.2, Gaussian(1.3)), everyone=False)
    said = [
        loss_cells(np.array([count]), [charge], adjacency="add-or-remove-one")
        for count in (1, 2, 5, 20, 100, 1000, 10_000)
    ]
    assert said == sorted(said)
