"""Rounds that score a sample of the held-out clients disclose what that sample lets them."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.fairness.joint_disclosure import Population
from fedaudit.federations.load import load_federation
from fedaudit.native.library import kernels
from fedaudit.runs import sampled_rounds
from fedaudit.runs.blocks import record_block
from fedaudit.runs.held_out_groups import decide_disclosures, held_out_groups
from fedaudit.runs.run import new_run
from fedaudit.runs.sampled_rounds import SampledRounds
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.native_fallback import fallback_only
from tests.training.specs import groups_spec


def cell(*, clients: int | None, minimum: int = 30) -> Cell:
    spec = parse_spec(
        groups_spec(
            training__rounds=4,
            training__stopping={"patience": None, "validation_clients": clients},
            fairness__minimum_group_size=minimum,
        )
    )
    return Cell(spec, load_federation(spec, sources_dir=None))


def test_every_round_is_decided_from_the_clients_that_it_draws() -> None:
    sampled = cell(clients=12, minimum=20)
    run = new_run(sampled, experiment_id="x", started_at=datetime.now(UTC))
    stack = Stack([sampled])
    played = stack.advance(4)[0]
    [columns] = played.spans
    found = run.disclosures_of(columns.round.tolist())["group"]
    scored = columns.pooled(columns.validated)["group"].sum(axis=-1)
    assert len(scored) == 4
    found.check(scored)  # the very rows that were counted
    assert len({tuple(rows) for rows in scored.tolist()}) > 1, "other clients in every round"
    assert not (found.shown & (scored < 20)).any()
    block = record_block(run, played, last=True)
    assert len(block.fairness) == 4


@pytest.mark.parametrize("ahead", [2, 256])
def test_blocks_of_rounds_are_decided_as_all_of_them_are(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """The last round is validated whatever its number."""
    monkeypatch.setattr("fedaudit.runs.run._AHEAD", ahead)
    stopping = {"patience": None, "validation_clients": 12, "validate_every": 3}
    asked = groups_spec(training__rounds=25, training__stopping=stopping)
    asked["fairness"]["minimum_group_size"] = 20
    spec = parse_spec(asked)
    sampled = Cell(spec, load_federation(spec, sources_dir=None))
    run = new_run(sampled, experiment_id="x", started_at=datetime.now(UTC))
    rounds = [*range(3, 25, 3), 25]
    at_once = SampledRounds(sampled, run.disclosures, size=12)
    expected, withheld = at_once.disclosures(rounds), at_once.everybody_withheld(rounds)
    place = 0
    for block in ([3], [6, 9, 12], [15, 18, 21, 24, 25]):
        own = slice(place, place := place + len(block))
        for name, found in run.disclosures_of(block).items():
            assert (found.shown == expected[name].shown[own]).all()
            found.check(expected[name].rows[own])
        may_not = run.rounds_withheld(block)
        assert {one for one in block if one in may_not} == withheld.keys() & set(block)
    assert expected["group"].shown.any()
    assert not expected["group"].shown.all()


def test_a_round_that_leaves_one_client_out_shows_no_group_that_it_is_of() -> None:
    whole = cell(clients=None)
    population = held_out_groups(whole)
    held_out = len(np.unique(population.clients))
    report = decide_disclosures(whole)
    assert report["group"].shown.all()
    sampled = SampledRounds(whole, report, size=held_out - 1)
    found = sampled.disclosures(range(1, 30))["group"]
    left_out = report["group"].rows - found.rows
    assert ((left_out > 0).sum(axis=-1) == 1).all(), "one client, of one group"
    assert not found.shown[left_out > 0].any()
    assert not found.shown.any(axis=-1).any(), "two groups: the other would give it away"


@pytest.mark.parametrize("size", [1, 2])
def test_few_clients_are_too_few_however_many_rows_they_have(size: int) -> None:
    whole = cell(clients=None, minimum=1)
    report = decide_disclosures(whole)
    found = SampledRounds(whole, report, size=size).disclosures(range(1, 20))["group"]
    of_two = (found.rows > 0).sum(axis=-1) == 1
    assert found.shown.any() == (size == 2)
    assert not found.shown[~of_two].any(), "one client in each group"


def test_no_two_rounds_show_a_group_that_they_differ_in_by_few() -> None:
    """The attack: of two rounds whose models decide alike one is subtracted from the other."""
    whole = cell(clients=None, minimum=20)
    report, size = decide_disclosures(whole), 30
    rounds = range(1, 61)
    sampled = SampledRounds(whole, report, size=size)
    found, of_clients = sampled.disclosures(rounds)["group"], sampled._rows["group"]
    places = sampled.drawn(rounds)[0]
    near = 0
    for later, of_later in enumerate(places):
        for earlier, of_earlier in enumerate(places[:later]):
            only = np.setxor1d(of_later, of_earlier)
            rows = of_clients[only].sum(axis=0)
            few = (rows > 0) & ((rows < 20) | ((of_clients[only] > 0).sum(axis=0) < 2))
            near += int(few.any())
            assert not (few & found.shown[later] & found.shown[earlier]).any()
    assert near > 0, "or there was nothing to find"
    assert found.shown.any(), "the first of them are shown"
    # A run that is taken up again in round 41 decides the same.
    again = SampledRounds(whole, report, size=size).disclosures(rounds[40:])["group"]
    assert (again.shown == found.shown[40:]).all()


ROUNDS = 40


def few_have_rare_groups(clients: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Groups of very different sizes that few clients have rows of, and few rows without one."""
    rng, own = np.random.default_rng(seed), np.unique(clients)
    of_client = rng.choice(4, len(own), p=[0.55, 0.3, 0.1, 0.05])
    codes = of_client[np.searchsorted(own, clients)]
    codes = np.where(rng.random(len(codes)) < 0.9, codes, 0)
    codes[rng.random(len(codes)) < 0.02] = -1
    return codes


