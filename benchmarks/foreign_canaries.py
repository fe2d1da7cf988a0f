"""How often canaries in trainings of other libraries raise an alarm, with the noise halved and as
claimed; and their power by claim and count.

`OMP_NUM_THREADS=1 python -m benchmarks.foreign_canaries --runs 100`. Needs Opacus and Flower.
"""

import argparse
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity
from opacus.optimizers import DPOptimizer

from fedaudit.privacy.declared.canary_evidence import TOGETHER, CanaryEvidence
from fedaudit.privacy.lower_bounds.e_values import ENOUGH_ALONE, known_noise_e_values
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.spec.declared_ledgers import CanaryScores
from fedaudit_client.adapters.canaries import Canaries, PlantedCanaries
from fedaudit_client.adapters.flower import CanaryReplies
from fedaudit_client.adapters.opacus import attach
from fedaudit_client.adapters.plain import Event, Ledger, OpenRound

N, CLIENTS, COUNT = 600, 5, 350


def noise_of(epsilon: float, *, replaces: bool) -> float:
    """The multiplier whose one release has this epsilon at a delta of 1e-5."""
    law = ReleaseLaw(
        ratio=1.0,
        rate=1.0,
        compositions=1,
        adjacency="replace-one" if replaces else "add-or-remove-one",
    )
    return law.reach / law.ratio_of_epsilon(epsilon, 1e-5)


class Kept(Ledger):
    """A ledger without a service, which tests what it is sent as the service does."""

    def __init__(self, *, replaces: bool, noise: float) -> None:
        adjacency = "replace-one" if replaces else "add-or-remove-one"
        self.terms = {"delta": 1e-5, "adjacency": adjacency, "unit": "record", "mechanism": "g"}
        self.id, self.next_round, self.alarm_round = "kept", 1, None
        self._noise, self._evidence = noise, CanaryEvidence()

    def reserve(
        self, number: int, *, event: Event, participants: Sequence[str], canaries: Any = None
    ) -> OpenRound:
        """Any round."""
        return OpenRound(self, number, event, tuple(participants), {}, canaries)

    def declare(self, rounds: Sequence[Mapping[str, Any]]) -> None:
        """Tests the canaries of each."""
        for one in rounds:
            found = CanaryScores.model_validate(one["canaries"])
            self._evidence = self._evidence.after(
                found, round_=self.next_round, multiplier=self._noise, steps=1
            )
            self.next_round += 1
        self.alarm_round = self._evidence.alarm_round


class HalvedOptimizer(DPOptimizer):
    """Half of the noise that it says."""

    def add_noise(self) -> None:
        """As Opacus, with half."""
        self.noise_multiplier: float = self.noise_multiplier / 2
        super().add_noise()
        self.noise_multiplier *= 2


class HalvedWrapper(DifferentialPrivacyServerSideFixedClipping):
    """Half of the noise that it says."""

    def _add_noise_to_aggregated_arrays(self, aggregated_arrays: ArrayRecord) -> ArrayRecord:
        self.noise_multiplier /= 2
        found = super()._add_noise_to_aggregated_arrays(aggregated_arrays)
        self.noise_multiplier *= 2
        return found


def opacus_alarm(kind: type[DPOptimizer], noise: float) -> bool:
    """Whether one step of an optimizer of Opacus raises an alarm."""
    layer: Any = torch.nn.Linear(N, 1, bias=False)
    layer.weight.grad_sample = torch.randn(8, 1, N)
    optimizer = kind(
        torch.optim.SGD(layer.parameters(), lr=0.1),
        noise_multiplier=noise,
        max_grad_norm=1.0,
        expected_batch_size=8,
    )
    ledger = Kept(replaces=False, noise=noise)
    rows = torch.utils.data.TensorDataset(torch.zeros(8, 1))
    loader = torch.utils.data.DataLoader(rows, batch_size=8)
    with attach(
        optimizer, loader, ledger, subject="a", steps_per_round=1, audit=Canaries(count=COUNT)
    ):
        optimizer.step()
    return ledger.alarm_round is not None


