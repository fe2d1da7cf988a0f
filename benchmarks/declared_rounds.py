"""Rounds of a training elsewhere, declared to a real server on Postgres, while others reserve.

`python -m benchmarks.declared_rounds` starts Postgres and the API as processes, declares 1,000
rounds with 1,000 clients each, one request a round, and asks all the while for reservations of the
same ledger. It prints how long the rounds took, and the percentiles of the reservations; then how
long reservations take by themselves, and how much of the API's processor time, which other
processes on the machine change least. The ledger is then verified and signed: every digest and link
is computed anew.
"""

import argparse
import multiprocessing
import os
import sys
from time import monotonic, sleep
from typing import Any

import numpy as np
import psutil

from benchmarks.served_api import http, served_apart
from benchmarks.servers import start_postgres
from fedaudit.ledger.ed25519 import SigningKey
from models.database import Database
from workers.proof.declared_signing import DeclaredLedgerSigner

_SCOPES = ("experiments:read", "experiments:write", "reports:read", "ledger:read")
_ALONE = 300
_PAUSE_SECONDS = 0.02
"""Between two reservations: fifty a second."""


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.declared_rounds")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--kind", choices=("gaussian", "poisson-gaussian"), default="gaussian")
    options = parser.parse_args()
    server = start_postgres()
    try:
        with served_apart(server.url, _SCOPES) as (url, key, process):
            measure(url, key, process, options)
            sign(server.url)
    finally:
        server.stop()
    return 0


def measure(url: str, key: str, process: int, options: Any) -> None:
    """Declare and reserve side by side."""
    terms = {
        "name": "benchmark",
        "mechanism": "gaussian" if options.kind == "gaussian" else "gaussian-central",
        "delta": 1e-5,
        "accountant": "rdp",
        "adjacency": "replace-one" if options.kind == "gaussian" else "add-or-remove-one",
        "observer": "server" if options.kind == "gaussian" else "final_model",
        "unit": "client",
        "population": options.clients,
        "budget": {"epsilon": 1000.0},
    }
    event: dict[str, Any] = {"kind": options.kind, "noise_multiplier": 8.0}
    if options.kind == "poisson-gaussian":
        event["rate"] = 0.9
    with http(url, key) as calls:
        ledger = calls.post("/v1/ledgers", json=terms).raise_for_status().json()["id"]
    names = [f"client-{place:04d}" for place in range(options.clients)]
    stop = multiprocessing.Event()
    waits: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    asked = (url, key, ledger, event, names, options.rounds, stop, waits)
    reserving = multiprocessing.Process(target=_reserve, args=asked)
    reserving.start()
    api = psutil.Process(process)
    before, began = sum(api.cpu_times()[:2]), monotonic()
    load = os.getloadavg()[0]
    with http(url, key) as calls:
        for round_ in range(1, options.rounds + 1):
            body = {"rounds": [{"round": round_, "event": event, "participants": names}]}
            calls.post(f"/v1/ledgers/{ledger}/rounds", json=body).raise_for_status()
    seconds, busy = monotonic() - began, sum(api.cpu_times()[:2]) - before
    stop.set()
    found = np.array(waits.get()) * 1000
    reserving.join()
    _ask_alone(url, key, api, ledger, event, names, options.rounds)
    with http(url, key) as calls:
        shown = calls.get(f"/v1/ledgers/{ledger}").raise_for_status().json()
        began = monotonic()
        verified = calls.get(f"/v1/ledgers/{ledger}/report/verification", timeout=300)
        verification = verified.raise_for_status().json()
    print(f"{shown['rounds']} rounds of {options.clients} clients in {seconds:.1f} s")
    print(f"{busy:.1f} s of processor time of the API, reservations included")
    print(f"load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} now")
    percentiles = ", ".join(
        f"p{level:g} {np.percentile(found, level):.1f} ms" for level in (50, 90, 99, 100)
    )
    print(f"{len(found)} reservations of {options.clients} clients meanwhile: {percentiles}")
    valid, entries = verification["valid"], verification["entries"]
    print(f"{entries} entries verified in {monotonic() - began:.1f} s: valid {valid}")
    print(f"epsilon {shown['epsilon'][0]['value']}")


def _ask_alone(  # noqa: PLR0917 the same as `_reserve`
    url: str,
    key: str,
    api: psutil.Process,
    ledger: str,
    event: dict[str, Any],
    names: list[str],
    rounds: int,
) -> None:
    """Reservations one after the other, and nothing beside them."""
    path = f"/v1/ledgers/{ledger}/rounds/{rounds + 1}/reservation"
    body, found = {"event": event, "participants": names}, []
    with http(url, key) as calls:
        before = sum(api.cpu_times()[:2])
        for _ in range(_ALONE):
            began = monotonic()
            calls.post(path, json=body).raise_for_status()
            found.append(1000 * (monotonic() - began))
        busy = 1000 * (sum(api.cpu_times()[:2]) - before) / _ALONE
    percentiles = ", ".join(
        f"p{level} {np.percentile(found, level):.1f} ms" for level in (50, 90, 99)
    )
    print(f"{_ALONE} reservations alone: {busy:.1f} ms of processor time each, {percentiles}")


def sign(database_url: str) -> None:
    """Sign the ledger as the sweeper does that never signed it: every entry is charged anew."""
    database = Database(database_url)
    began = monotonic()
    signed = DeclaredLedgerSigner(database, SigningKey.generate(), seconds=0.0).sign_waiting(1)
    print(f"{signed} ledger signed in {monotonic() - began:.1f} s")
    database.dispose()


def _reserve(  # noqa: PLR0917 a process takes its arguments by position
    url: str,
    key: str,
    ledger: str,
    event: dict[str, Any],
    names: list[str],
    rounds: int,
    stop: Any,
    waits: Any,
) -> None:
    """Ask for the round after the last, over and over, and send how long each answer took."""
    found = []
    path = f"/v1/ledgers/{ledger}/rounds/{rounds + 1}/reservation"
    body = {"event": event, "participants": names}
    with http(url, key) as calls:
        while not stop.is_set():
            began = monotonic()
            answer = calls.post(path, json=body).raise_for_status().json()
            found.append(monotonic() - began)
            assert len(answer["admitted"]) == len(names)
            sleep(_PAUSE_SECONDS)
    waits.put(found)


if __name__ == "__main__":
    sys.exit(main())
