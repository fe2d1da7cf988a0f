"""Layout, release noise and the end of stacked runs."""

from typing import Any

import numpy as np
import pytest

from fedaudit.federations.load import load_federation
from fedaudit.ledger.rows import Outcome
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell, cells_at_once, stacks
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_state import packed, unpacked
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import random_federation, table_cell
from tests.training.gaussian import COINS, LAYERS, MECHANISMS, MOVING, REPORTED, SERVER
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec, linear_spec, train
from tests.workers.admission import spec_with


def run_stacked(cells: list[Cell], cut: int) -> dict[int, list[RoundRecord]]:
    stack = Stack(cells)
    records: dict[int, list[RoundRecord]] = {position: [] for position in range(len(cells))}
    while stack.active:
        for position, played in stack.advance(cut).items():
            records[position] += records_of(played)
    return records


NETWORKS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"model": {"kind": "mlp", "hidden": [3]}, "training__local__step_size": 0.01},
    "wide": {"model": {"kind": "mlp", "hidden": [24]}, "training__local__step_size": 0.01},
    "steps": {"training__local": {"steps": 7, "batch_size": 4, "step_size": 0.05}},
    "crowded": {"training__hypotheses": 8, "training__cohort": {"clients": 10}},
    "batches": {"training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.05}},
    "sampled-validation": {"training__stopping": {"validation_clients": 13, "patience": 4}},
    "reported": {"training__clustering": {"method": "reported"}},
    "scored-rows": {"federation__scoring": {"method": "split", "fraction": 0.5}},
    "clipped-layers": {**LAYERS, "privacy__clip": 0.05, "privacy__radius": 0.1},
    "local": MECHANISMS["local"],
    "coins": MECHANISMS["coins"],
    "blocks": {**MECHANISMS["blocks"], "training__rounds": 10},
    "coins-wide": {
        **MECHANISMS["coins"],
        "model": {"kind": "mlp", "hidden": [24]},
        "training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.01},
    },
    "adam": MECHANISMS["adam"],
    "server-momentum": MECHANISMS["server-momentum"],
    "rare-coins": {
        **MECHANISMS["coins"],
        "training__cohort": {"sampling": "poisson", "rate": 0.01},
    },
}


@pytest.mark.parametrize("name", NETWORKS)
def test_alone_and_stacked_agree_bit_for_bit(name: str) -> None:
    changes = {"training__rounds": 8, **NETWORKS[name]}
    size = 7 if name in ("linear", "wide", "coins") else 2
    cells = [cell(groups_spec(**{"seed": seed, **changes})) for seed in range(size)]
    together = run_stacked(cells, 30)
    for position, one in enumerate(cells):
        alone = run_stacked([one], 30)[0]
        assert fingerprint(alone) == fingerprint(together[position])


def test_cells_of_one_stack_may_differ_in_noise_rounds_and_patience() -> None:
    specs = [
        groups_spec(privacy__noise_multiplier=0.5, training__rounds=9),
        groups_spec(privacy__noise_multiplier=3.0, training__stopping={"patience": 2}),
        groups_spec(privacy__radius=0.2, privacy__clip=0.1, seed=4),
        groups_spec(privacy__client_budget=6.0),
    ]
    together = run_stacked([cell(spec) for spec in specs], 30)
    for position, spec in enumerate(specs):
        assert fingerprint(train(spec)[0]) == fingerprint(together[position])
    assert len(together[0]) == 9


def test_trusted_servers_of_one_stack_may_differ_in_noise_clip_and_budget() -> None:
    reported = {"training__clustering": {"method": "reported"}}
    central = {"mechanism": "gaussian-central", "noise_multiplier": 2.0, "clip": 1.0, "delta": 1e-3}
    specs = [
        groups_spec(privacy=central, seed=5, **reported),
        groups_spec(privacy={**central, "clip": 0.01, "delta": 1e-5}, **reported),
        groups_spec(privacy={**central, "epsilon_budget": 6.0}, **reported),
        groups_spec(privacy={**central, "noise_multiplier": 0.1}, training__rounds=11, **reported),
    ]
    together = run_stacked([cell(spec) for spec in specs], 30)
    for position, spec in enumerate(specs):
        assert fingerprint(train(spec)[0]) == fingerprint(together[position])
    assert 1 < len(together[2]) < 30


REPEATED = {
    **{f"network {name}": NETWORKS[name] for name in ("wide", "batches")},
    **MECHANISMS,
    "budget": {"privacy__client_budget": 12.0},
}


@pytest.mark.parametrize("name", REPEATED)
def test_threads_cuts_and_interruptions_do_not_matter(name: str) -> None:
    stopping = {"patience": 6, "validation_clients": 20}
    spec = groups_spec(training__stopping=stopping, **REPEATED[name])
    assert_repeats(cell(spec), stops=(1, 6, 1, 12))


