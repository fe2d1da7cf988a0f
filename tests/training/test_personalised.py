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
from fedaudit.randomness import CounterSource
from fedaudit.spec.errors import InvalidInputError
from fedaudit.training import personalised
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.record_steps import Adam, RecordSteps, SiloRecords
from fedaudit.training.base.records import RecordTable, record_use_of, spending_of, training_records
from fedaudit.training.base.rounds import Progress
from fedaudit.training.personalised import RecordByRecord
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_round import Cohort
from fedaudit.training.stacked.stack_state import packed, unpacked
from tests.refusals import refused_by
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import federation, one_by_one, random_federation
from tests.training.gaussian import MOVES, state
from tests.training.personalised import records_cell, records_spec
from tests.training.specs import cell, groups_spec, play, train

CPU = torch.device("cpu")
NO_CLIENTS = {"training__cohort": {"sampling": "poisson", "rate": 1e-9}}
EVERYBODY = {"training__cohort": {"sampling": "poisson", "rate": 1}}
FILTER = {"privacy__baseline": "filter", "privacy__epsilon_min": 3.0}
EARLIER = {*(one.name for one in fields(Progress)), "moments"}
"""What a checkpoint of this and of earlier versions has alike."""


def theta_of(stack: Stack) -> np.ndarray[Any, Any]:
    return state(stack).hypotheses[0]


def plan_of(one: Cell) -> RecordPlan:
    use = record_use_of(one.spec, one.federation)
    assert use is not None
    return use


def table_of(stack: Stack) -> RecordTable:
    table = stack.result(0).records
    assert table is not None
    return table


def everyone(stack: Stack) -> np.ndarray[Any, Any]:
    """All subjects."""
    return np.arange(len(stack.releases(0)), dtype=np.int32)


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


def test_a_round_that_draws_nobody_keeps_the_model_and_counts() -> None:
    stack = Stack([cell(records_spec(**NO_CLIENTS))])
    before = theta_of(stack)
    records = play(stack)
    assert theta_of(stack).tobytes() == before.tobytes()
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
    assert theta_of(stacks[0]).tobytes() == theta_of(stacks[1]).tobytes()
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
    calm = np.linspace(0.4, 0.6, 6)[:, None]
    data = federation([calm, calm, calm, calm * 1e10], [np.ones(6)] * 4)
    one = records_cell(
        data,
        training__local={"steps": 3, "batch_size": 4, "step_size": 1e6},
        privacy__baseline="privacy-free",
        **EVERYBODY,
    )
    rounds, _ = a_round(one)
    theta, present = play_one(rounds, one, [0, 1, 2, 3])
    assert present == [True, True, True, False]
    assert torch.equal(theta, play_one(rounds, one, [0, 1, 2])[0])
    theta, present = play_one(rounds, one, [3])
    assert present == [False]
    assert not theta.any()


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
    taken = state(stack).releases
    assert taken.min() > 0
    assert taken.max() < 12
    assert set(records[-1].compositions["server"].tolist()) == {int(taken.max())}
    assert stack.releases(0).tolist() == records[-1].releases.tolist()


@pytest.mark.parametrize("distribution", ["three-levels", "bounded-pareto", "bounded-mix-gauss"])
def test_no_record_passes_its_budget_and_the_table_says_what_each_spent(distribution: str) -> None:
    one = cell(records_spec(privacy__budgets={"distribution": distribution}))
    stack = Stack([one])
    play(stack)
    table, use = table_of(stack), plan_of(one)
    assert use.runs is not None
    assert len(table.client) == len(training_records(one.spec, one.federation).row)
    assert (table.spent["final_model"] <= table.budget).all()
    spent = use.runs[0].epsilons(use.rates)
    assert table.spent["final_model"].tolist() == spent.tolist()
    taken = state(stack).releases
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
    drawn = np.concatenate([record.subjects for record in records])
    assert stack.releases(0).tolist() == np.bincount(drawn, minlength=12).tolist()
    assert all(record.cluster_sizes == (len(record.subjects),) for record in records)
    table = table_of(stack)
    assert np.isinf(table.spent["final_model"]).all()
    header, first = b"".join(table.csv(one.federation.client_names)).splitlines()[:2]
    assert header.endswith(b"epsilon_final_model,epsilon_server")
    assert first.endswith(b",,")


