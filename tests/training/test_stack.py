"""Layout and the end of stacked runs."""

import io
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from fedaudit.federations.load import load_federation
from fedaudit.ledger.rows import Outcome
from fedaudit.networks.shape import layer_sizes
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell, cells_at_once, stacks
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_state import packed, unpacked
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import image_cell, image_federation, random_federation, table_cell
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


BATCHES = {"training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.05}}
NETWORKS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"model": {"kind": "mlp", "hidden": [3]}, "training__local__step_size": 0.01},
    "wide": {"model": {"kind": "mlp", "hidden": [24]}, "training__local__step_size": 0.01},
    "steps": {"training__local": {"steps": 7, "batch_size": 4, "step_size": 0.05}},
    "crowded": {"training__hypotheses": 8, "training__cohort": {"clients": 10}},
    "batches": BATCHES,
    "sampled-validation": {"training__stopping": {"validation_clients": 13, "patience": 4}},
    "reported": REPORTED,
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


LAPLACE_CELLS: list[dict[str, Any]] = [
    {"privacy__noise_multiplier": 0.5, "training__rounds": 9},
    {"privacy__noise_multiplier": 3.0, "training__stopping": {"patience": 2}},
    {"privacy__radius": 0.2, "privacy__clip": 0.1, "seed": 4},
    {"privacy__client_budget": 6.0},
]
SERVER_CELLS: list[dict[str, Any]] = [
    {"privacy__noise_multiplier": 2.0, "seed": 5},
    {"privacy__noise_multiplier": 2.0, "privacy__clip": 0.01, "privacy__delta": 1e-5},
    {"privacy__noise_multiplier": 2.0, "privacy__epsilon_budget": 6.0},
    {"privacy__noise_multiplier": 0.1, "training__rounds": 11},
]


@pytest.mark.parametrize("server", [False, True])
def test_cells_of_one_stack_may_differ_in_noise_clip_rounds_and_budget(server: bool) -> None:
    common, cells = (SERVER, SERVER_CELLS) if server else ({}, LAPLACE_CELLS)
    specs = [groups_spec(**{**deepcopy(common), **changes}) for changes in cells]
    together = run_stacked([cell(spec) for spec in specs], 30)
    for position, spec in enumerate(specs):
        assert fingerprint(train(spec)[0]) == fingerprint(together[position])
    played = [len(records) for records in together.values()]
    if server:
        assert (1 < played[2] < 30, played[3]) == (True, 11)
    else:
        assert played[0] == 9