@pytest.mark.parametrize("name", ["laplace", "moving-clip", "coins"])
def test_the_checkpoint_of_a_run_that_ended_does_not_depend_on_the_cuts(name: str) -> None:
    stopping = {"validation_clients": 5}
    cells = [
        cell(groups_spec(training__stopping={**stopping, "patience": patience}, **MECHANISMS[name]))
        for patience in (2, None)
    ]
    checkpoints = []
    for cut in (1, 7, 100):
        stack = Stack(cells)
        while 0 in stack.active:
            stack.advance(cut)
        checkpoints.append(stack.checkpoint(0))
    assert len(set(checkpoints)) == 1
    assert Stack(cells[:1], checkpoints=checkpoints[:1]).result(0).stopped_by == "patience"


def test_cells_of_one_stack_may_be_in_different_rounds_of_a_schedule() -> None:
    cells = [cell(groups_spec(seed=seed, **MECHANISMS["adam"])) for seed in (1, 2)]
    ahead = Stack(cells[:1])
    first = records_of(ahead.advance(11)[0])
    both = Stack(cells, checkpoints=[ahead.checkpoint(0), None])
    records: dict[int, list[RoundRecord]] = {0: first, 1: []}
    while both.active:
        for position, played in both.advance(6).items():
            records[position] += records_of(played)
    for position, one in enumerate(cells):
        assert fingerprint(records[position]) == fingerprint(run_stacked([one], 30)[0])


def test_seed_zero_is_a_seed() -> None:
    zero, again, one = (train(linear_spec(seed=seed))[0] for seed in (0, 0, 1))
    assert fingerprint(zero) == fingerprint(again)
    assert fingerprint(zero) != fingerprint(one)


SPLIT = {"federation__scoring": {"method": "split"}, "training__hypotheses": 1}
DITTO = {**SPLIT, "training__method": "ditto"}
OTHER_SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "data": ({}, {"federation__rows_per_client": 6}),
    "noise": ({}, {"privacy__noise": "release"}),
    "layers": ({}, {"privacy__per_layer": True}),
    "a moving clip": (SERVER, {"privacy": MOVING, **REPORTED}),
    "a cohort of coins": (SERVER, {**SERVER, "training__cohort": COINS}),
    "planned rounds of a schedule": (
        MECHANISMS["adam"],
        {**MECHANISMS["adam"], "training__rounds": 9},
    ),
    "a server": ({}, {"training__server": {"optimiser": "adam"}}),
    "a method": (DITTO, {**SPLIT, "training__method": "fine-tuning"}),
    "scored rows": (SPLIT, {**SPLIT, "federation__scoring": {"method": "split", "fraction": 0.3}}),
}


