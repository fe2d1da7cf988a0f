"""The strategy around Flower's own, with canaries beside it, on nodes within this process."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from fedaudit_client import Client
from fedaudit_client.adapters.canaries import Canaries
from fedaudit_client.adapters.plain import Ledger, RoundRefused
from fedaudit_client.errors import NotFoundError
from tests.api.ledgers.trainings import LOCAL, epsilon
from tests.api.service import Api

pytest.importorskip("flwr.serverapp", reason="needs the extra `integrations`: Flower")

from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
)
from flwr.supercore.task_identity import TaskIdentity

from fedaudit_client.adapters.flower import FedauditStrategy, say_subject, subject_mod, terms_for

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore:round 1 of ledger")]

CENTRAL: dict[str, Any] = {
    **LOCAL,
    "mechanism": "gaussian-central",
    "observer": "final_model",
    "population": 20,
}
EVENT = {"kind": "gaussian", "noise_multiplier": 4.0}


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made within a run."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Nodes:
    """Ten nodes; some are named alike, and training may break off."""

    def __init__(self, names: Callable[[int], str] = "silo-{}".format, *, broken: bool = False):
        self.names = names
        self.broken = broken
        self.deaf = 0
        """How often only the first two are up in time to say who they are."""
        self.trained: list[int] = []

    def get_node_ids(self) -> Iterable[int]:
        return range(1, 11)

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> Iterable[Message]:
        found = list(messages)
        if self.deaf and found[0].metadata.message_type == "query.fedaudit":
            self.deaf -= 1
            found = found[:2]
        return [self._answer(message) for message in found]

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if message.metadata.message_type == "query.fedaudit":
            tell = subject_mod(lambda context: self.names(node))
            return tell(message, None, say_subject)  # type: ignore[arg-type]
        if self.broken:
            raise ConnectionError("the link is down")
        self.trained.append(node)
        metrics = MetricRecord({"num-examples": 1})
        if message.metadata.message_type == "evaluate":
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        if node == 10:
            return Message(Error(code=1, reason="no data"), reply_to=message)
        arrays = [one + 1.0 for one in message.content["arrays"].to_numpy_ndarrays()]
        content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
        return Message(content, reply_to=message)


def started(strategy: FedauditStrategy, nodes: Nodes, rounds: int = 1) -> Any:
    return strategy.start(
        grid=nodes,  # type: ignore[arg-type]
        initial_arrays=ArrayRecord([np.zeros(2)]),
        num_rounds=rounds,
    )


def wrapped(base: FedAvg, count: int = 5) -> Any:
    return DifferentialPrivacyServerSideFixedClipping(base, 4.0, 1.0, count)


def half(**more: Any) -> FedAvg:
    return FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=10, **more)


def test_a_round_that_is_broken_off_is_charged_where_uploads_are_seen(api, client):
    for terms, event, charged in ((LOCAL, EVENT, True), (CENTRAL, None, False)):
        ledger = Ledger.open(client, terms)
        inner = half() if event else wrapped(half())
        with pytest.raises(ConnectionError):
            started(FedauditStrategy(inner, ledger, event=event), Nodes(broken=True))
        assert (epsilon(api, ledger.id) > 0) == charged
        with pytest.raises(NotFoundError):  # Nothing is held any more.
            client.release_round(ledger.id, 1)


def test_one_client_under_two_names_or_two_under_one_is_refused(api: Api, client: Client) -> None:
    ledger = Ledger.open(client, LOCAL)
    strategy = FedauditStrategy(FedAvg(), ledger, event=EVENT, ask_subjects=True)
    nodes = Nodes(lambda node: f"silo-{node // 2}")
    with pytest.raises(RoundRefused, match="several nodes say that they are silo-1, silo-2"):
        started(strategy, nodes)
    assert nodes.trained == []
    # What a node said first stays, whatever it says later.
    nodes.names = "silo-{}".format
    strategy = FedauditStrategy(FedAvg(), ledger, event=EVENT, ask_subjects=True)
    started(strategy, nodes)
    nodes.names = "other-{}".format
    started(strategy, nodes)
    shown = api.get(f"/v1/ledgers/{ledger.id}").json()
    assert (shown["rounds"], shown["subjects"]) == (2, 10)


def test_nodes_that_do_not_answer_in_time_are_asked_once_more(api: Api, client: Client) -> None:
    ledger = Ledger.open(client, LOCAL)
    asked: dict[str, Any] = {"event": EVENT, "ask_subjects": True, "ask_seconds": 5.0}
    nodes = Nodes()
    nodes.deaf = 1
    started(FedauditStrategy(half(), ledger, **asked), nodes)
    assert len(nodes.trained) == 5
    nodes = Nodes(lambda _: "")
    nodes.deaf = 2
    with pytest.raises(RoundRefused) as refused:
        started(FedauditStrategy(FedAvg(min_available_nodes=10), ledger, **asked), nodes)
    said = "4 of 10 answered without a name.*`say_subject`.*6 did not .* 5 seconds.*`ask_seconds`"
    assert re.search(said, str(refused.value))
    with pytest.raises(ValueError, match="state `event`"):
        terms_for(half(), name="t", population=10, delta=1e-5)


def test_amplification_is_counted_only_where_all_can_be_drawn(api: Api, client: Client) -> None:
    few = Ledger.open(client, CENTRAL)
    with pytest.raises(RoundRefused, match="10 nodes are connected"):
        started(FedauditStrategy(wrapped(half()), few, fixed_size_sample=True), Nodes())
    amplified, plain = (Ledger.open(client, {**CENTRAL, "population": 10}) for _ in range(2))
    for ledger, sampled in ((amplified, True), (plain, False)):
        nodes = Nodes()
        strategy = FedauditStrategy(wrapped(half()), ledger, fixed_size_sample=sampled)
        while 10 in nodes.trained or not nodes.trained:  # Node 10 fails: nothing is released.
            nodes.trained.clear()
            started(strategy, nodes)
        assert len(nodes.trained) == 5
    assert 0 < epsilon(api, amplified.id) < epsilon(api, plain.id)


class Divided(DifferentialPrivacyServerSideFixedClipping):
    """A wrapper whose noise is not what its fields say."""

    def aggregate_train(self, *given: Any, **named: Any) -> Any:
        return super().aggregate_train(*given, **named)


def test_noise_that_is_not_known_has_to_be_stated(client: Client) -> None:
    central, local = Ledger.open(client, CENTRAL), Ledger.open(client, LOCAL)
    for inner, ledger, why in (
        (FedAvg(), central, "there is none of Flower's wrappers"),
        (wrapped(FedMedian()), central, "FedMedian does not average"),
        (wrapped(FedAvg()), local, "the server adds the noise and sees updates without it"),
    ):
        with pytest.raises(ValueError, match=why):
            FedauditStrategy(inner, ledger)
    with pytest.raises(ValueError, match=r"Divided changes the noise.*gaussian-distance"):
        FedauditStrategy(Divided(FedAvg(), 1.0, 1.0, 10), central)
    terms = terms_for(FedAvg(), name="by distance", population=20, by_distance=True)
    by_distance = {"kind": "gaussian-distance", "noise_multiplier": 0.01}
    heuristic = Ledger.open(client, terms)
    assert heuristic.terms["mechanism"] == "gaussian-distance"
    FedauditStrategy(Divided(FedAvg(), 1.0, 1.0, 10), heuristic, event=by_distance)
    assert FedauditStrategy(FedAvg(), local, event=EVENT).weighted_by_key == "num-examples"


class Halved(DifferentialPrivacyServerSideFixedClipping):
    """Half of the noise that it says."""

    def _add_noise_to_aggregated_arrays(self, aggregated_arrays: ArrayRecord) -> ArrayRecord:
        self.noise_multiplier /= 2
        try:
            return super()._add_noise_to_aggregated_arrays(aggregated_arrays)
        finally:
            self.noise_multiplier *= 2


def audited(kind: Any) -> Any:
    """One round has an epsilon of 2 at a delta of 1e-5 under replace-one."""
    return kind(half(), 3.98, 1.0, 5)


@pytest.mark.parametrize(
    ("kind", "alarm"), [(DifferentialPrivacyServerSideFixedClipping, None), (Halved, 1)]
)
def test_the_wrapper_is_tested_beside_its_rounds(client: Client, kind: Any, alarm: Any) -> None:
    inner = audited(kind)
    ledger = Ledger.open(client, terms_for(inner, name="t", population=20, delta=1e-5))
    strategy = FedauditStrategy(inner, ledger, audit=Canaries(count=350))
    nodes: Any = Nodes()
    for _ in range(5):  # Node 10 fails, and then nothing is released.
        strategy.start(grid=nodes, initial_arrays=ArrayRecord([np.zeros(400)]), num_rounds=1)
        if ledger.next_round > 1:
            break
    assert ledger.alarm_round == alarm
    tests = client.ledger_report(ledger.id)["tests"]
    assert tests["status"] == ("tested" if alarm is None else "contradicted")
    assert (tests["canaries"], tests["releases"]) == (350, 1)


def test_clips_that_the_server_does_not_see_are_refused(client: Client) -> None:
    inner = audited(DifferentialPrivacyClientSideFixedClipping)
    ledger = Ledger.open(client, terms_for(inner, name="t", population=20, delta=1e-5))
    with pytest.raises(ValueError, match="what clients clip"):
        FedauditStrategy(inner, ledger, audit=Canaries(count=350))