def flower_alarm(kind: Any, noise: float) -> bool:
    """Whether one round of Flower's wrapper raises an alarm."""
    ledger = Kept(replaces=True, noise=noise)
    strategy = kind(FedAvg(), noise, 1.0, CLIENTS)
    start = ArrayRecord([np.zeros(N)])
    strategy.current_arrays = start
    replies = CanaryReplies(strategy, ledger, Canaries(count=COUNT))
    replies.begin(start)
    asked = Message(content=RecordDict(), message_type="train", dst_node_id=1)
    content = {"arrays": start, "metrics": MetricRecord({"num-examples": 1})}
    sent = [Message(RecordDict(dict(content)), reply_to=asked) for _ in range(CLIENTS)]
    replies.send(1, sent)
    ledger.declare([replies.planted.taken()])
    return ledger.alarm_round is not None


def plain_alarm(share: float, noise: float, *, rounds: int = 1) -> bool:
    """Whether a loop of numpy raises an alarm, with this share of its noise."""
    ledger, random = Kept(replaces=False, noise=noise), np.random.default_rng()
    planted: PlantedCanaries = ledger.canaries(Canaries(count=COUNT), clip=1.0)
    for _ in range(rounds):
        rows = planted.plant(random.standard_normal((8, N)))
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        planted.read(rows.sum(axis=0) + share * noise * random.standard_normal(N))
        ledger.declare([planted.taken()])
    return ledger.alarm_round is not None


def power(
    epsilon: float, count: int, *, replaces: bool = False, draws: int = 4000, halved: bool = True
) -> float:
    """The share of alarms after one release of 2,000 numbers or more, by drawn sums."""
    noise, numbers = noise_of(epsilon, replaces=replaces), max(2000, count)
    random, deviation = np.random.default_rng(count), 0.5 if halved else 1.0
    sent = np.full(draws, count) if replaces else random.binomial(count, 0.5, draws)
    weight = sent / noise**2
    product = weight + deviation * np.sqrt(weight) * random.standard_normal(draws)
    squares = product**2 / weight + deviation**2 * random.chisquare(numbers - 1, draws)
    found = known_noise_e_values(product / np.sqrt(squares), weight, numbers=numbers, claimed=1.0)
    return float((TOGETHER * found >= ENOUGH_ALONE).mean())


def main() -> None:
    """Print alarms, and the table of powers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    logging.getLogger("flwr").setLevel(logging.WARNING)
    for name in ("_run_id", "_node_id", "_task_id"):  # Messages are made within a run.
        setattr(TaskIdentity, name, 1)
    one, two = noise_of(2.0, replaces=False), noise_of(2.0, replaces=True)
    wrapper = DifferentialPrivacyServerSideFixedClipping
    trials: dict[str, Any] = {
        "plain, halved": lambda: plain_alarm(0.5, one),
        "plain, honest, 10 rounds": lambda: plain_alarm(1.0, one, rounds=10),
        "Opacus, halved": lambda: opacus_alarm(HalvedOptimizer, one),
        "Opacus, honest": lambda: opacus_alarm(DPOptimizer, one),
        "Flower, halved": lambda: flower_alarm(HalvedWrapper, two),
        "Flower, honest": lambda: flower_alarm(wrapper, two),
    }
    for name, trial in trials.items():
        print(f"{name}: {sum(trial() for _ in range(runs))} alarms of {runs}", flush=True)
    counts = (50, 110, 350, 1250, 4500)
    print("| claim |", " | ".join(map(str, counts)), "|")
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        both = ((power(epsilon, one), power(epsilon, one, replaces=True)) for one in counts)
        shown = " | ".join(f"{zeroed:.2f}, {replaced:.2f}" for zeroed, replaced in both)
        print(f"| {epsilon:g} | {shown} |")
    honest = max(power(epsilon, 350, halved=False) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0))
    print(f"honest, 350 canaries: at most {honest:.4f}")


if __name__ == "__main__":
    main()
