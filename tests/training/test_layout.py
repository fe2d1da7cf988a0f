"""The same numbers whatever the stacking, the threads, the cuts and the interruptions."""

from typing import Any

import pytest
import torch

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import RoundRecord
from fedaudit.training.stack import Stack
from tests.training.gaussian import LAYERS, MECHANISMS
from tests.training.specs import cell, groups_spec, linear_spec, train


def fingerprint(records: list[RoundRecord]) -> list[tuple[object, ...]]:
    """Everything in the records, bit for bit."""
    return [
        (
            record.round,
            record.subjects.tobytes(),
            record.outcomes.tobytes(),
            record.radii.tobytes(),
            record.releases.tobytes(),
            record.chosen.tobytes(),
            record.clusters.tobytes(),
            record.selection_loss,
            record.validation_loss,
            record.accuracy,
            record.cluster_sizes,
            record.separation,
            tuple((name, counts.tobytes()) for name, counts in record.fairness.items()),
        )
        for record in records
    ]


def run_stacked(cells: list[Cell], cut: int) -> dict[int, list[RoundRecord]]:
    stack = Stack(cells)
    records: dict[int, list[RoundRecord]] = {position: [] for position in range(len(cells))}
    while stack.active:
        for position, rounds in stack.advance(cut).items():
            records[position] += rounds
    return records


NETWORKS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"model": {"kind": "mlp", "hidden": [3]}, "training__local__step_size": 0.01},
    "wide": {"model": {"kind": "mlp", "hidden": [24]}, "training__local__step_size": 0.01},
    "steps": {"training__local": {"steps": 7, "batch_size": 4, "step_size": 0.05}},
    "crowded": {"training__hypotheses": 8, "training__cohort": {"clients": 10}},
    "batches": {"training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.05}},
    "sampled-validation": {"training__stopping": {"validation_clients": 13, "patience": 4}},
    "every-third": {"training__stopping": {"validate_every": 3, "patience": 2}},
    "reported": {"training__clustering": {"method": "reported"}},
    "no-noise": {"privacy": {"mechanism": "none"}},
    "clipped": {"privacy__clip": 0.05, "privacy__radius": 0.1},
    "layers": LAYERS,
    "clipped-layers": {**LAYERS, "privacy__clip": 0.05, "privacy__radius": 0.1},
    "local": MECHANISMS["local"],
    "server": MECHANISMS["server"],
    "moving-clip": MECHANISMS["moving-clip"],
    "coins": MECHANISMS["coins"],
    "coins-wide": {
        **MECHANISMS["coins"],
        "model": {"kind": "mlp", "hidden": [24]},
        "training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.01},
    },
    "rare-coins": {
        **MECHANISMS["coins"],
        "training__cohort": {"sampling": "poisson", "rate": 0.01},
    },
}


@pytest.mark.parametrize("changes", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("size", [2, 7])
def test_alone_and_stacked_agree_bit_for_bit(changes: dict[str, object], size: int) -> None:
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


@pytest.mark.parametrize("changes", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("cut", [1, 2, 5, 17])
def test_the_cut_into_calls_does_not_matter(cut: int, changes: dict[str, Any]) -> None:
    spec = groups_spec(training__stopping={"patience": 5, "validation_clients": 20}, **changes)
    whole = train(spec)[0]
    assert fingerprint(run_stacked([cell(spec)], cut)[0]) == fingerprint(whole)


@pytest.mark.parametrize("name", ["linear", "wide", "batches", "coins-wide"])
def test_threads_do_not_matter(name: str) -> None:
    spec = groups_spec(**NETWORKS[name])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = fingerprint(train(spec)[0])
        torch.set_num_threads(2)
        two = fingerprint(train(spec)[0])
    finally:
        torch.set_num_threads(before)
    assert one == two


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("interruptions", [(1,), (3, 4), (7, 19, 20)])
def test_a_resumed_run_equals_an_undisturbed_one(interruptions: tuple[int, ...], name: str) -> None:
    budgets = {"laplace": {"privacy__client_budget": 12.0}}
    stopping = {"patience": 6, "validation_clients": 20}
    spec = groups_spec(training__stopping=stopping, **MECHANISMS[name], **budgets.get(name, {}))
    whole, result = train(spec)
    records: list[RoundRecord] = []
    checkpoint = None
    for stop in [*interruptions, 30]:
        stack = Stack([cell(spec)], checkpoints=[checkpoint])
        if stack.active:
            records += stack.advance(stop - len(records))[0]
        checkpoint = stack.checkpoint(0)
    assert fingerprint(records) == fingerprint(whole)
    resumed = Stack([cell(spec)], checkpoints=[checkpoint]).result(0)
    assert resumed.hypotheses.tobytes() == result.hypotheses.tobytes()
    assert (resumed.best_round, resumed.stopped_by) == (result.best_round, result.stopped_by)


@pytest.mark.parametrize("changes", MECHANISMS.values(), ids=MECHANISMS)
def test_checkpoints_of_the_same_state_are_the_same_bytes(changes: dict[str, Any]) -> None:
    checkpoints = []
    for cuts in ([12], [5, 7]):
        stack = Stack([cell(groups_spec(**changes))])
        for cut in cuts:
            stack.advance(cut)
        checkpoints.append(stack.checkpoint(0))
    assert checkpoints[0] == checkpoints[1]


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


def test_seed_zero_is_a_seed() -> None:
    zero, again, one = (train(linear_spec(seed=seed))[0] for seed in (0, 0, 1))
    assert fingerprint(zero) == fingerprint(again)
    assert fingerprint(zero) != fingerprint(one)


def test_cells_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        Stack([cell(groups_spec()), cell(linear_spec())])
