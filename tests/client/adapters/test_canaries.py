"""Canaries in plain loops and under Opacus, whose scores a real service tests."""

from typing import Any

import numpy as np
import pytest
import torch
from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer

from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.reports.page.html import render
from fedaudit.spec.declared_ledgers import DeclaredRound
from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries, NoiseContradicted, PlantedCanaries
from fedaudit_client.adapters.opacus import attach
from fedaudit_client.adapters.plain import Ledger
from tests.api.ledgers.trainings import CENTRAL, declared, post
from tests.api.service import Api
from tests.api.webhooks.webhooks import deliveries, register

NOISE = (
    ReleaseLaw(ratio=1.0, rate=1.0, compositions=1, adjacency="add-or-remove-one").ratio_of_epsilon(
        2.0, 1e-5
    )
    ** -1
)
EVENT = {"kind": "gaussian", "noise_multiplier": NOISE}
N = 800


def trained(ledger: Ledger, share: float, rounds: int, *, canaries: PlantedCanaries) -> np.ndarray:
    """Rounds of ten clients whose sum has this share of the declared noise; the last sum."""
    random = np.random.default_rng(rounds)
    total = np.zeros(N)
    for _ in range(rounds):
        with ledger.round(event=EVENT, participants=["a"], canaries=canaries):
            rows = canaries.plant(random.standard_normal((10, N)))
            rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / 2.0)
            noised = rows.sum(axis=0) + 2.0 * share * NOISE * random.standard_normal(N)
            total = canaries.read(noised)
    return total


def summary(count: int = 350, score: float = 0.0, **changes: Any) -> dict[str, Any]:
    """What a round says of its canaries, all of which it took."""
    figures = {"product": count, "weight": count, "squares": count, "numbers": N, "releases": 1}
    return {"present": "1" * count, "scores": [score] * count, **figures, **changes}


def test_halved_noise_raises_an_alarm_in_its_round_and_honest_noise_is_tested(api, client):
    hook = register(api, "https://example.org/hook", events=["alarm.raised"])
    honest, halved = (Ledger.open(client, CENTRAL) for _ in range(2))
    trained(honest, 1.0, 3, canaries=honest.canaries(Canaries(350), clip=2.0))
    with (
        pytest.warns(UserWarning, match="canaries contradict the noise"),
        pytest.raises(NoiseContradicted, match="round 1"),
    ):
        trained(halved, 0.5, 3, canaries=halved.canaries(Canaries(700, stop=True), clip=2.0))
    reports = [client.ledger_report(one.id) for one in (honest, halved)]
    good, bad = (one["tests"] for one in reports)
    assert good.items() >= {"status": "tested", "rounds": 3, "releases": 3, "alarm": None}.items()
    assert good["power"] > 0.99
    assert {one["name"] for one in good["bounds"]} == {"known-noise", "f-dp", "one-run"}
    assert all(one["epsilon_lower_bound"] < good["claim"] for one in good["bounds"])
    assert (bad["status"], bad["alarm_round"], bad["e_value"] >= 200) == ("contradicted", 1, True)
    assert bad["bounds"][0]["epsilon_lower_bound"] > bad["claim"]
    assert reports[1]["answer"]["reasons"][0]["code"] == "attack-raised-alarm"
    assert reports[0]["answer"]["outcome"] == "not-decided"  # A test is no proof.
    assert [one["alarm_round"] for one in api.get("/v1/ledgers").json()["items"]] == [1, None]
    assert [one["event"] for one in deliveries(api, hook)] == ["alarm.raised"]
    for ledger in (honest, halved):
        verified = client.ask("GET", f"ledgers/{ledger.id}/report/verification")
        assert verified["valid"], verified
    assert "contradict" in render(client.ledger_report(halved.id))
    assert "power" in render(client.ledger_report(honest.id))
    earlier = {name: one for name, one in reports[0].items() if name not in ("tests", "answer")}
    assert "What was tested" not in render(earlier)


