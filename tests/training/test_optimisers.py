"""Optimisers of clients and of the server, against torch's and against a plain loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.attacks.replay.watched_run import WatchedRun, play
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.spec.models import ServerAdam, ServerMomentum
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import ServerMoves
from fedaudit.training.personalised import RecordByRecord
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.server import Server
from fedaudit.training.stacked.stack_round import RoundResult
from tests.training.federations import (
    COUNTS,
    ENGINES,
    one_by_one,
    random_federation,
    table_cell,
    uneven,
)
from tests.training.gaussian import ADAM, CENTRAL, COINS, MOVES, REPORTED, state
from tests.training.personalised import records_spec
from tests.training.round_records import RoundRecord, records_of
from tests.training.specs import cell, groups_spec
from tests.training.test_methods import Loop, method_cell, played, scored_by_hand

STEP, STEPS = 0.05, 5
SHARES = [0.5, 1.0, 1.0, 0.5]
"""Of the step size in four rounds: a warm-up of two, and then half a cosine over two."""
TORCH: dict[str, Callable[[list[torch.Tensor], float], torch.optim.Optimizer]] = {
    "momentum": lambda theta, size: torch.optim.SGD(theta, lr=size, momentum=0.9),
    "adam": lambda theta, size: torch.optim.Adam(theta, lr=size),
    "rmsprop": lambda theta, size: torch.optim.RMSprop(theta, lr=size),
}
LOCALS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "adam": {"optimiser": "adam"},
    "rmsprop": {"optimiser": "rmsprop"},
}


def by_round(one: Cell) -> tuple[list[RoundRecord], list[torch.Tensor]]:
    """The records of a run, and its hypotheses [k, n] before the first round and after each."""
    stack = Stack([one])
    records, found = list[RoundRecord](), [state(stack).hypotheses.copy()]
    while stack.active:
        records += records_of(stack.advance(1)[0])
        found.append(state(stack).hypotheses.copy())
    return records, [torch.from_numpy(hypotheses) for hypotheses in found]


def rows_of(data: Federation, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A client's features and targets."""
    features = data.features.values if isinstance(data.features, ClientRows) else data.features
    own = data.own(client)
    return torch.from_numpy(features[own]).float(), torch.from_numpy(data.target[own])


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
def test_the_steps_of_a_client_are_those_of_torch(engine, name):
    data = engine()
    one = table_cell(
        data,
        training__hypotheses=1,
        training__loss="mse",
        training__rounds=len(SHARES),
        training__cohort={"clients": 1},
        training__local={
            "steps": STEPS,
            "step_size": STEP,
            "schedule": {"kind": "cosine", "warm_up": 2},
            **LOCALS[name],
        },
    )
    records, hypotheses = by_round(one)
    for record, share, before, after in zip(
        records, SHARES, hypotheses[:-1], hypotheses[1:], strict=True
    ):
        x, y = rows_of(data, int(record.subjects[0]))
        theta = before[0].clone().requires_grad_()
        theirs = TORCH[name]([theta], STEP * share)
        for _ in range(STEPS):
            theirs.zero_grad()
            torch.mean((x @ theta[:-1] + theta[-1] - y) ** 2).backward()
            theirs.step()
        torch.testing.assert_close(after[0], theta.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("local", [ADAM, {**ADAM, "optimiser": "sgd", "momentum": 0.9}])
@pytest.mark.parametrize(
    "data", [random_federation(clients=40, max_rows=9), uneven(COUNTS)], ids=["even", "uneven"]
)
def test_a_client_whose_rows_are_used_up_takes_no_step(data, local):
    """Beside longer ones its means would go on; client by client there is nobody to wait for."""
    changes = {"training__local": local, "training__rounds": 4, "training__loss": "mse"}
    beside, alone = (
        by_round(table_cell(form, **changes))[1][-1] for form in (data, one_by_one(data))
    )
    torch.testing.assert_close(beside, alone, rtol=1e-4, atol=1e-5)


def moved_by_hand(
    before: list[Any], averages: list[list[Any]], *, rule: ServerAdam | ServerMomentum
) -> list[Any]:
    """FedAdam and FedAvgM in double precision, of averages by round and hypothesis; None where a
    hypothesis had none. The hypotheses at the end."""
    found = []
    for j, start in enumerate(before):
        x = np.asarray(start, dtype=float)
        m = np.zeros_like(x)
        v = m + (rule.tau**2 if isinstance(rule, ServerAdam) else 0)
        for released in averages:
            if released[j] is None:
                continue
            delta = released[j] - x
            if isinstance(rule, ServerMomentum):
                m = rule.momentum * m + delta
                x = x + rule.step_size * m
            else:
                m = rule.beta1 * m + (1 - rule.beta1) * delta
                v = rule.beta2 * v + (1 - rule.beta2) * delta**2
                x = x + rule.step_size * m / (np.sqrt(v) + rule.tau)
        found.append(x)
    return found


RULES: dict[str, ServerAdam | ServerMomentum] = {
    "adam": ServerAdam(optimiser="adam", step_size=0.3, beta1=0.8, beta2=0.95, tau=0.01),
    "momentum": ServerMomentum(optimiser="momentum", step_size=0.7, momentum=0.6),
}


def averages_of(run: WatchedRun) -> list[list[Any]]:
    """What was released of each round, by hypothesis, read off what passed through the
    mechanism."""
    found: list[list[Any]] = []
    for number, columns in enumerate(run.columns, start=1):
        released = run.passed.sums[number].released if number in run.passed.sums else None
        if released is not None:
            found.append(list(released.double().numpy()))
            continue
        parts = run.passed.uploads[number]
        sent = torch.cat([part.uploads for part in parts]).double().numpy()
        own = [sent[columns.clusters[0] == j] for j in range(len(run.hypotheses[0]))]
        found.append([one.mean(0) if len(one) else None for one in own])
    return found


SOME_EMPTY: dict[str, Any] = {
    "training__hypotheses": 6,
    "training__cohort": {"clients": 7},
    "model": {"kind": "linear", "start": "normal"},
}
KEEP = {"training__clustering": {"method": "k-means", "empty_cluster": "keep"}}
CASES: dict[str, dict[str, Any]] = {
    "k-means": {**SOME_EMPTY, **KEEP},
    "reported": {**SOME_EMPTY, **REPORTED},
    "trusted server, coins": {
        "privacy": CENTRAL,
        **REPORTED,
        "training__cohort": {**COINS, "rate": 0.02},
    },
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("name", CASES)
def test_the_server_moves_hypotheses_as_the_papers_say(name, rule):
    spec = groups_spec(**CASES[name], training__server=rule.model_dump(), training__rounds=12)
    run = play(cell(spec), rounds=12)
    averages = averages_of(run)
    empty = [sum(one is None for one in released) for released in averages]
    assert (max(empty) > 0) == ("privacy" not in CASES[name])
    expected = moved_by_hand(list(run.hypotheses[0]), averages, rule=rule)
    assert run.hypotheses[-1] == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_server_moves_the_model_of_records_likewise(rule, monkeypatch):
    averages: list[list[Any]] = []
    real = RecordByRecord._moved

    def kept(self: RecordByRecord, found: RoundResult, moments: Any) -> RoundResult:
        average = found.hypotheses[0, 0].double().numpy() if found.sizes.any() else None
        averages.append([average])
        return real(self, found, moments)

    monkeypatch.setattr(RecordByRecord, "_moved", kept)
    spec = records_spec(training__server=rule.model_dump())
    spec["training"]["cohort"]["rate"] = 0.05
    run = play(cell(spec), rounds=6)
    assert 0 < sum(released[0] is None for released in averages) < 6
    expected = moved_by_hand(list(run.hypotheses[0]), averages, rule=rule)
    assert run.hypotheses[-1] == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4)


def test_a_hypothesis_that_is_relocated_starts_anew() -> None:
    """Three uploads near the first of two hypotheses: the other takes the farthest."""
    theta = torch.tensor([[[0.0, 0.0], [90.0, 90.0]]])
    uploads = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]]])
    everyone = torch.ones(1, 3, dtype=torch.bool)
    server = Server(reported=False, relocate=True, names_relocated=True)
    found = server(theta, uploads, everyone, torch.zeros(1, 3, dtype=torch.int64))
    assert found.relocated is not None
    assert found.relocated.tolist() == [[False, True]]
    for rule in RULES.values():
        moves = ServerMoves(rule)
        kept = torch.ones_like(moves.start(theta))
        hypotheses, moments = moves(
            theta, found.hypotheses, kept, moved=found.sizes > 0, relocated=found.relocated
        )
        assert hypotheses[0, 1].tolist() == [5.0, 5.0]
        assert torch.equal(moments[:, :, 1], moves.start(theta)[:, :, 1])
        assert not torch.equal(hypotheses[0, 0], found.hypotheses[0, 0])
        assert not torch.equal(moments[:, :, 0], moves.start(theta)[:, :, 0])


