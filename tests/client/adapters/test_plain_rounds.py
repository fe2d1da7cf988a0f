"""Rounds of a loop of one's own: reserved, declared, withdrawn."""

import re
from typing import Any

import pytest

from fedaudit_client import Client
from fedaudit_client.adapters.plain import Ledger, RoundRefused
from tests.api.ledgers.trainings import GAUSSIAN, LOCAL, declared, epsilon, opened, post, reserve
from tests.api.service import Api
from tests.house import ROOT


def test_the_lines_of_the_manual_run(api: Api, client: Client) -> None:
    [snippet] = re.findall(
        r"```python\n(from fedaudit_client import Client\nfrom \S+plain .*?)```",
        (ROOT / "docs" / "elsewhere.md").read_text(),
        re.DOTALL,
    )
    trained: list[Any] = []
    names = {"terms": LOCAL, "event": GAUSSIAN, "participants": ["a", "b"], "train": trained.append}
    exec(snippet, names)
    assert trained == [("a", "b")]
    [ledger] = api.get("/v1/ledgers").json()["items"]
    assert ledger["rounds"] == 1


def test_who_has_room_trains_and_who_failed_is_charged(api: Api, client: Client) -> None:
    probe = opened(api)
    post(api, probe, declared(1, ["a"]), declared(2, ["a"]))
    ledger = Ledger.open(client, {**LOCAL, "budget": {"epsilon": epsilon(api, probe)}})
    for _ in range(2):
        with ledger.round(event=GAUSSIAN, participants=["a", "b"]) as admitted:
            admitted.answered(["b"])
    with ledger.round(event=GAUSSIAN, participants=["a", "b", "c"]) as admitted:
        assert admitted.admitted == ("c",)
        assert sorted(admitted.refused) == ["a", "b"]
        with pytest.raises(ValueError, match="a: not admitted to round 3"):
            admitted.answered(["a"])
    with pytest.raises(RoundRefused, match="a: would have spent") as refused:
        ledger.round(event=GAUSSIAN, participants=["a"]).__enter__()
    assert (refused.value.round, sorted(refused.value.refused)) == (4, ["a"])
    # A training that goes on with the same ledger comes behind what was declared.
    assert Ledger(client, ledger.id).next_round == 4


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_round_that_breaks_is_charged_unless_it_was_withdrawn(api, client, withdrawn):
    probe = opened(api)
    post(api, probe, declared(1, ["a"]))
    ledger = Ledger.open(client, {**LOCAL, "budget": {"epsilon": epsilon(api, probe)}})

    def broken_round() -> None:
        with ledger.round(event=GAUSSIAN, participants=["a"]) as admitted:
            if withdrawn:
                admitted.withdraw()
            raise KeyError("no data")

    with pytest.raises(KeyError) as broken:
        broken_round()
    [note] = broken.value.__notes__
    told = "no client is charged" if withdrawn else "declared and charged: 1 asked, 0 sent"
    assert told in note
    room = reserve(api, ledger.id, 2, ["a"])
    assert room["admitted"] == (["a"] if withdrawn else [])
