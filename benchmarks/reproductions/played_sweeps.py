"""The papers' tables and figures as sweeps: a service plays them, and their figures are kept.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.played_sweeps --data ../shared/data \
    --out reproduced examples/papers/rpdp-heart.yaml

A file whose data are not below `--data` is left out with the service's own words. The service keeps
its data in OUT, so a reproduction that was interrupted goes on where it was. What is kept of each
sweep is in benchmarks/results/reproduced: `side_by_side` and `drawn_figures` show it.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.machine import machine
from benchmarks.reproductions.kept_sweeps import KEPT, kept_cells, kept_rows, read_kept, write_kept
from fedaudit.cli.installation import BROKER_URL, DATABASE_URL, python_module
from fedaudit.spec.parse import decode_text
from fedaudit_client.client import Client
from fedaudit_client.errors import ValidationError
from fedaudit_client.experiments import ENDED
from fedaudit_client.wire import Json

_STOP_SECONDS = 30


@dataclass(frozen=True)
class Service:
    """A service that runs for as long as it is asked."""

    client: Client
    process: psutil.Process
    folder: Path

    def processor_seconds(self) -> float:
        """What it and its workers have used, those that have ended included."""
        total = 0.0
        for one in (self.process, *self.process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(one.cpu_times()[:4])
        return total


@contextmanager
def started(folder: Path, sources_dir: Path) -> Iterator[Service]:
    """`fedaudit up` as a process of its own.

    Raises RuntimeError where it does not start.
    """
    own = (DATABASE_URL, BROKER_URL)  # it keeps to its folder, whatever is set
    environment = {name: value for name, value in os.environ.items() if name not in own}
    folders = ("--data-dir", str(folder / "service"), "--sources-dir", str(sources_dir))
    command = python_module("fedaudit.cli.main", "up", "--json", *folders)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError("the service did not start")
            facts = json.loads(line)
            with Client(facts["url"], facts["api_key"]) as client:
                yield Service(client, psutil.Process(process.pid), folder)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def play(service: Service, path: Path, results: Path) -> bool:
    """Plays one sweep to its end and keeps its figures; whether no cell failed.

    One that has been played is not played again; its cells that failed are tried again.
    """
    client, before = service.client, service.processor_seconds()
    text = path.read_text(encoding="utf-8")
    try:
        # The same text is the same sweep: asked for again, it is answered with the first.
        key = f"papers-{hashlib.sha256(text.encode()).hexdigest()}"
        sweep: Json = client.submit_sweep(decode_text(text), idempotency_key=key)
    except ValidationError as error:
        _say(f"{path.name} is left out: {error}")
        return True
    # The answer is the first one, word for word: the sweep may have gone on since.
    sweep = client.sweep(sweep["id"])
    kept = read_kept(results, path.stem)
    if _all_succeeded(sweep) and kept is not None and kept["sweep"] == sweep["id"]:
        _say(f"{path.name} has been played")
        return True
    played_on, in_one_go = _played_on(service.folder / f"{sweep['id']}.json")
    if sweep["status"] in ENDED and not _all_succeeded(sweep):
        client.ask("POST", f"sweeps/{sweep['id']}/retry")
    ended = _waited_for(client, sweep["id"], path.name)
    spent = round(service.processor_seconds() - before) if in_one_go else None
    kept = {
        "file": path.name,
        "sweep": ended["id"],
        "machine": played_on,
        "processor_seconds": spent,
        "statuses": {name: count for name, count in ended["progress"]["statuses"].items() if count},
        "rounds": ended["progress"]["rounds"],
        "cells": kept_cells(client, ended),
        "rows": kept_rows(client.sweep_table(ended["id"])),
    }
    write_kept(results, path.stem, kept)
    _say(f"{path.name}: {kept['statuses']}, {spent} s of a processor")
    return _all_succeeded(ended)


def _played_on(path: Path) -> tuple[dict[str, str | int], bool]:
    """The machine and the commit that a sweep began with, and whether that is only now."""
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8")), False
    facts = machine()
    path.write_text(f"{json.dumps(facts, indent=1)}\n", encoding="utf-8")
    return facts, True


def _waited_for(client: Client, sweep_id: str, name: str) -> Json:
    """The sweep, once it has ended; says how far it is at every tenth of its cells."""
    said, state = -1, client.sweep(sweep_id)
    for state in client.watch_sweep(sweep_id):
        progress = state["progress"]
        tenth = 10 * progress["ended"] // progress["cells"]
        if tenth > said:
            said = tenth
            _say(f"{name}: {progress['ended']} of {progress['cells']} cells")
    return state


def _all_succeeded(sweep: Json) -> bool:
    progress = sweep["progress"]
    return bool(progress["statuses"].get("succeeded", 0) == progress["cells"])


def main() -> int:
    """Plays the files one after the other; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="SWEEP")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True, help="folder of the service's own data")
    parser.add_argument("--results", type=Path, default=KEPT, help="folder for the figures")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the service ends as well
    chosen.out.mkdir(parents=True, exist_ok=True)
    # Without any data the synthetic tasks are played all the same.
    sources = chosen.data if chosen.data.is_dir() else chosen.out
    with started(chosen.out, sources) as service:
        ended_well = [play(service, path, chosen.results) for path in chosen.files]
    return 0 if all(ended_well) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
