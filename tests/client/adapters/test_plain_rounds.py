"""Rounds of a loop of one's own: reserved, declared, withdrawn."""

import itertools
import re
from typing import Any

import pytest

from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit_client import Client
from fedaudit_client.adapters.plain import Ledger, RoundRefused, terms_for
from fedaudit_client.errors import ValidationError
from tests.api.ledgers.trainings import GAUSSIAN, LOCAL, POISSON, declared, epsilon, opened, reserve
from tests.api.service import Api
from tests.client.adapters.simulations import manual_snippet

FIXED = {"kind": "fixed-gaussian", "clients": 2, "population": 4, "noise_multiplier": 4.0}
LAPLACE = {"kind": "laplace-l2", "n": 3, "noise_multiplier": 3.0, "radius": 1.0, "clip": 1.0}


def test_the_lines_of_the_manual_run(api: Api, client: Client) -> None:
    trained: list[Any] = []
    exec(manual_snippet("plain"), {"participants": ["a", "b"], "train": trained.append})
    assert trained == [("a", "b")]
    [ledger] = api.get("/v1/ledgers").json()["items"]
    assert (ledger["rounds"], ledger["mechanism"]) == (1, "gaussian-local")


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("event", [GAUSSIAN, POISSON, FIXED, LAPLACE, {"kind": "none"}])
def test_terms_for_an_event_are_taken_and_so_are_its_rounds(api, client, event, trusted):
    asked = {"name": "t", "population": 4, "delta": 1e-5, "budget": 900.0}
    if event in (POISSON, FIXED) and not trusted:
        with pytest.raises(ValueError, match="the server sees which clients send"):
            terms_for(event, **asked)
        return
    ledger = Ledger.open(client, terms_for(event, **asked, server_adds_noise=trusted))
    with ledger.round(event=event, participants=["a", "b"]):
        pass
    assert ledger.terms["observer"] == ("final_model" if trusted else "server")
    with pytest.raises(ValueError, match="give `delta`"):
        terms_for(GAUSSIAN, name="t", population=4)


def test_one_text_names_no_participants(api: Api, client: Client) -> None:
    ledger = Ledger(client, opened(api))
    with (
        pytest.raises(TypeError, match="list of names"),
        ledger.round(event=GAUSSIAN, participants="abc"),
    ):
        pass
    assert ledger.current()["rounds"] == 0


def test_terms_that_are_refused_are_answered_with_some_that_are_taken(client):
    """Every wrong pairing of what depends on each other, corrected as the answer says."""
    choices = {
        "mechanism": ["gaussian", "gaussian-central", "gaussian-local", "laplace-l2", "none"],
        "observer": ["final_model", "server"],
        "unit": ["client", "record"],
        "adjacency": [None, "add-or-remove-one", "replace-one"],
    }
    refused = 0
    for chosen in itertools.product(*choices.values()):
        terms = {"name": "t", "population": 3, **dict(zip(choices, chosen, strict=True))}
        try:
            LedgerTerms.model_validate(terms)
        except ValueError as error:
            refused += 1
            [words] = re.findall(r"These go together: (.*?) \[", str(error))
            stated = dict(one.split(": ") for one in words.split(", "))
            taken = LedgerTerms.model_validate(terms | stated | {"delta": float(stated["delta"])})
            assert taken.unit == terms["unit"]
    assert refused > 30
    with pytest.raises(ValidationError, match="These go together: mechanism: gaussian, observer"):
        Ledger.open(client, {**LOCAL, "unit": "record"})


def test_who_has_room_trains_and_who_failed_is_charged(api: Api, client: Client) -> None:
    probe = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
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
    probe = opened(api, rounds=[declared(1, ["a"])])
    ledger = Ledger.open(client, {**LOCAL, "budget": {"epsilon": epsilon(api, probe)}})

    def broken_round() -> None:
        with ledger.round(event=GAUSSIAN, participants=["a"]) as admitted:
            if withdrawn:
                admitted.withdraw()
            raise KeyError("no data")

    with pytest.raises(KeyError) as broken:
        broken_round()
    [note] = broken.value.__notes__
    remark = "no client is charged" if withdrawn else "declared and charged: 1 asked, 0 sent"
    assert remark in note
    assert reserve(api, ledger.id, 2, ["a"])["admitted"] == (["a"] if withdrawn else [])