@dataclass(frozen=True)
class TorchLoop(Loop):
    """Ditto's problem by torch's optimiser, from the common model."""

    momentum: float | None

    def personal(self, theta: Any, client: int, tunes: Any, method: dict[str, Any]) -> Any:
        x, y = (torch.from_numpy(part[tunes]).double() for part in self.rows(client))
        common = torch.from_numpy(theta)
        own = common.clone().requires_grad_()
        theirs = TORCH["adam" if self.momentum is None else "momentum"]([own], method["step_size"])
        theirs.param_groups[0]["momentum"] = self.momentum
        for _ in range(method["steps"] if len(y) else 0):
            theirs.zero_grad()
            away = method["proximal"] / 2 * (own - common).square().sum()
            ((x @ own - y).square().mean() + away).backward()
            theirs.step()
        return own.detach().numpy()


@pytest.mark.parametrize("changes", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("engine", ["side by side", "client by client"])
def test_personal_models_are_made_by_the_optimiser_of_local_steps(engine, changes):
    method = {"kind": "ditto", "proximal": 0.7, "steps": 6, "step_size": 0.03}
    data = ENGINES[engine]()
    _, result, stack = played(method_cell(data, method, **changes))
    loop = TorchLoop(data, root=False, momentum=changes["training__local"].get("momentum"))
    losses, _ = scored_by_hand(loop, stack, result.hypotheses.astype(float), method)
    assert result.validation_loss == pytest.approx(np.mean(losses), rel=1e-3)
