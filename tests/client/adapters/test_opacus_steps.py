"""A training by Opacus that declares its steps to a real service."""

from typing import Any

import pytest
import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.schedulers import ExponentialNoise
from opacus.utils.adaptive_clipping import PrivacyEngineAdaptiveClipping
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries, PlantedCanaries
from fedaudit_client.adapters.opacus import attach, terms_for
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

    def __init__(
        self,
        accountant: str,
        *,
        noise: float = 1.1,
        poisson: bool = True,
        engine: type[PrivacyEngine] = PrivacyEngine,
        **more: Any,
    ) -> None:
        torch.manual_seed(3)
        rows = torch.randn(64, 3)
        self.engine = engine(accountant=accountant)
        model = torch.nn.Linear(3, 1)
        self.loss: Any = torch.nn.MSELoss()
        self.model, self.optimizer, *ghost, self.loader = self.engine.make_private(
            module=model,
            criterion=self.loss,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=8),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            poisson_sampling=poisson,
            **more,
        )
        self.loss = ghost[0] if ghost else self.loss

    def epoch(self) -> None:
        for rows, targets in self.loader:
            self.optimizer.zero_grad()
            self.loss(self.model(rows), targets).backward()
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


@pytest.mark.parametrize("by_hand", [False, True])
def test_batches_that_may_share_a_record_are_no_step(client: Client, by_hand: bool) -> None:
    silo, ledger = Silo("rdp"), Ledger.open(client, RECORDS)
    silo.model.allow_grad_accumulation()
    before = [one.detach().clone() for one in silo.model.parameters()]

    def train() -> None:
        for place, (rows, targets) in enumerate(silo.loader):
            silo.loss(silo.model(rows), targets).backward()
            if by_hand:
                silo.optimizer.signal_skip_step(place < 1)
            if by_hand or place == 1:
                silo.optimizer.step()

    watched = attach(silo.optimizer, silo.loader, ledger, subject="silo")
    with watched, pytest.raises(ValueError, match="BatchMemoryManager"):
        train()
    assert all(map(torch.equal, before, silo.model.parameters()))
    assert ledger.current()["rounds"] == 0
    silo.optimizer.signal_skip_step(True)  # It is the trainer's again.
    assert silo.optimizer._step_skip_queue == [True]


def test_parts_of_one_sample_are_one_step(client: Client) -> None:
    silo, ledger = Silo("rdp"), Ledger.open(client, RECORDS)
    canaries = Canaries(2, "random")
    with (
        attach(silo.optimizer, silo.loader, ledger, subject="silo", audit=canaries),
        BatchMemoryManager(
            data_loader=silo.loader, max_physical_batch_size=3, optimizer=silo.optimizer
        ) as silo.loader,
    ):
        silo.epoch()
    whole = {"kind": "poisson-gaussian", "rate": 1 / 8, "noise_multiplier": 1.1, "steps": 8}
    assert ledger.events == [whole]
    assert silo.engine.accountant.history == [(1.1, 1 / 8, 8)]


def test_loaders_that_may_repeat_a_record_are_refused(client: Client) -> None:
    silo, ledger = Silo("rdp", poisson=False), Ledger.open(client, RECORDS)
    rows = silo.loader.dataset
    for sampler in (
        WeightedRandomSampler([1.0] * 64, 64),
        RandomSampler(rows, replacement=True),
        RandomSampler(rows, num_samples=65),
        SubsetRandomSampler([1, 1]),
    ):
        loader = DataLoader(rows, batch_size=8, sampler=sampler)
        with pytest.raises(ValueError, match="poisson_sampling"):
            attach(silo.optimizer, loader, ledger, subject="silo")
    for twice in (Subset(rows, [0, 1, 1]), ConcatDataset([rows, rows])):
        with pytest.raises(ValueError, match="of each once"):
            attach(silo.optimizer, DataLoader(twice, batch_size=8), ledger, subject="silo")
    for loader in (silo.loader, DataLoader(rows, batch_size=8, shuffle=True)):
        attach(silo.optimizer, loader, ledger, subject="silo").close()


def test_adaptive_clipping_is_refused(client: Client) -> None:
    adaptive = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2}
    adaptive |= {"max_clipbound": 10.0, "min_clipbound": 0.1}
    flat = Silo("rdp", clipping="adaptive", unclipped_num_std=2.0, **adaptive)
    with pytest.raises(ValueError, match="adaptive clipping"):
        terms_for(flat.optimizer, flat.loader, name="t", delta=1e-5)
    for engine, refused in ((PrivacyEngine, False), (PrivacyEngineAdaptiveClipping, True)):
        ghost = Silo("rdp", noise=0.1, engine=engine, grad_sample_mode="ghost", **adaptive)
        ledger = Ledger.open(client, RECORDS)
        with attach(ghost.optimizer, ghost.loader, ledger, subject="silo"):
            if refused:
                with pytest.raises(ValueError, match="adaptive clipping"):
                    ghost.epoch()
            else:
                ghost.epoch()
        assert ledger.current()["rounds"] == (not refused)


def test_noise_that_changes_under_ghost_clipping_is_refused_for_what_it_is(client: Client) -> None:
    ghost, ledger = Silo("rdp", grad_sample_mode="ghost"), Ledger.open(client, RECORDS)
    schedule = ExponentialNoise(ghost.optimizer, gamma=0.9)
    with attach(ghost.optimizer, ghost.loader, ledger, subject="silo"):
        ghost.epoch()
        schedule.step()
        with pytest.raises(ValueError, match="noise multiplier changed") as refused:
            ghost.epoch()
    assert "`attach` anew" in str(refused.value)
    with attach(ghost.optimizer, ghost.loader, ledger, subject="silo"):
        ghost.epoch()
    assert ledger.current()["rounds"] == 2
