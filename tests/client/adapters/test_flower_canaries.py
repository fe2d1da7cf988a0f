"""Canaries beside the rounds of Flower's own wrapper, on nodes within this process."""

from typing import Any

import pytest

from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries
from fedaudit_client.adapters.plain import Ledger

pytest.importorskip("flwr.serverapp", reason="needs the extra `integrations`: Flower")

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.supercore.task_identity import TaskIdentity

from fedaudit_client.adapters.flower import FedauditStrategy, terms_for
from tests.client.adapters.test_flower_strategy import Nodes

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore:round 1 of ledger")]
NOISE = 3.98
"""Of which one round has an epsilon of 2 at a delta of 1e-5 under replace-one."""


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Halved(DifferentialPrivacyServerSideFixedClipping):
    """Half of the noise that it says."""

    def _add_noise_to_aggregated_arrays(self, aggregated_arrays: ArrayRecord) -> ArrayRecord:
        self.noise_multiplier /= 2
        try:
            return super()._add_noise_to_aggregated_arrays(aggregated_arrays)
        finally:
            self.noise_multiplier *= 2


def wrapped(kind: Any, count: int = 5) -> Any:
    base = FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=10)
    return kind(base, NOISE, 1.0, count)


@pytest.mark.parametrize(
    ("kind", "alarm"), [(DifferentialPrivacyServerSideFixedClipping, None), (Halved, 1)]
)
def test_the_wrapper_is_tested_beside_its_rounds(client: Client, kind: Any, alarm: Any) -> None:
    inner = wrapped(kind)
    ledger = Ledger.open(client, terms_for(inner, name="t", population=20, delta=1e-5))
    strategy = FedauditStrategy(inner, ledger, audit=Canaries(count=350))
    nodes: Any = Nodes()
    nodes.answers = range(1, 10)
    for _ in range(5):  # Node 10 fails, and then nothing is released.
        strategy.start(grid=nodes, initial_arrays=ArrayRecord([np.zeros(400)]), num_rounds=1)
        if ledger.next_round > 1:
            break
    assert ledger.alarm_round == alarm
    tests = client.ledger_report(ledger.id)["tests"]
    assert tests["status"] == ("tested" if alarm is None else "contradicted")
    assert (tests["canaries"], tests["releases"]) == (350, 1)


def test_clips_that_the_server_does_not_see_are_refused(client: Client) -> None:
    inner = wrapped(DifferentialPrivacyClientSideFixedClipping)
    ledger = Ledger.open(client, terms_for(inner, name="t", population=20, delta=1e-5))
    with pytest.raises(ValueError, match="what clients clip"):
        FedauditStrategy(inner, ledger, audit=Canaries(count=350))
