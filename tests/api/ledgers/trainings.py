"""A training elsewhere, as its trainer declares it."""

from collections.abc import Iterable
from typing import Any

from tests.api.answers import body_of
from tests.api.service import Api

LOCAL: dict[str, Any] = {
    "name": "a training in Flower",
    "mechanism": "gaussian-local",
    "delta": 1e-5,
    "accountant": "rdp",
    "adjacency": "replace-one",
    "observer": "server",
    "unit": "client",
    "population": 100,
}
CENTRAL = {
    **LOCAL,
    "mechanism": "gaussian-central",
    "adjacency": "add-or-remove-one",
    "observer": "final_model",
}
GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 8.0}
POISSON = {"kind": "poisson-gaussian", "rate": 0.1, "noise_multiplier": 1.1}
COUNTS = ("true_positives", "false_positives", "true_negatives", "false_negatives")


def opened(
    api: Api, terms: dict[str, Any] = LOCAL, *, rounds: Iterable[Any] = (), **changes: Any
) -> str:
    """The id of a new ledger, to which these rounds were posted."""
    answer = api.post("/v1/ledgers", json={**terms, **changes})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/v1/ledgers/{answer.json()['id']}"
    made: str = answer.json()["id"]
    if declared_rounds := list(rounds):
        body_of(post(api, made, *declared_rounds))
    return made


def declared(round_: int, participants: list[str], event: Any = GAUSSIAN, **more: Any) -> Any:
    """One round as it is posted."""
    return {"round": round_, "event": event, "participants": participants, **more}


def post(api: Api, ledger: str, *rounds: Any) -> Any:
    """The answer to these rounds."""
    return api.post(f"/v1/ledgers/{ledger}/rounds", json={"rounds": list(rounds)})


def reserve(api: Api, ledger: str, round_: int, names: list[str], event: Any = GAUSSIAN) -> Any:
    """What is admitted of a round, and what is not."""
    body = {"event": event, "participants": names}
    return body_of(api.post(f"/v1/ledgers/{ledger}/rounds/{round_}/reservation", json=body))


def epsilon(api: Api, ledger: str) -> float:
    """What a ledger comes to."""
    [figure] = api.get(f"/v1/ledgers/{ledger}").json()["epsilon"]
    found: float = figure["value"]
    return found


def group(*counts: int) -> dict[str, int]:
    """The counts of one group."""
    return dict(zip(COUNTS, counts, strict=True))