@pytest.mark.parametrize(("one", "other"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
def test_cells_of_different_shapes_are_refused(one: dict[str, Any], other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one shape"):
        Stack([cell(groups_spec(**changes)) for changes in (one, other)])


def small_cell(**changes: object) -> Cell:
    spec = parse_spec(spec_with(**changes))
    return Cell(spec, load_federation(spec, sources_dir=None))


def test_neighbours_of_one_shape_are_together_and_others_are_not() -> None:
    cells = [
        small_cell(seed=1),
        small_cell(seed=2, privacy__noise_multiplier=0.5, training__rounds=3),
        small_cell(seed=3, federation__rows_per_client=6),
        small_cell(seed=4),
    ]
    assert stacks(cells) == [[0, 1], [2], [3]]
    assert stacks([]) == []


def test_as_many_as_fit_and_at_least_one() -> None:
    one = small_cell()
    assert cells_at_once(one, memory_bytes=1) == 1
    assert cells_at_once(one, memory_bytes=2**30) > 100 * cells_at_once(one, memory_bytes=2**20)


def test_clients_that_no_round_looks_at_take_no_memory() -> None:
    def fitting(**changes: object) -> int:
        return cells_at_once(small_cell(federation__validation_fraction=0.5, **changes))

    # Of 40 clients 20 are held out, and 7 train in a round.
    sampled = fitting(training__stopping={"validation_clients": 2})
    assert sampled > 2 * fitting() > 0
    assert sampled == fitting(training__stopping={"validation_clients": 7})


def release_stack(**changes: Any) -> Stack:
    return Stack([cell(groups_spec(privacy__noise="release", **changes))])


def play(stack: Stack, rounds: int) -> list[RoundRecord]:
    stack.plan(rounds)
    return records_of(stack.advance(rounds)[0])


def test_rounds_must_be_planned_before_their_noise_is_drawn() -> None:
    stack = release_stack()
    with pytest.raises(RuntimeError, match="planned first"):
        stack.advance(1)
    assert len(play(stack, 3)) == 3
    with pytest.raises(RuntimeError, match="planned first"):
        stack.advance(1)


def test_advance_stops_where_the_plan_ends() -> None:
    stack = release_stack()
    (planned,) = stack.plan(4).values()
    assert [plan.round for plan in planned] == [1, 2, 3, 4]
    assert [record.round for record in records_of(stack.advance(100)[0])] == [1, 2, 3, 4]


@pytest.mark.parametrize("budget", [None, 6.0])
def test_the_plan_names_those_who_are_charged(budget: float | None) -> None:
    stack = release_stack(privacy__client_budget=budget)
    while stack.active:
        planned = stack.plan(7)[0]
        records = records_of(stack.advance(7)[0])
        assert len(planned) == len(records)
        for plan, record in zip(planned, records, strict=True):
            assert (plan.round, plan.release) == (record.round, record.release)
            charged = record.subjects[record.outcomes != Outcome.REFUSED]
            assert np.array_equal(plan.subjects, charged)
            assert plan.subjects.dtype == np.int32
    assert budget is None or stack.releases(0).max() == 2


def test_planning_twice_changes_nothing() -> None:
    stack = release_stack(privacy__client_budget=6.0)
    first, again = stack.plan(5)[0], stack.plan(5)[0]
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.subjects, other.subjects)
    assert len(stack.advance(5)[0]) == 5


def test_a_plan_ends_with_the_last_round() -> None:
    stack = release_stack(training__rounds=3)
    assert [plan.round for plan in stack.plan(10)[0]] == [1, 2, 3]
    assert len(stack.advance(10)[0]) == 3
    assert stack.active == []


def test_who_trains_and_who_validates_does_follow_from_the_seed() -> None:
    """Validation protects nobody, and who can be drawn is part of the experiment."""
    stacks = [release_stack(training__stopping={"validation_clients": 10}) for _ in range(2)]
    drawn = [
        {client for record in play(stack, 30) for client in record.subjects.tolist()}
        for stack in stacks
    ]
    assert drawn[0] == drawn[1]


def test_lost_rounds_stay_charged_and_are_repeated_under_a_new_release() -> None:
    changes = {"privacy__client_budget": 6.0, "training__cohort": {"clients": 50}}
    lost = release_stack(**changes)
    play(lost, 1)
    checkpoint = lost.checkpoint(0)
    (plan,) = lost.plan(1)[0]  # its worker dies before the round is stored

    spec = groups_spec(privacy__noise="release", **changes)
    stack = Stack([cell(spec)], checkpoints=[checkpoint])
    stack.charge(0, plan.subjects)
    stack.set_release(0, 1, until=plan.round)
    assert stack.releases(0).max() == 2
    (repeated,) = stack.plan(1)[0]
    assert (repeated.round, repeated.release) == (2, 1)
    # One release, one lost: a budget of two has no room for the repetition.
    assert len(repeated.subjects) == 0
    records = records_of(stack.advance(1)[0]) + play(stack, 1)
    assert [(record.round, record.release) for record in records] == [(2, 1), (3, 0)]
    assert set(records[0].outcomes.tolist()) == {Outcome.REFUSED}


def test_release_numbers_survive_an_interruption() -> None:
    stack = release_stack()
    stack.set_release(0, 2, until=3)
    first = play(stack, 2)
    resumed = Stack(
        [cell(groups_spec(privacy__noise="release"))], checkpoints=[stack.checkpoint(0)]
    )
    rest = play(resumed, 2)
    assert [record.release for record in first + rest] == [2, 2, 2, 0]
    assert [record.round for record in first + rest] == [1, 2, 3, 4]


def losses(records: list[RoundRecord]) -> dict[int, float]:
    """Selection losses of the rounds that were validated."""
    return {
        record.round: record.selection_loss
        for record in records
        if record.selection_loss is not None
    }


def stopping_round(found: dict[int, float], patience: int) -> int | None:
    """The round of the validation that is the `patience`-th in a row without a lower loss."""
    best, waited = np.inf, 0
    for number, loss in found.items():
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == patience:
            return number
    return None


@pytest.mark.parametrize(
    ("patience", "every", "validation_clients"), [(1, 1, None), (2, 3, 9), (5, 1, 9), (5, 3, None)]
)
def test_patience_ends_training_after_that_many_validations(patience, every, validation_clients):
    stopping = {"validate_every": every, "validation_clients": validation_clients}
    changes = {"training__rounds": 200, "privacy__noise_multiplier": 5.0}
    endless, _ = train(groups_spec(training__stopping=stopping, **changes))
    found = losses(endless)
    expected = stopping_round(found, patience)
    assert expected is not None
    records, result = train(
        groups_spec(training__stopping={**stopping, "patience": patience}, **changes)
    )
    assert (result.stopped_by, result.rounds) == ("patience", expected)
    assert [record.round for record in records] == list(range(1, expected + 1))
    best = min((loss, number) for number, loss in found.items() if number <= expected)
    assert result.best_round == best[1]


def test_the_best_hypotheses_are_scored_on_all_held_out_clients() -> None:
    records, result = train(groups_spec(training__stopping={"patience": None}))
    assert (result.stopped_by, result.rounds) == ("rounds", 30)
    found = losses(records)
    assert result.best_round == min(found, key=found.__getitem__)
    best = records[result.best_round - 1]
    assert result.selection_loss == best.selection_loss
    assert result.validation_loss == best.validation_loss
    assert result.hypotheses.shape == (2, 3)
    assert result.collapsed_rounds == sum(record.collapsed for record in records)


@pytest.mark.parametrize(("every", "rounds"), [(4, 10), (50, 10), (5, 10)])
def test_the_last_round_is_always_validated(every: int, rounds: int) -> None:
    records, result = train(
        groups_spec(training__stopping={"validate_every": every}, training__rounds=rounds)
    )
    validated = [record.round for record in records if record.validation_loss is not None]
    assert validated == sorted({*range(every, rounds + 1, every), rounds})
    assert result.best_round in validated
    for record in records:
        assert bool(record.fairness) == (record.round in validated)


def test_a_run_whose_loss_is_not_finite_has_diverged() -> None:
    changes = {
        "training__loss": "mse",
        "training__local": {"step_size": 1e6},
        "privacy": {"mechanism": "none"},
        "training__rounds": 50,
    }
    stack = Stack([table_cell(random_federation(), **changes)])
    records = records_of(stack.advance(50)[0])
    assert stack.active == []
    result = stack.result(0)
    assert result.stopped_by == "diverged"
    assert len(records) < 50
    assert not np.isfinite(records[-1].selection_loss or 0.0)
    # What it had before is kept.
    assert np.isfinite(result.hypotheses).all()
    assert np.isfinite(result.selection_loss)


def test_other_cells_go_on_where_one_diverges_or_is_stopped() -> None:
    data = random_federation()
    specs = [
        {"seed": seed, "training__rounds": rounds, "training__loss": "mse"}
        for seed, rounds in ((1, 40), (2, 3), (3, 40))
    ]
    cells = [table_cell(data, **changes) for changes in specs]
    stack = Stack(cells)
    first = stack.advance(10)
    assert [len(first[position]) for position in range(3)] == [10, 3, 10]
    stack.stop(0)
    assert stack.active == [2]
    rest = stack.advance(100)
    assert list(rest) == [2]
    assert stack.active == []
    alone = Stack([cells[2]])
    expected = records_of(alone.advance(100)[0])
    found = records_of(first[2] + rest[2])
    assert [record.selection_loss for record in found] == [
        record.selection_loss for record in expected
    ]
    assert stack.result(0).stopped_by == "cancelled"
    assert stack.result(2).hypotheses.tobytes() == alone.result(0).hypotheses.tobytes()


def test_a_collapse_is_flagged() -> None:
    """Far hypotheses that attract nobody are kept, so one cluster takes everything."""
    spec = groups_spec(
        training__clustering={"method": "k-means", "empty_cluster": "keep"},
        privacy__noise_multiplier=0.01,
        training__rounds=30,
        training__hypotheses=8,
    )
    records, result = train(spec)
    for record in records:
        assert record.collapsed == (sum(size > 0 for size in record.cluster_sizes) == 1)
    single, _ = train(groups_spec(training__hypotheses=1, training__rounds=3))
    assert not any(record.collapsed for record in single)
    assert all(record.separation is None for record in single)
    assert result.collapsed_rounds == sum(record.collapsed for record in records)


def test_nothing_is_left_to_play_after_the_end() -> None:
    stack = Stack([cell(groups_spec(training__rounds=2))])
    assert len(stack.advance(10)[0]) == 2
    assert stack.advance(10) == {}
    resumed = Stack([cell(groups_spec(training__rounds=2))], checkpoints=[stack.checkpoint(0)])
    assert resumed.active == []
    assert resumed.result(0).hypotheses.tobytes() == stack.result(0).hypotheses.tobytes()


# -- a checkpoint with many fields is read back: their names and types exceed numpy's own limit ---


def test_a_checkpoint_of_very_many_fields_is_read_back() -> None:
    given = {f"the moments of layer {n}": np.full(3, n, dtype=np.float32) for n in range(400)}
    found = unpacked(packed(given))
    assert found.keys() == given.keys()
    assert all(np.array_equal(found[name], value) for name, value in given.items())
