"""What the component does where a job is not what it expects, without a simulator."""

from types import SimpleNamespace
from typing import Any

import pytest

from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries
from fedaudit_client.adapters.plain import Ledger, RoundRefused
from fedaudit_client.errors import NotFoundError
from tests.api.ledgers.trainings import CENTRAL, GAUSSIAN, LOCAL, declared, epsilon, opened, post
from tests.api.service import Api
from tests.client.adapters.simulations import entries

pytest.importorskip("nvflare", reason="needs the extra `integrations`: NVFlare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.job_config.api import FedJob

from fedaudit_client.adapters.nvflare import FedauditRounds, keep_ledger

pytestmark = pytest.mark.integrations

SITES = ["a", "b"]


class Server:
    """A run of one workflow at two sites: what is sent, and why the run ended."""

    def __init__(self, rounds: FedauditRounds) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.panics: list[str] = []
        ways = ("broadcast", "broadcast_forever", "relay", "send")
        self.communicator = SimpleNamespace(**dict.fromkeys(ways, self.send))
        controller = SimpleNamespace(communicator=self.communicator)
        self.runner = SimpleNamespace(
            config=SimpleNamespace(workflows=[SimpleNamespace(controller=controller)])
        )
        self.rounds = rounds
        rounds.system_panic = lambda reason, fl_ctx: self.panics.append(reason)
        self.fire(EventType.START_RUN)

    def send(self, task: Any, fl_ctx: FLContext, targets: Any = None, *_: Any) -> None:
        self.sent.append((task.name, targets))

    def context(self) -> FLContext:
        context = FLContext()
        context.set_prop(FLContextKey.RUNNER, self.runner, private=True)
        context.get_engine = lambda: SimpleNamespace(
            get_clients=lambda: [SimpleNamespace(name=name) for name in SITES]
        )
        return context

    def fire(self, event: str, site: str | None = None) -> None:
        context = self.context()
        if site is not None:
            peer = SimpleNamespace(get_identity_name=lambda: site)
            context.get_peer_context = lambda: peer
            context.set_prop(AppConstants.AGGREGATION_ACCEPTED, True, private=True)
        self.rounds.handle_event(event, context)

    def broadcast(self, task: str = "train", *, at_least: int = 0) -> None:
        named = SimpleNamespace(name=task)
        self.communicator.broadcast(named, self.context(), None, at_least)


@pytest.fixture
def ledger(client: Client) -> Ledger:
    return Ledger.open(client, LOCAL)


def test_a_round_under_another_name_is_charged_and_ends_the_run(api: Api, ledger: Ledger) -> None:
    server = Server(FedauditRounds(ledger.id, GAUSSIAN))
    server.broadcast("validate")
    server.broadcast("fine_tune")
    assert server.sent == [("validate", None), ("fine_tune", None)]
    for site in SITES:
        server.fire(AppEventType.BEFORE_TRAIN_TASK, site)
    server.fire(AppEventType.AFTER_CONTRIBUTION_ACCEPT, "a")
    server.fire(AppEventType.AFTER_AGGREGATION)
    [reason] = server.panics
    assert "round 1 is refused: it ran, but not as the task 'train'" in reason
    assert [(one["round"], one["subject"]) for one in entries(api, ledger.id)] == [
        (1, "a"),
        (1, "b"),
    ]


def test_without_its_ledger_no_one_trains(client: Client) -> None:
    missing = "01a205eb-cf7e-740f-b236-a05fa1cf2bf5"
    server = Server(FedauditRounds(missing, GAUSSIAN))
    assert missing in server.panics[0]
    with pytest.raises(RuntimeError, match="could not be opened"):
        server.broadcast()
    assert server.sent == []


def test_a_round_with_too_few_sites_is_given_back(api: Api, client: Client) -> None:
    probe = opened(api, rounds=[declared(1, ["a"])])
    ledger = Ledger.open(client, {**LOCAL, "budget": {"epsilon": epsilon(api, probe)}})
    post(api, ledger.id, declared(1, ["a"]))
    server = Server(FedauditRounds(ledger.id, GAUSSIAN))
    with pytest.raises(RoundRefused, match="waits for 2 sites, and fewer have room\n  a: would"):
        server.broadcast(at_least=2)
    with pytest.raises(NotFoundError):  # Nothing is held.
        client.release_round(ledger.id, 2)
    server.broadcast(at_least=1)
    assert server.sent == [("train", ["b"])]
    # The run ends before anybody answered: who was asked may have sent an update.
    server.fire(EventType.ABOUT_TO_END_RUN)
    assert api.get(f"/v1/ledgers/{ledger.id}").json()["rounds"] == 2
    assert server.panics == []


def test_what_a_server_cannot_see_is_refused(api: Api, client: Client) -> None:
    sampled = {"kind": "fixed-gaussian", "clients": 2, "population": 100, "noise_multiplier": 4.0}
    ledger = Ledger.open(client, {**CENTRAL, "adjacency": "replace-one"})
    with pytest.raises(ValueError, match="no amplification by it is counted"):
        keep_ledger(FedJob(), ledger, event=sampled)
    with pytest.raises(ValueError, match="sees neither an update before its clip nor where noise"):
        keep_ledger(FedJob(), ledger, event=GAUSSIAN, audit=Canaries())
    server = Server(FedauditRounds(ledger.id, sampled))
    assert "no amplification by it is counted" in server.panics[0]
    with pytest.raises(RuntimeError, match="could not be opened"):
        server.broadcast()
