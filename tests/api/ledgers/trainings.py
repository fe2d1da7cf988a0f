"""A training elsewhere, as its trainer declares it."""

import io
import zipfile
from collections.abc import Iterable
from typing import Any

from tests.api.service import KEY, Api, body_of
from workers.proof.declared_signing import DeclaredLedgerSigner

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
    return api.post(f"/v1/ledgers/{ledger}/rounds", json={"rounds": list(rounds)})


def reserve(api: Api, ledger: str, round_: int, names: list[str], event: Any = GAUSSIAN) -> Any:
    """What is admitted of a round, and what is not."""
    body = {"event": event, "participants": names}
    return body_of(api.post(f"/v1/ledgers/{ledger}/rounds/{round_}/reservation", json=body))


def read(api: Api, ledger: str, rest: str = "") -> Any:
    """What the service says of a ledger, or at a path below it."""
    return body_of(api.get(f"/v1/ledgers/{ledger}{rest}"))


def report(api: Api, ledger: str) -> Any:
    return read(api, ledger, "/report")


def verified(api: Api, ledger: str) -> Any:
    """What is found of the report."""
    return read(api, ledger, "/report/verification")


def bundle(api: Api, ledger: str) -> zipfile.ZipFile:
    """What is given away of a ledger."""
    return zipfile.ZipFile(io.BytesIO(api.get(f"/v1/ledgers/{ledger}/bundle").content))


def judged(api: Api, ledger: str, *gates: Any) -> list[Any]:
    """What gates find of a ledger."""
    body = {"ledger_id": ledger, "gates": gates}
    found: list[Any] = body_of(api.post("/v1/gates/evaluations", json=body))["gates"]
    return found


def sign(api: Api, key: Any = KEY, **options: Any) -> int:
    """How many ledgers a process signs that has just begun, and remembers nothing."""
    return DeclaredLedgerSigner(api.database, key, seconds=0.0, **options).sign_waiting(10)


def epsilon(api: Api, ledger: str) -> float:
    """What a ledger comes to."""
    [figure] = read(api, ledger)["epsilon"]
    found: float = figure["value"]
    return found


def costing(
    api: Api, terms: dict[str, Any] = LOCAL, *, rounds: int, event: Any = GAUSSIAN
) -> float:
    """What so many rounds of one client come to."""
    probe = opened(api, terms, rounds=[declared(one + 1, ["a"], event) for one in range(rounds)])
    return epsilon(api, probe)


def group(*counts: int) -> dict[str, int]:
    """The counts of one group."""
    return dict(zip(COUNTS, counts, strict=True))


SEX = {"sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}}
"""75 and 95 rows."""
