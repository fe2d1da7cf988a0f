"""A training by Opacus that declares its steps to a real service."""

from typing import Any

import pytest
import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from torch.utils.data import DataLoader, TensorDataset

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries, PlantedCanaries
from fedaudit_client.adapters.opacus import attach
from fedaudit_client.adapters.plain import Ledger, RoundRefused
from tests.api.ledgers.trainings import CENTRAL, epsilon
from tests.api.service import Api
from tests.client.adapters.simulations import manual_snippet

RECORDS = {
    **CENTRAL,
    **{"name": "by Opacus", "mechanism": "gaussian", "observer": "server"},
    **{"unit": "record", "population": 64},
}


class Silo:
    """Eight batches an epoch, of 64 rows."""

    def __init__(self, accountant: str, *, noise: float = 1.1, poisson: bool = True) -> None:
        torch.manual_seed(3)
        rows = torch.randn(64, 3)
        self.engine = PrivacyEngine(accountant=accountant)
        model = torch.nn.Linear(3, 1)
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=8),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            poisson_sampling=poisson,
        )

    def epoch(self) -> None:
        for rows, targets in self.loader:
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(rows), targets).backward()
            self.optimizer.step()


def test_epsilon_is_that_of_opacus(api: Api, client: Client) -> None:
    # With this noise the best order is a whole number: between those dp-accounting interpolates,
    # and gives a little more than Opacus.
    by_rdp, by_prv = Silo("rdp", noise=3.0), Silo("prv", noise=3.0)
    found = []
    for silo, accountant in ((by_rdp, "rdp"), (by_prv, "pld")):
        ledger = Ledger.open(client, {**RECORDS, "accountant": accountant})
        with attach(silo.optimizer, silo.loader, ledger, subject="silo", steps_per_round=6):
            silo.epoch()
            silo.epoch()
        shown = api.get(f"/v1/ledgers/{ledger.id}").json()
        assert (shown["rounds"], shown["population"]) == (3, 64)
        found.append(epsilon(api, ledger.id))
    assert isinstance(by_rdp.engine.accountant, RDPAccountant)
    theirs = by_rdp.engine.accountant.get_epsilon(1e-5, alphas=list(RDP_ORDERS))
    assert found[0] == pytest.approx(theirs, rel=1e-9)
    # What `prv` gives is its estimate and 0.01, within which the truth lies.
    assert found[1] == pytest.approx(by_prv.engine.get_epsilon(1e-5) - 0.01, abs=0.01)


def test_the_step_without_room_changes_nothing(api: Api, client: Client) -> None:
    probe, silo = Silo("rdp"), Silo("rdp")
    probe.epoch()
    budget = probe.engine.accountant.get_epsilon(1e-5, alphas=list(RDP_ORDERS)) + 1e-9
    snippet = manual_snippet("opacus").replace("budget=8.0", f"budget={budget!r}")
    models: list[Any] = []

    def train() -> None:
        for _ in range(2):
            silo.epoch()
            models.append([one.detach().clone() for one in silo.model.parameters()])

    names = {"train": train, "optimizer": silo.optimizer, "data_loader": silo.loader}
    with pytest.raises(RoundRefused, match="round 2 is refused"):
        exec(snippet, names)
    assert len(models) == 1
    assert all(map(torch.equal, models[0], silo.model.parameters()))
    [ledger] = api.get("/v1/ledgers").json()["items"]
    assert ledger["rounds"] == 1
    stated = api.get(f"/v1/ledgers/{ledger['id']}").json()
    assert RECORDS.items() - {("name", "by Opacus")} <= stated.items()
    # The optimizer is the accountant's alone again.
    assert len(silo.engine.accountant.history) == 1
    silo.optimizer.step_hook(silo.optimizer)
    assert silo.engine.accountant.history[0][2] == 9


def test_steps_after_a_round_that_could_not_be_given_back_are_charged(client, monkeypatch) -> None:
    silo, ledger = Silo("rdp"), Ledger.open(client, RECORDS)
    canaries = Canaries(count=2, directions="random")
    watched = attach(silo.optimizer, silo.loader, ledger, subject="silo", audit=canaries)
    with monkeypatch.context() as patch:
        patch.setattr(PlantedCanaries, "end", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            silo.epoch()
        patch.setattr(client, "release_round", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            watched.close()
    silo.epoch()
    assert ledger.next_round == 2