@pytest.mark.filterwarnings("ignore:round 1 of ledger")
def test_gates_can_demand_that_the_noise_was_tested(api: Api, client: Client) -> None:
    gate = {"figure": "epsilon_max", "op": "le", "value": 1e6}
    asked = [{**gate, "require_tested": True}, {**gate, "allow_declared": True}]
    outcomes = []
    for count, share in ((350, 1.0), (20, 1.0), (350, 0.5)):
        ledger = Ledger.open(client, CENTRAL)
        trained(ledger, share, 1, canaries=ledger.canaries(Canaries(count), clip=2.0))
        body = {"ledger_id": ledger.id, "gates": asked}
        found = api.post("/v1/gates/evaluations", json=body).json()["gates"]
        outcomes.append([one["outcome"] for one in found])
        reason = found[0]["reason"]
    none = "insufficient_evidence"
    assert outcomes == [["pass", "pass"], [none, "pass"], [none, none]]
    assert "canaries contradicts the guarantee" in reason


def test_canaries_of_one_round_say_nothing_of_the_noise_of_others(api: Api, client: Client) -> None:
    many, few = (summary(count, 1.0, squares=N * NOISE**2) for count in (350, 2))
    statuses = []
    for each in ([many], [many, few], [many, many]):
        ledger = Ledger.open(client, CENTRAL)
        rounds = [declared(at, ["a"], EVENT, canaries=one) for at, one in enumerate(each, 1)]
        assert post(api, ledger.id, *rounds).status_code == 200
        found = client.ledger_report(ledger.id)["tests"]
        statuses.append((found["status"], found["power"] > 0.8, "same scores" in found["reason"]))
    assert statuses == [
        ("tested", True, False),
        ("declared", False, False),
        ("declared", True, True),
    ]


def test_a_second_pass_through_copies_measures_the_noise_again_and_no_coin(api, client):
    """Two passes of 100 canaries have the power of 200; scores have the deviation of one."""
    random, found = np.random.default_rng(5), {}
    for count, passes in ((100, 1), (200, 1), (100, 2)):
        ledger = Ledger.open(client, CENTRAL)
        canaries = ledger.canaries(Canaries(count), clip=2.0)
        canaries._coins[:] = canaries._sent[:] = np.arange(count) % 2  # The power depends on them.

        def release(rows: np.ndarray) -> np.ndarray:
            clipped = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / 2.0)
            return clipped.sum(axis=0) + 2.0 * NOISE * random.standard_normal(N)

        with ledger.round(event=EVENT, participants=["a"], canaries=canaries):
            canaries.beside(release, n=N, group=5, passes=passes)
            scores = canaries._scores - canaries._sent
        tests = client.ledger_report(ledger.id)["tests"]
        assert (tests["canaries"], tests["releases"], tests["alarm"]) == (count, 1, None)
        assert client.ask("GET", f"ledgers/{ledger.id}/report/verification")["valid"]
        found[count, passes] = tests["power"], float(scores.std())
    # 100 normal numbers miss their deviation by a quarter once in 2,000 times; the seed is fixed.
    assert found[100, 2][1] == pytest.approx(NOISE, rel=0.25)
    assert found[100, 1][0] < 0.5
    assert found[100, 2][0] > 0.9
    assert found[100, 2][0] == pytest.approx(found[200, 1][0], abs=0.01)


def test_one_round_without_noise_among_many_raises_an_alarm(api: Api, client: Client) -> None:
    """All releases together show a hundredth less noise, which is none that they could tell."""
    ledger = Ledger.open(client, CENTRAL)
    rounds = [
        declared(at, ["a"], EVENT, canaries=summary(squares=350 + share * N * NOISE**2))
        for at, share in enumerate([*np.linspace(0.9, 1.1, 99), 0.01], 1)
    ]
    assert post(api, ledger.id, *rounds[:99]).json()["rounds"][-1]["alarm_round"] is None
    assert post(api, ledger.id, rounds[99]).json()["rounds"][0]["alarm_round"] == 100


def test_an_alarm_before_a_round_without_canaries_is_heard(api: Api, client: Client) -> None:
    ledger = Ledger.open(client, CENTRAL)
    shown = declared(1, ["a"], EVENT, canaries=summary(score=1.0))
    with pytest.warns(UserWarning, match="round 1 of ledger"):
        ledger.declare([shown, declared(2, ["a"], EVENT)])
    assert ledger.alarm_round == 1


def test_a_training_that_diverges_is_declared_all_the_same(client: Client) -> None:
    ledger = Ledger.open(client, CENTRAL)
    planted = ledger.canaries(Canaries(10), clip=1.0)
    with ledger.round(event=EVENT, participants=["a"], canaries=planted):
        planted.read(planted.plant(np.full((1, N), np.nan)).sum(axis=0))
    assert ledger.current()["rounds"] == 1