def test_a_lost_round_is_charged_to_everyone_and_shortens_a_records_stay() -> None:
    one = cell(records_spec(**FILTER, **EVERYBODY))
    lasting = plan_of(one).rounds
    assert 1 <= lasting.min() < 3 < lasting.max() == 6
    stack = Stack([one])
    stack.advance(2)
    stack.charge(0, everyone(stack))
    stack.set_release(0, 1, until=3)
    assert set(stack.releases(0).tolist()) == {3}
    records = play(stack)
    assert [record.release for record in records] == [1, 0, 0, 0]
    assert set(records[-1].compositions["final_model"].tolist()) == {7}
    assert set(records[-1].compositions["server"].tolist()) == {7}
    table, gone = table_of(stack), lasting < 6
    assert (table.spent["final_model"][gone] <= table.budget[gone]).all()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_round_that_was_lost_uses_up_a_records_stay_too(lost: int) -> None:
    one = cell(records_spec(**FILTER, **EVERYBODY))
    place = training_records(one.spec, one.federation).place
    target = one.federation.target.copy()
    target[place[plan_of(one).rounds == 3]] += 5
    other = Cell(one.spec, replace(one.federation, target=target))
    stack = Stack([one])
    stack.advance(2)
    for _ in range(lost):
        stack.charge(0, everyone(stack))
    # The third round, from here, with other targets of those who stay for three.
    checkpoint, thetas = stack.checkpoint(0), []
    for part in (one, other):
        resumed = Stack([part], checkpoints=[checkpoint])
        resumed.advance(1)
        thetas.append(theta_of(resumed))
    assert np.array_equal(*thetas) == (lost == 1)


# -- validation and the end -----------------------------------------------------------------------


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
    record, expected = train(one)[0][0], train(spec)[0][0]
    assert record.selection_loss == pytest.approx(expected.selection_loss, rel=1e-5)
    assert record.validation_loss == pytest.approx(expected.validation_loss, rel=1e-5)
    assert record.fairness["group"].tolist() == expected.fairness["group"].tolist()


# -- what is refused, and who trains --------------------------------------------------------------


def test_a_budget_that_no_noise_keeps_is_refused() -> None:
    spec = records_spec(privacy__epsilon_min=1e-6, privacy__epsilon_max=1e-5, privacy__delta=1e-12)
    assert refused_by(Stack, [cell(spec)])[0].pointer == "/privacy/epsilon_max"


@pytest.mark.parametrize(
    ("fraction", "problem"), [(1e-9, "no record is held out"), (1 - 1e-9, "every record is held")]
)
def test_a_split_that_leaves_nothing_is_refused_with_a_remedy(fraction, problem):
    data = federation([np.ones((1, 1))] * 3, [np.ones(1)] * 3)
    with pytest.raises(InvalidInputError, match=f"{problem}.*validation_fraction") as caught:
        Stack([records_cell(data, held_out=fraction)])
    assert caught.value.errors[0].pointer == "/federation/validation_unit"


@pytest.mark.parametrize("baseline", [None, "uniform", "filter", "privacy-free"])
def test_clients_without_a_training_record_take_part_and_add_their_noise(baseline):
    random = np.random.default_rng(2)
    data = federation(
        [random.normal(size=(1, 2)) for _ in range(12)], [random.normal(size=1) for _ in range(12)]
    )
    one = records_cell(
        data,
        held_out=0.5,
        privacy__baseline=baseline,
        privacy__epsilon_min=9.0,
        **({"privacy__uniform_epsilon": 5.0} if baseline == "uniform" else {}),
        **EVERYBODY,
    )
    counts = training_records(one.spec, data).counts
    assert counts[-1] == 0, "the last client is the one that a maximum of indices would overlook"
    rounds, plan = a_round(one)
    empty, full = int(np.flatnonzero(counts == 0)[0]), int(np.flatnonzero(counts)[0])
    moved = play_one(rounds, one, [empty])[0].any()
    assert bool(moved) == (baseline != "privacy-free")
    assert play_one(rounds, one, [full, empty])[1] == [True, True]
    assert plan.runs is None or len(plan.runs) == 12
    assert train(one)[0]


def test_budgets_of_a_column_are_those_of_the_records_that_train() -> None:
    data = random_federation(clients=5, max_rows=6)
    given = np.arange(data.rows) / 10 + 0.5
    column = {"privacy__budgets": {"column": "epsilon"}, "privacy__epsilon_max": 2.0}
    stack = Stack([records_cell(replace(data, record_budgets=given), held_out=0.3, **column)])
    assert play(stack)
    table = table_of(stack)
    expected = np.minimum(given[data.first[table.client] + table.row], 2.0)
    assert table.budget.tolist() == expected.tolist()
    assert (table.spent["final_model"] <= table.budget).all()
    with pytest.raises(ValueError, match="without its column"):
        Stack([records_cell(data, held_out=0.3, **column)])


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
    "filter": FILTER,
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
    stack.charge(0, everyone(stack))
    checkpoint, present = stack.checkpoint(0), state(stack)
    kept = {name: value for name, value in unpacked(checkpoint).items() if name in EARLIER}
    of_records = {"lost": 1, "participations": present.releases}
    thetas = {"theta": present.hypotheses[0], "best_theta": present.best_hypotheses[0]}
    earlier = packed({**kept, **of_records, **thetas})
    assert Stack([one], checkpoints=[earlier]).checkpoint(0) == checkpoint


def test_rows_that_are_not_padded_give_the_same() -> None:
    data = random_federation(clients=9, max_rows=15, classes=3)
    found = [
        records_cell(
            form,
            model={"kind": "logistic"},
            training__loss="cross-entropy",
            fairness={"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-1"]}},
        )
        for form in (data, one_by_one(data))
    ]
    assert fingerprint(train(found[0])[0]) == fingerprint(train(found[1])[0])