def one_has_two_of_its_own(clients: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Two groups of many rows that are one client's alone."""
    rng, own = np.random.default_rng(seed), np.unique(clients)
    codes = rng.choice(2, len(own))[np.searchsorted(own, clients)]
    alone = np.flatnonzero(clients == rng.choice(own))
    codes[alone] = 2 + np.arange(len(alone)) % 2
    return codes


@pytest.mark.parametrize(
    ("deal", "minimum"), [(few_have_rare_groups, 20), (one_has_two_of_its_own, 4)]
)
def test_rounds_that_are_not_looked_at_would_be_decided_the_same(monkeypatch, deal, minimum):
    whole = cell(clients=None, minimum=minimum)
    clients, report = held_out_groups(whole).clients, decide_disclosures(whole)["group"]
    rounds, every = range(1, ROUNDS + 1), np.ones(ROUNDS, dtype=np.bool_)
    followed = 0
    for seed, size in product(range(6), (6, 12, 30)):
        codes = deal(clients, seed)
        population = Population(codes={"group": codes}, groups={"group": 4}, clients=clients)
        monkeypatch.setattr(sampled_rounds, "held_out_groups", lambda _, own=population: own)
        sizes = np.bincount(codes + 1, minlength=5)[1:]
        made = {"group": replace(report, rows=sizes, shown=sizes >= minimum)}
        sampled = SampledRounds(whole, made, size=size)
        quick = sampled.disclosures(rounds)["group"].shown
        monkeypatch.setattr(sampled, "_to_be_looked_at", lambda *_: every)
        slow = sampled.disclosures(rounds)["group"].shown
        monkeypatch.setattr(sampled, "_to_be_looked_at", lambda *_: ~every)
        alone = sampled.disclosures(rounds)["group"].shown
        assert (quick == slow).all()
        followed += int((alone != slow).any(axis=1).sum())
    assert followed > 10, "or nothing was to be found"


@pytest.mark.skipif(kernels() is None, reason="built without a C compiler")
@pytest.mark.parametrize("minimum_clients", [2, 4])
def test_near_rounds_are_the_same_with_the_compiled_kernels_and_without(
    monkeypatch: pytest.MonkeyPatch, minimum_clients: int
) -> None:
    whole = cell(clients=None, minimum=20)
    clients, report = held_out_groups(whole).clients, decide_disclosures(whole)["group"]
    codes = few_have_rare_groups(clients, 1)
    population = Population(codes={"group": codes}, groups={"group": 4}, clients=clients)
    monkeypatch.setattr(sampled_rounds, "held_out_groups", lambda _: population)
    rule = replace(report.rule, minimum_group_clients=minimum_clients)
    made = replace(report, rule=rule, rows=np.bincount(codes + 1)[1:], shown=np.ones(4, np.bool_))

    def shown() -> NDArray[np.bool_]:
        sampled = SampledRounds(whole, {"group": made}, size=30)
        blocks = (range(1, 91), range(91, 181))
        return np.concatenate([sampled.disclosures(block)["group"].shown for block in blocks])

    ours = shown()
    with fallback_only():
        fallback = shown()
    assert (ours == fallback).all()
    monkeypatch.setattr(SampledRounds, "_near", lambda *given: np.zeros_like(given[-1]))
    assert (shown() & ~ours).any(), "or no round was near an earlier one"
    assert ours.any()


def test_rounds_of_everybody_are_decided_once() -> None:
    every = cell(clients=10_000)
    run = new_run(every, experiment_id="x", started_at=datetime.now(UTC))
    found = run.disclosures_of([1, 2])["group"]
    assert (found.shown == run.disclosures["group"].shown).all()
    assert found.shown.shape == (2, 2)


def test_what_the_report_suppresses_no_round_shows() -> None:
    whole = cell(clients=None, minimum=20)
    report = decide_disclosures(whole)["group"]
    for second in (True, False):
        shown = {"group": replace(report, shown=np.array([True, second]))}
        found = SampledRounds(whole, shown, size=12).disclosures(range(1, 20))["group"]
        assert found.shown[:, 1].any() == second
