"""Reservations of 1,000 clients by themselves and beside rounds: `python -m
benchmarks.reserved_rounds [--against REV] [--rounds-a-second N]`.

The API as a process of its own, on Postgres (the server that the tests use, without fsync). In
blocks of a few seconds: reservations alone, rounds alone, and both, the rounds without a pause or
so many a second: 17 are 1,000 in a minute. Printed are milliseconds of the API's processor time for
each, medians of the blocks, and percentiles of how long the answers took. With `--against` the same
of another commit, block by block in turn, so that whatever else the machine does slows both.
"""

import argparse
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import psutil
import psycopg

from benchmarks.against import checked_out
from benchmarks.served_api import http, served_apart
from benchmarks.servers import Server, start_postgres

_SCOPES = ("experiments:read", "experiments:write", "reports:read", "ledger:read")
_HERE = Path(__file__).parent.parent
_NAMES = [f"client-{place:04d}" for place in range(1000)]
_EVENT = {"kind": "gaussian", "noise_multiplier": 8.0}
_TERMS = {
    "name": "benchmark",
    "mechanism": "gaussian",
    "delta": 1e-5,
    "accountant": "rdp",
    "adjacency": "replace-one",
    "observer": "server",
    "unit": "client",
    "population": len(_NAMES),
    "budget": {"epsilon": 1000.0},
}
_LATER = 1_000_000
"""The round that is reserved over and over."""
_ALONE = 60
_PAUSE_SECONDS = 0.02
"""Between two reservations beside rounds."""


@dataclass
class _Measured:
    """One version that is served, and what was found of it."""

    label: str
    api: psutil.Process
    client: httpx.Client
    ledger: str
    last: int = 0
    processor: dict[str, list[float]] = field(default_factory=dict)
    """By what was asked, milliseconds of the API for each request of a block."""
    waits: dict[str, list[float]] = field(default_factory=dict)
    """By what was asked, milliseconds of each answer."""

    def reserve(self) -> None:
        """Ask for a round that is never declared."""
        path = f"/v1/ledgers/{self.ledger}/rounds/{_LATER}/reservation"
        body = {"event": _EVENT, "participants": _NAMES}
        self.client.post(path, json=body).raise_for_status()

    def declare(self) -> None:
        """Declare the next round."""
        self.last += 1
        body = {"rounds": [{"round": self.last, "event": _EVENT, "participants": _NAMES}]}
        self.client.post(f"/v1/ledgers/{self.ledger}/rounds", json=body).raise_for_status()

    def block(self, seconds: float, *, pace: float) -> None:
        """Each kind of request alone, then both; `pace`: seconds from one round to the next."""
        for what, ask in (("reservation", self.reserve), ("round", self.declare)):
            before = self._busy()
            for _ in range(_ALONE):
                self._timed(f"{what} alone", ask)
            self.processor.setdefault(what, []).append((self._busy() - before) / _ALONE)
        stop = threading.Event()

        def declare_on() -> None:
            due = monotonic()
            while not stop.is_set():
                self._timed("round beside reservations", self.declare)
                due = max(due + pace, monotonic())
                stop.wait(due - monotonic())

        declaring = threading.Thread(target=declare_on)
        declaring.start()
        end = monotonic() + seconds
        while monotonic() < end:
            self._timed("reservation beside rounds", self.reserve)
            sleep(_PAUSE_SECONDS)
        stop.set()
        declaring.join()

    def _busy(self) -> float:
        return 1000 * float(sum(self.api.cpu_times()[:2]))

    def _timed(self, what: str, ask: Callable[[], None]) -> None:
        began = monotonic()
        ask()
        self.waits.setdefault(what, []).append(1000 * (monotonic() - began))


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reserved_rounds")
    parser.add_argument("--against", metavar="REV")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0, help="of both in a block")
    parser.add_argument("--rounds-a-second", type=float, default=math.inf)
    options = parser.parse_args()
    with ExitStack() as stack:
        server = start_postgres()
        stack.callback(server.stop)
        served = [stack.enter_context(_served(server, _HERE, "this tree"))]
        if options.against:
            tree = stack.enter_context(checked_out(options.against))
            served.append(stack.enter_context(_served(server, tree, options.against)))
        for turn in range(options.blocks):
            for one in served if turn % 2 else served[::-1]:
                one.block(options.seconds, pace=1 / options.rounds_a_second)
        _print(served)
    return 0


@contextmanager
def _served(server: Server, tree: Path, label: str) -> Iterator[_Measured]:
    """A version on a database of its own, with a ledger whose curve is computed."""
    name = f"served_{os.urandom(4).hex()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{server.url.rpartition('/')[0]}/{name}"
    with (
        served_apart(url, _SCOPES, tree=tree) as (address, key, process),
        http(address, key) as client,
    ):
        made: dict[str, Any] = client.post("/v1/ledgers", json=_TERMS).raise_for_status().json()
        found = _Measured(label, psutil.Process(process), client, made["id"])
        for _ in range(20):
            found.declare()
            found.reserve()
        yield found


def _print(served: list[_Measured]) -> None:
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for one in served:
        busy = ", ".join(
            f"a {what} {median(found):.1f} ms" for what, found in one.processor.items()
        )
        print(f"{one.label}: processor time of the API: {busy}")
        for what, found in one.waits.items():
            levels = ", ".join(
                f"p{level} {np.percentile(found, level):.1f}" for level in (50, 90, 99)
            )
            print(f"  {what}: {levels} ms ({len(found)})")


if __name__ == "__main__":
    sys.exit(main())
