"""Training under record-level budgets, and its layout."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.ledger.rows import Outcome
from fedaudit.networks.record_gradients import clipped_gradients
from fedaudit.networks.stacked_network import Loss
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import CounterSource, EntropySource
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.training import personalised
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.cohort import client_coins
from fedaudit.training.base.record_steps import Adam, RecordSteps, SiloRecords
from fedaudit.training.base.records import record_use_of, spending_of, training_records
from fedaudit.training.base.rounds import Progress
from fedaudit.training.personalised import RecordByRecord
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_round import Cohort
from fedaudit.training.stacked.stack_state import CellState, packed, unpacked
from tests.refusals import refused_by
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import TABLE, federation, one_by_one, random_federation
from tests.training.gaussian import MOVES
from tests.training.personalised import played, records_spec
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec, play

FALSE_ALARM = 1e-6
CPU = torch.device("cpu")
NO_CLIENTS = {"training__cohort": {"sampling": "poisson", "rate": 1e-9}}
EVERYBODY = {"training__cohort": {"sampling": "poisson", "rate": 1}}


EARLIER = {*(one.name for one in fields(Progress)), "moments"}
"""What a checkpoint of this and of earlier versions has alike."""


def state_of(stack: Stack) -> CellState:
    return CellState.decode(stack.checkpoint(0))


def a_round(one: Cell, **changes: Any) -> tuple[RecordByRecord, RecordPlan]:
    """The rounds of a cell, whose plan may be changed."""
    rounds = RecordByRecord([one], split_cells([one]), CPU)
    rounds.use = replace(rounds.use, **changes)
    return rounds, rounds.use


def play_one(
    rounds: RecordByRecord, one: Cell, drawn: list[int], *, paid: int = 0
) -> tuple[torch.Tensor, list[bool]]:
    """The model after a round, and which of the clients drawn sent theirs."""
    clients = np.array([drawn], dtype=np.int64)
    present = np.ones(clients.shape, dtype=np.bool_)
    cohort = Cohort(np.ones(1, dtype=np.int64), clients, present, noise=None, paid=paid)
    with torch.no_grad():
        learned = rounds._learned(torch.zeros(one.shape.n), cohort)
        [found] = rounds.play(torch.zeros(1, 1, one.shape.n), [cohort], None, None)
    return found.hypotheses[0, 0], torch.isfinite(learned).all(-1).tolist()


# -- who takes part -------------------------------------------------------------------------------


def test_everybody_takes_part_at_rate_1_and_coins_are_each_clients_own() -> None:
    clients = np.array([2, 5, 11])
    source = CounterSource(1)
    for any_source in (source, EntropySource()):
        assert client_coins(any_source, round_=1, clients=clients, rate=1.0).all()
    for number in range(20):
        among_many = client_coins(source, round_=number, clients=np.arange(20), rate=0.5)
        few = client_coins(source, round_=number, clients=clients, rate=0.5)
        assert few.tolist() == among_many[clients].tolist()


def test_a_round_that_draws_nobody_keeps_the_model_and_counts() -> None:
    stack = Stack([cell(records_spec(**NO_CLIENTS))])
    before = state_of(stack).hypotheses[0]
    records = play(stack)
    assert state_of(stack).hypotheses[0].tobytes() == before.tobytes()
    groups = len(records[0].subjects)
    for number, record in enumerate(records, start=1):
        assert (record.outcomes == Outcome.RELEASED).all()
        assert record.compositions["final_model"].tolist() == [number] * groups
        assert record.compositions["server"].tolist() == [0] * groups


# -- what a round computes ------------------------------------------------------------------------


def test_the_model_is_the_mean_of_what_the_drawn_clients_make_of_it() -> None:
    one = cell(records_spec())
    rounds, plan = a_round(one)
    records = training_records(one.spec, one.federation)
    assert plan.runs is not None
    steps = RecordSteps(
        gradients=clipped_gradients(one.shape, Loss("mse", 0)),
        optimiser=Adam(0.05),
        steps=5,
        clip=1.0,
        normaliser=4.0,
    )
    models = []
    for client in (1, 4, 10):
        own = records.client_of == client
        alone = SiloRecords(
            features=torch.from_numpy(one.federation.side_by_side[records.place[own]]),
            target=torch.from_numpy(one.federation.target[records.place[own]]),
            first=np.array([0]),
            inclusion=plan.rates[own][None],
            noise_multipliers=np.array([plan.runs[client].noise_multiplier]),
            silos=np.array([client]),
        )
        models.append(steps(torch.zeros(one.shape.n), alone, source=CounterSource(0), round_=1)[0])
    theta, present = play_one(rounds, one, [1, 4, 10])
    expected = torch.stack(models).mean(0)
    assert all(present)
    assert torch.allclose(theta, expected, rtol=1e-5, atol=1e-7)
    assert not torch.allclose(theta, models[0], rtol=1e-2)


def test_how_many_clients_are_computed_at_once_does_not_matter(monkeypatch):
    one = cell(records_spec())
    rounds, _ = a_round(one)
    whole = play_one(rounds, one, [0, 2, 3, 7, 8])
    for numbers in (1, 2 * one.shape.n):
        monkeypatch.setattr(personalised, "_NUMBERS_TOGETHER", numbers)
        assert torch.equal(play_one(rounds, one, [0, 2, 3, 7, 8])[0], whole[0])


def test_rows_that_are_held_out_do_not_train() -> None:
    one = cell(records_spec(**EVERYBODY))
    data = one.federation
    held_out = np.ones(data.rows, np.bool_)
    held_out[training_records(one.spec, data).place] = False
    assert 0 < held_out.sum() < data.rows / 2
    changed = replace(data, target=np.where(held_out, np.float32(1e3), data.target))
    stacks = [Stack([Cell(one.spec, part)]) for part in (data, changed)]
    losses = [[record.validation_loss for record in play(stack)] for stack in stacks]
    assert (
        state_of(stacks[0]).hypotheses[0].tobytes() == state_of(stacks[1]).hypotheses[0].tobytes()
    )
    assert losses[0] != losses[1]


def test_a_record_whose_rounds_are_used_up_takes_no_further_part() -> None:
    one = cell(records_spec())
    rounds, plan = a_round(one)
    lasting, _ = a_round(one, rounds=np.where(plan.budgets < 1, 2, 6))
    never, _ = a_round(one, rates=np.where(plan.budgets < 1, 0.0, plan.rates))
    drawn = list(range(12))
    early, late = (play_one(lasting, one, drawn, paid=paid)[0] for paid in (1, 2))
    assert torch.equal(early, play_one(rounds, one, drawn)[0])
    assert torch.equal(late, play_one(never, one, drawn, paid=2)[0])
    assert not torch.equal(early, late)


def test_a_model_that_is_not_finite_is_withheld() -> None:
    # Without clipping one client's steps overflow; the others' mean is what is left.
    calm = [np.full((6, 1), 0.5)] * 3
    data = federation([*calm, np.full((6, 1), 1e10)], [np.ones(6)] * 4)
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.3, "validation_unit": "record"},
            fairness={},
            training__local={"steps": 3, "batch_size": 4, "step_size": 1e6},
            privacy__baseline="privacy-free",
            **EVERYBODY,
        )
    )
    one = Cell(spec, data)
    rounds, _ = a_round(one)
    theta, present = play_one(rounds, one, [0, 1, 2, 3])
    assert present == [True, True, True, False]
    assert torch.equal(theta, play_one(rounds, one, [0, 1, 2])[0])
    theta, present = play_one(rounds, one, [3])
    assert present == [False]
    assert not theta.any()


def test_training_learns_where_budgets_are_large() -> None:
    random = np.random.default_rng(1)
    features = [random.normal(size=(60, 2)) for _ in range(4)]
    data = federation(features, [own @ np.array([2.0, -3.0]) + 1 for own in features])
    spec = parse_spec(
        records_spec(
            **EVERYBODY,
            federation={**TABLE, "validation_fraction": 0.2, "validation_unit": "record"},
            fairness={},
            training__local={"steps": 30, "batch_size": 20, "step_size": 0.05, "optimiser": "adam"},
            privacy__epsilon_min=100.0,
            privacy__epsilon_max=100.0,
        )
    )
    losses = [record.validation_loss for record in played(Cell(spec, data))]
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < 0.2 * losses[0]


# -- what is charged ------------------------------------------------------------------------------


def test_every_group_is_charged_every_round_and_the_server_counts_participations() -> None:
    one = cell(records_spec(training__rounds=12))
    plan = spending_of(one.spec, one.federation)
    assert plan is not None
    assert plan.records is not None
    stack = Stack([one])
    records = play(stack)
    for number, record in enumerate(records, start=1):
        assert record.subjects.tolist() == list(range(len(plan.subjects)))
        assert record.releases.tolist() == [number] * len(plan.subjects)
        assert record.cluster_sizes == ()
        assert (record.chosen == -1).all()
        assert (record.clusters == -1).all()
    taken = state_of(stack).releases
    assert taken.min() > 0
    assert taken.max() < 12
    assert set(records[-1].compositions["server"].tolist()) == {int(taken.max())}
    assert stack.releases(0).tolist() == records[-1].releases.tolist()


@pytest.mark.parametrize("distribution", ["three-levels", "bounded-pareto", "bounded-mix-gauss"])
def test_no_record_passes_its_budget_and_the_table_says_what_each_spent(distribution: str) -> None:
    one = cell(records_spec(privacy__budgets={"distribution": distribution}))
    stack = Stack([one])
    play(stack)
    table = stack.result(0).records
    use = record_use_of(one.spec, one.federation)
    assert table is not None
    assert use is not None
    assert len(table.client) == len(training_records(one.spec, one.federation).row)
    assert (table.spent["final_model"] <= table.budget).all()
    spent = use.runs[0].epsilons(use.rates)
    assert table.spent["final_model"].tolist() == spent.tolist()
    taken = state_of(stack).releases
    alike = table.rate == table.rate[0]
    by_client = dict(zip(table.client[alike], table.spent["server"][alike], strict=True))
    order = sorted(by_client, key=lambda client: int(taken[client]))
    assert np.all(np.diff([by_client[client] for client in order]) >= 0)
    lines = b"".join(table.csv(one.federation.client_names)).decode().splitlines()
    assert len(lines) == len(table.client) + 1
    first = one.federation.client_names[table.client[0]], table.row[0] + 1
    assert lines[1].startswith("{},{},".format(*first))


def test_records_without_noise_have_no_epsilon_and_clients_are_the_subjects() -> None:
    one = cell(records_spec(privacy__baseline="privacy-free"))
    stack = Stack([one])
    records = play(stack)
    assert spending_of(one.spec, one.federation) is None
    total = sum(np.isin(np.arange(12), record.subjects).astype(int) for record in records)
    assert stack.releases(0).tolist() == np.asarray(total).tolist()
    assert [record.cluster_sizes for record in records] == [
        (len(record.subjects),) for record in records
    ]
    table = stack.result(0).records
    assert table is not None
    assert np.isinf(table.spent["final_model"]).all()
    header, first = b"".join(table.csv(one.federation.client_names)).splitlines()[:2]
    assert header.endswith(b"epsilon_final_model,epsilon_server")
    assert first.endswith(b",,")


def test_a_lost_round_is_charged_to_everyone_and_shortens_a_records_stay() -> None:
    spec = records_spec(privacy__baseline="filter", privacy__epsilon_min=3.0, **EVERYBODY)
    one = cell(spec)
    use = record_use_of(one.spec, one.federation)
    assert use is not None
    lasting = use.rounds
    assert 1 <= lasting.min() < 3 < lasting.max() == 6
    stack = Stack([one])
    stack.advance(2)
    subjects = np.arange(len(stack.releases(0)), dtype=np.int32)
    stack.charge(0, subjects)
    stack.set_release(0, 1, until=3)
    assert set(stack.releases(0).tolist()) == {3}
    records = play(stack)
    assert [record.release for record in records] == [1, 0, 0, 0]
    assert set(records[-1].compositions["final_model"].tolist()) == {7}
    assert set(records[-1].compositions["server"].tolist()) == {7}
    table = stack.result(0).records
    assert table is not None
    gone = lasting < 6
    assert (table.spent["final_model"][gone] <= table.budget[gone]).all()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_round_that_was_lost_uses_up_a_records_stay_too(lost: int) -> None:
    one = cell(records_spec(privacy__baseline="filter", privacy__epsilon_min=3.0, **EVERYBODY))
    use = record_use_of(one.spec, one.federation)
    assert use is not None
    place = training_records(one.spec, one.federation).place
    short = use.rounds == 3
    target = one.federation.target.copy()
    target[place[short]] += 5
    other = Cell(one.spec, replace(one.federation, target=target))
    stack = Stack([one])
    stack.advance(2)
    for _ in range(lost):
        stack.charge(0, np.arange(len(stack.releases(0)), dtype=np.int32))
    # The third round, from here, with other targets of those who stay for three.
    checkpoint, thetas = stack.checkpoint(0), []
    for part in (one, other):
        resumed = Stack([part], checkpoints=[checkpoint])
        resumed.advance(1)
        thetas.append(state_of(resumed).hypotheses[0])
    assert np.array_equal(*thetas) == (lost == 1)


# -- noise that nobody can draw again -------------------------------------------------------------


def test_rounds_with_release_noise_are_planned_first_and_never_repeat() -> None:
    spec = records_spec(privacy__noise="release", **EVERYBODY)
    stacks = [Stack([cell(spec)]) for _ in range(2)]
    for stack in stacks:
        with pytest.raises(RuntimeError, match="planned first"):
            stack.advance(1)
        planned = stack.plan(2)[0]
        assert [(plan.round, plan.release) for plan in planned] == [(1, 0), (2, 0)]
        records = records_of(stack.advance(5)[0])
        assert len(records) == 2
        assert records[0].subjects.tolist() == planned[0].subjects.tolist()
    thetas = [state_of(stack).hypotheses[0] for stack in stacks]
    assert not np.array_equal(*thetas)


def test_a_plan_ends_with_the_run() -> None:
    stack = Stack([cell(records_spec(privacy__noise="release"))])
    assert [plan.round for plan in stack.plan(100)[0]] == [1, 2, 3, 4, 5, 6]
    assert len(stack.advance(100)[0]) == 6
    assert stack.active == []


def test_clients_that_a_plan_names_are_those_that_are_drawn() -> None:
    spec = records_spec(privacy__noise="release", privacy__baseline="privacy-free")
    stack = Stack([cell(spec)])
    planned = stack.plan(6)[0]
    records = records_of(stack.advance(6)[0])
    assert [record.subjects.tolist() for record in records] == [
        plan.subjects.tolist() for plan in planned
    ]


# -- validation and the end -----------------------------------------------------------------------


def test_rows_held_out_of_all_clients_are_scored_alike() -> None:
    data = random_federation(clients=8, max_rows=9, classes=2)
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.4, "validation_unit": "record"},
            model={"kind": "logistic"},
            training__loss="cross-entropy",
            fairness={"sensitive": ["group"]},
        )
    )
    stack = Stack([Cell(spec, data)])
    records = play(stack)
    result, last = stack.result(0), records[-1]
    held_out = np.ones(data.rows, np.bool_)
    held_out[training_records(spec, data).place] = False
    theta = state_of(stack).hypotheses[0].astype(np.float64)
    logits = data.side_by_side @ theta[:-1] + theta[-1]
    right = (logits > 0) == (data.target == 1)
    loss = np.logaddexp(0, np.where(data.target == 1, -logits, logits))
    assert last.accuracy == pytest.approx(right[held_out].mean())
    assert last.validation_loss == pytest.approx(loss[held_out].mean(), rel=1e-5)
    assert last.selection_loss == last.validation_loss
    assert last.fairness["group"].sum() == held_out.sum()
    with_rows = len(np.unique(data.client_of[held_out]))
    assert result.fairness["group"].shape == (with_rows, 2, 4)


def test_clients_that_are_held_out_are_scored_as_elsewhere() -> None:
    """The same figures as a stack of the ordinary kind gives of the same model."""
    changes: dict[str, Any] = {
        "federation__validation_unit": "client",
        "federation__scoring": {"method": "split", "fraction": 0.5},
    }
    one = cell(records_spec(**changes, **NO_CLIENTS))
    spec = groups_spec(
        federation={**records_spec(**changes)["federation"]},
        training__hypotheses=1,
        training__loss="mse",
        training__rounds=1,
        training__local={"epochs": 1, "step_size": 1e-12},
        training__cohort={"clients": 1},
        privacy={"mechanism": "none"},
    )
    record, expected = played(one)[0], records_of(Stack([cell(spec)]).advance(1)[0])[0]
    assert record.selection_loss == pytest.approx(expected.selection_loss, rel=1e-5)
    assert record.validation_loss == pytest.approx(expected.validation_loss, rel=1e-5)
    assert record.fairness["group"].tolist() == expected.fairness["group"].tolist()


def test_early_stopping_keeps_the_best_model() -> None:
    spec = records_spec(training__rounds=60, training__stopping={"patience": 3})
    stack = Stack([cell(spec)])
    records = play(stack)
    result = stack.result(0)
    losses = [record.selection_loss for record in records]
    assert (result.stopped_by, len(records)) == ("patience", result.best_round + 3)
    assert result.selection_loss == min(loss for loss in losses if loss is not None)


def test_a_run_that_is_stopped_stays_stopped() -> None:
    stack = Stack([cell(records_spec())])
    stack.stop(0)
    assert (stack.active, stack.advance(1), stack.plan(1)) == ([], {}, {})
    assert stack.result(0).stopped_by == "cancelled"


# -- what is refused, and who trains --------------------------------------------------------------


def test_a_budget_that_no_noise_keeps_is_refused() -> None:
    spec = records_spec(privacy__epsilon_min=1e-6, privacy__epsilon_max=1e-5, privacy__delta=1e-12)
    assert refused_by(Stack, [cell(spec)])[0].pointer == "/privacy/epsilon_max"


@pytest.mark.parametrize(
    ("fraction", "problem"), [(1e-9, "no record is held out"), (1 - 1e-9, "every record is held")]
)
def test_a_split_that_leaves_nothing_is_refused_with_a_remedy(fraction, problem):
    data = federation([np.ones((1, 1))] * 3, [np.ones(1)] * 3)
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": fraction, "validation_unit": "record"},
            fairness={},
        )
    )
    with pytest.raises(InvalidInputError, match=problem) as caught:
        Stack([Cell(spec, data)])
    assert caught.value.errors[0].pointer == "/federation/validation_unit"
    assert "validation_fraction" in str(caught.value)


@pytest.mark.parametrize("baseline", [None, "uniform", "filter", "privacy-free"])
def test_clients_without_a_training_record_take_part_and_add_their_noise(baseline):
    random = np.random.default_rng(2)
    data = federation(
        [random.normal(size=(1, 2)) for _ in range(12)], [random.normal(size=1) for _ in range(12)]
    )
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.5, "validation_unit": "record"},
            fairness={},
            privacy__baseline=baseline,
            privacy__epsilon_min=9.0,
            **({"privacy__uniform_epsilon": 5.0} if baseline == "uniform" else {}),
            **EVERYBODY,
        )
    )
    one = Cell(spec, data)
    counts = training_records(spec, data).counts
    assert counts[-1] == 0, "the last client is the one that a maximum of indices would overlook"
    rounds, plan = a_round(one)
    empty, full = int(np.flatnonzero(counts == 0)[0]), int(np.flatnonzero(counts)[0])
    moved = play_one(rounds, one, [empty])[0].any()
    assert bool(moved) == (baseline != "privacy-free")
    assert play_one(rounds, one, [full, empty])[1] == [True, True]
    assert plan.runs is None or len(plan.runs) == 12
    assert play(Stack([one]))


def test_budgets_of_a_column_are_those_of_the_records_that_train() -> None:
    data = random_federation(clients=5, max_rows=6)
    given = np.arange(data.rows) / 10 + 0.5
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.3, "validation_unit": "record"},
            fairness={},
            privacy__budgets={"column": "epsilon"},
            privacy__epsilon_max=2.0,
        )
    )
    stack = Stack([Cell(spec, replace(data, record_budgets=given))])
    records: list[RoundRecord] = play(stack)
    table = stack.result(0).records
    assert table is not None
    assert records
    assert (
        table.budget.tolist()
        == np.minimum(given[data.first[table.client] + table.row], 2.0).tolist()
    )
    assert (table.spent["final_model"] <= table.budget).all()
    with pytest.raises(ValueError, match="without its column"):
        Stack([Cell(spec, data)])


KINDS: dict[str, dict[str, Any]] = {
    "personalised": {},
    "curve-fit": {"privacy__inversion": "curve-fit"},
    "sgd": {"training__local": {"steps": 5, "step_size": 0.05}},
    "rmsprop": {
        "training__local": {"steps": 5, "batch_size": 4, "step_size": 0.05, "optimiser": "rmsprop"}
    },
    "momentum": MOVES["momentum"],
    "server-adam": {
        "training__server": {"optimiser": "adam"},
        "training__local__schedule": {"kind": "cosine", "warm_up": 2},
    },
    "privacy-free": {"privacy__baseline": "privacy-free"},
    "uniform": {"privacy__baseline": "uniform"},
    "strong-for-all": {"privacy__baseline": "strong-for-all"},
    "dropout": {"privacy__baseline": "dropout"},
    "filter": {"privacy__baseline": "filter", "privacy__epsilon_min": 3.0},
    "wide": {"model": {"kind": "mlp", "hidden": [40]}},
    "clients": {"federation__validation_unit": "client"},
    "stopping": {
        "training__stopping": {"patience": 2, "validate_every": 2, "validation_clients": 3}
    },
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_threads_cuts_and_interruptions_do_not_matter(changes: dict[str, Any]) -> None:
    records = assert_repeats(cell(records_spec(**changes)), stops=(2, 3))
    assert all(np.isfinite(one.selection_loss) for one in records if one.selection_loss is not None)


def test_a_checkpoint_of_an_earlier_version_is_resumed() -> None:
    one = cell(records_spec(**KINDS["server-adam"]))
    stack = Stack([one])
    stack.advance(2)
    stack.charge(0, np.arange(len(stack.releases(0)), dtype=np.int32))
    checkpoint = stack.checkpoint(0)
    state = CellState.decode(checkpoint)
    kept = {name: value for name, value in unpacked(checkpoint).items() if name in EARLIER}
    of_records = {"lost": 1, "participations": state.releases}
    thetas = {"theta": state.hypotheses[0], "best_theta": state.best_hypotheses[0]}
    earlier = packed({**kept, **of_records, **thetas})
    assert Stack([one], checkpoints=[earlier]).checkpoint(0) == checkpoint


def test_rows_that_are_not_padded_give_the_same() -> None:
    data = random_federation(clients=9, max_rows=15, classes=3)
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.3, "validation_unit": "record"},
            model={"kind": "logistic"},
            training__loss="cross-entropy",
            fairness={"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-1"]}},
        )
    )
    plain = fingerprint(played(Cell(spec, data)))
    assert fingerprint(played(Cell(spec, one_by_one(data)))) == plain
