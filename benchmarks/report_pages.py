"""How long the API takes for a report: `python -m benchmarks.report_pages`.

Fills SQLite and a Postgres (the server that the tests use) with one finished run of `--rounds`
rounds and `--clients` clients: ledger, rounds, fairness of an attribute with 51 groups, and the
report that is assembled from them. Then a real server answers for it over HTTP, `--turns` times in
turn as JSON and as a page; the first answer, which loads the templates, is told apart.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

import migrations
from benchmarks.filled_run import GROUPS, fill
from benchmarks.served_api import http, make_key, served
from benchmarks.servers import start_postgres
from infrastructure.settings import Settings
from models.database import Database
from models.scopes import SCOPES

_RESULTS = Path(__file__).parent / "results" / "report_pages.json"


def measure(client: httpx.Client, place: str, turns: int) -> dict[str, Any]:
    """Milliseconds and bytes of each form.

    The processor time is the server's and the client's together: it tells what a machine that is
    busy with other things would take if it were not. Postgres' own is not in it.
    """
    walls: dict[str, list[float]] = {"json": [], "html": []}
    worked: dict[str, list[float]] = {"json": [], "html": []}
    sizes: dict[str, int] = {}
    for _ in range(turns + 1):
        for form, seconds in walls.items():
            began, begun = time.perf_counter(), time.process_time()
            answer = client.get(f"{place}.{form}")
            worked[form].append(1000 * (time.process_time() - begun))
            seconds.append(1000 * (time.perf_counter() - began))
            answer.raise_for_status()
            sizes[form] = len(answer.content)
    return {
        form: {
            "first_ms": round(walls[form][0], 1),
            "median_ms": round(median(walls[form][1:]), 1),
            "slowest_ms": round(max(walls[form][1:]), 1),
            "first_processor_ms": round(worked[form][0], 1),
            "median_processor_ms": round(median(worked[form][1:]), 1),
            "slowest_processor_ms": round(max(worked[form][1:]), 1),
            "bytes": sizes[form],
        }
        for form in walls
    }


@contextmanager
def databases() -> Iterator[Mapping[str, str]]:
    """A migrated SQLite file and a migrated Postgres."""
    server = start_postgres()
    try:
        with tempfile.TemporaryDirectory() as folder:
            urls = {"sqlite": f"sqlite:///{folder}/fedaudit.db", "postgresql": server.url}
            for url in urls.values():
                migrations.upgrade(url)
            yield urls
    finally:
        server.stop()


def main() -> None:
    """Prints a row a database and form, and writes all to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    found = {}
    names = ["first", "median", "slowest", "first, processor", "median, processor"]
    names += ["slowest, processor", "bytes"]
    print(f"Milliseconds\n| database | form | {' | '.join(names)} |")
    print("| --- " * (len(names) + 2) + "|")
    with databases() as urls, tempfile.TemporaryDirectory() as folder:
        for name, url in urls.items():
            home = Path(folder) / name
            home.mkdir()
            settings = Settings(
                data_dir=home / "data", database_url=url, broker_url=f"filesystem://{home}/queue"
            )
            database = Database(url)
            project_id, key = make_key(database, "benchmarks", SCOPES, name="benchmarks")
            with served(settings) as address, http(address, key) as client:
                id_ = fill(
                    database, client, project_id, rounds=options.rounds, clients=options.clients
                )
                found[name] = measure(client, f"/v1/experiments/{id_}/report", options.turns)
            database.dispose()
            for form, row in found[name].items():
                figures = " | ".join(f"{value:,}" for value in row.values())
                print(f"| {name} | {form} | {figures} |", flush=True)
    # Only now: it imports torch, which no API process does, and which slows garbage collection.
    from benchmarks.machine import machine

    sizes = {"rounds": options.rounds, "clients": options.clients, "groups": len(GROUPS)}
    document = {"machine": machine(), **sizes, "answers": found}
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