class Halved(DPOptimizer):
    """Adds half of the noise that it is asked for, and says nothing of it."""

    def add_noise(self) -> None:
        declared, self.noise_multiplier = self.noise_multiplier, self.noise_multiplier / 2
        super().add_noise()
        self.noise_multiplier = declared


def optimised(kind: type[DPOptimizer], parameters: int = N, **more: Any) -> DPOptimizer:
    """An optimizer over one linear layer, with gradients of 8 records."""
    layer = torch.nn.Linear(parameters, 1, bias=False)
    optimizer = kind(
        torch.optim.SGD(layer.parameters(), lr=0.1),
        noise_multiplier=NOISE,
        max_grad_norm=more.pop("max_grad_norm", 1.0),
        expected_batch_size=8,
        **more,
    )
    layer.weight.grad_sample = torch.randn(8, 1, parameters)
    return optimizer


RECORDS = {**CENTRAL, "mechanism": "gaussian", "observer": "server", "unit": "record"}


@pytest.mark.filterwarnings("ignore:round 1 of ledger")
@pytest.mark.parametrize(("kind", "alarm"), [(DPOptimizer, None), (Halved, 1)])
def test_opacus_is_tested_within_its_own_steps(client: Client, kind: Any, alarm: Any) -> None:
    ledger = Ledger.open(client, RECORDS)
    optimizer = optimised(kind)
    [weight] = optimizer.params
    before = weight.detach().clone()
    loader = torch.utils.data.DataLoader(torch.zeros(64, 1), batch_size=8)
    with attach(
        optimizer, loader, ledger, subject="silo", steps_per_round=1, audit=Canaries(count=700)
    ):
        optimizer.step()
    assert ledger.alarm_round == alarm
    assert "clip_and_accumulate" not in vars(optimizer)
    # Without the canaries: the step is noise and eight clipped gradients over eight.
    moved = (before - weight.detach()).norm().item() * 8 / 0.1
    assert moved < 1.3 * (NOISE * N**0.5 + 8)
    client.ledger_report(ledger.id)


def test_what_cannot_be_seen_is_refused(client: Client) -> None:
    ledger = Ledger.open(client, RECORDS)
    loader = torch.utils.data.DataLoader(torch.zeros(64, 1), batch_size=8)
    by_layer = optimised(DPPerLayerOptimizer, max_grad_norm=[1.0])
    with pytest.raises(ValueError, match="need each record's gradient"):
        attach(by_layer, loader, ledger, subject="s", audit=Canaries())
    few = optimised(DPOptimizer, parameters=10)
    watched = attach(few, loader, ledger, subject="s", steps_per_round=1, audit=Canaries(350))
    with watched, pytest.raises(ValueError, match='directions="random"'):
        few.step()
    none = Ledger.open(
        client,
        {"name": "t", "population": 3, "unit": "client", "observer": "server", "mechanism": "none"},
    )
    with pytest.raises(ValueError, match="canaries test Gaussian noise"):
        none.canaries(Canaries(), clip=1.0)


def test_a_round_without_canaries_has_the_hash_it_had_and_wrong_ones_are_refused(api, client):
    fields = {"round": 1, "event": EVENT, "participants": ["a"]}
    assert "canaries" not in DeclaredRound.model_validate(fields).model_dump(mode="json")
    ledger = Ledger.open(client, CENTRAL)
    sums = {"product": 1.0, "weight": 2.0, "squares": 9.0, "numbers": 9, "releases": 1}
    good = {"present": "01", "scores": [0.1, 0.2], **sums}
    for bad, event, pointer in (
        ({**good, "releases": 2}, EVENT, "/rounds/0/canaries/releases"),
        ({**good, "product": 5.0}, EVENT, "/rounds/0/canaries"),
        ({**good, "passes": 17}, EVENT, "/rounds/0/canaries/passes"),
        ({**good, "present": "0"}, EVENT, "/rounds/0/canaries/present"),
        ({**good, "present": "011"}, EVENT, "/rounds/0/canaries"),
        (good, {"kind": "none"}, "/rounds/0/canaries"),
    ):
        answer = post(api, ledger.id, declared(1, ["a"], event, canaries=bad))
        assert answer.status_code == 422, answer.text
        assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
    assert post(api, ledger.id, declared(1, ["a"], EVENT, canaries=good)).status_code == 200