REPEATED = {
    **{f"network {name}": NETWORKS[name] for name in ("wide", "batches")},
    **{name: own for name, own in MECHANISMS.items() if name not in ("server", "moving-clip")},
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
    zero, one = (train(linear_spec(seed=seed))[0] for seed in (0, 1))
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


def stopping_round(losses: dict[int, float], patience: int) -> int | None:
    """The round of the validation that is the `patience`-th in a row without a lower loss."""
    best, waited = np.inf, 0
    for number, loss in losses.items():
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == patience:
            return number
    return None


@pytest.mark.parametrize(
    ("patience", "every", "clients"), [(1, 1, None), (2, 3, 9), (5, 1, 9), (1, 3, None)]
)
def test_patience_ends_training_and_the_best_hypotheses_are_kept(patience, every, clients):
    stopping = {"validate_every": every, "validation_clients": clients}
    changes = {"training__rounds": 100, "privacy__noise_multiplier": 5.0}
    endless, at_the_end = train(groups_spec(training__stopping=stopping, **changes))
    validated = [record for record in endless if record.selection_loss is not None]
    # The last round is validated too, and only such rounds are scored.
    assert [one.round for one in validated] == sorted({*range(every, 101, every), 100})
    assert [one for one in endless if one.fairness] == validated
    assert (at_the_end.stopped_by, at_the_end.rounds) == ("rounds", 100)
    found = {one.round: one.selection_loss or 0.0 for one in validated}
    expected = stopping_round(found, patience)
    assert expected is not None
    records, result = train(
        groups_spec(training__stopping={**stopping, "patience": patience}, **changes)
    )
    assert (result.stopped_by, result.rounds) == ("patience", expected)
    assert [record.round for record in records] == list(range(1, expected + 1))
    kept = {number: loss for number, loss in found.items() if number <= expected}
    assert result.best_round == min(kept, key=kept.__getitem__)
    if clients is None:  # else the result is of more clients than the rounds'
        best = records[result.best_round - 1]
        assert result.selection_loss == best.selection_loss
        assert result.validation_loss == best.validation_loss
    assert result.collapsed_rounds == sum(record.collapsed for record in records)


def test_a_run_whose_loss_is_not_finite_has_diverged() -> None:
    changes = {
        "training__loss": "mse",
        "training__local": {"step_size": 1e6},
        "privacy": {"mechanism": "none"},
        "training__rounds": 50,
    }
    records, result = train(table_cell(random_federation(), **changes))
    assert result.stopped_by == "diverged"
    assert len(records) < 50
    assert not np.isfinite(records[-1].selection_loss or 0.0)
    # What it had before is kept.
    assert np.isfinite(result.hypotheses).all()
    assert np.isfinite(result.selection_loss)


def test_other_cells_go_on_where_one_diverges_or_is_stopped() -> None:
    data = random_federation()
    cells = [
        table_cell(data, seed=seed, training__rounds=rounds, training__loss="mse")
        for seed, rounds in ((1, 40), (2, 3), (3, 40))
    ]
    stack = Stack(cells)
    first = stack.advance(10)
    assert [len(first[position]) for position in range(3)] == [10, 3, 10]
    stack.stop(0)
    assert stack.active == [2]
    rest = stack.advance(100)
    assert list(rest) == [2]
    assert stack.active == []
    expected, alone = train(cells[2])
    assert fingerprint(records_of(first[2] + rest[2])) == fingerprint(expected)
    assert stack.result(0).stopped_by == "cancelled"
    assert stack.result(2).hypotheses.tobytes() == alone.hypotheses.tobytes()


def test_a_collapse_is_flagged() -> None:
    """Far hypotheses that attract nobody are kept, so one cluster takes everything."""
    keep = {"method": "k-means", "empty_cluster": "keep"}
    quiet = {"training__clustering": keep, "privacy__noise_multiplier": 0.01}
    for hypotheses in (8, 1):
        records, result = train(groups_spec(training__hypotheses=hypotheses, **quiet))
        for record in records:
            alone = sum(size > 0 for size in record.cluster_sizes) == 1
            assert record.collapsed == (alone and hypotheses > 1)
            assert hypotheses > 1 or record.separation is None
        assert result.collapsed_rounds == sum(record.collapsed for record in records)


def test_a_checkpoint_whose_names_pass_the_limit_of_numpy_is_read_back() -> None:
    given = {f"the moments of layer {n} {300 * '-'}": np.full(3, n) for n in range(35)}
    with pytest.raises(ValueError, match="max_header_size"):
        np.load(io.BytesIO(packed(given)))
    found = unpacked(packed(given))
    assert found.keys() == given.keys()
    assert all(np.array_equal(found[name], value) for name, value in given.items())


# -- rounds in which each layer has its own noise ------------------------------------------------


def test_a_model_of_one_layer_is_trained_as_without_layers() -> None:
    whole, result = train(groups_spec())
    records, layered = train(groups_spec(privacy__per_layer=True))
    for one, other in zip(records, whole, strict=True):
        assert one.radii.shape == (len(one.subjects), 1)
        assert one.radii.tobytes() == other.radii.tobytes()
        assert one.releases.tobytes() == other.releases.tobytes()
    assert layered.hypotheses.tobytes() == result.hypotheses.tobytes()


def test_each_layer_has_a_radius_of_its_own() -> None:
    records, _ = train(groups_spec(**LAYERS))
    radii = np.concatenate([record.radii for record in records])
    assert radii.shape[1] == 2
    assert (radii > 0).all()
    assert np.unique(radii).size == radii.size
    fixed, _ = train(groups_spec(**LAYERS, privacy__radius=0.5))
    assert np.unique(np.concatenate([record.radii for record in fixed])).tolist() == [0.5]


def test_a_layer_that_learns_nothing_gets_the_floor_alone() -> None:
    data, floor = random_federation(clients=30), 0.125
    # Inputs of zero through layers without a bias: no gradient anywhere.
    data.side_by_side[:] = 0.0
    model = {"kind": "mlp", "hidden": [3], "intercept": False}
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 1.0, "radius_floor": floor}
    one = table_cell(data, model=model, privacy={**privacy, "per_layer": True}, training__rounds=1)
    [record] = train(one)[0]
    assert record.radii.tolist() == [[floor, floor]] * len(record.subjects)


def test_refused_clients_have_no_radii() -> None:
    # 13 parameters at a noise multiplier of 1: room for two releases.
    refusing = {"privacy__client_budget": 26.0, "training__cohort": {"clients": 50}}
    stack = Stack([cell(groups_spec(**LAYERS, **refusing))])
    records = records_of(stack.advance(3)[0])
    assert stack.n == 13
    assert np.isfinite([record.radii for record in records[:2]]).all()
    assert (records[2].outcomes == Outcome.REFUSED).all()
    assert records[2].radii.shape == (50, 2)
    assert np.isnan(records[2].radii).all()


def test_the_convolutional_network_is_sanitised_in_four_layers() -> None:
    one = image_cell(image_federation(clients=9, max_rows=4), privacy__per_layer=True)
    assert len(layer_sizes(one.shape)) == 4
    [record] = records_of(Stack([one]).advance(1)[0])
    assert record.radii.shape == (3, 4)
    assert (record.radii > 0).all()
