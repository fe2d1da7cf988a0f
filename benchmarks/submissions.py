"""What submissions, sweeps and lists cost: `python -m benchmarks.submissions [--against REV]`.

A table of `--clients` clients with 20 rows each, and the API as a process of its own, on SQLite and
on Postgres (the server that the tests use, without fsync). Each figure is milliseconds of the API's
processor time: of a submission whose data are loaded, a cell of a sweep, a list of 20, medians over
batches; Postgres' own time is not in it. Then `--at-once` clients submit on Postgres, and what was
accepted is counted in the database. With `--against` the same of another commit, batch by batch in
turn, A B B A, so that whatever else the machine does slows both.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import psutil
from sqlalchemy import make_url, text

from benchmarks.against import checked_out
from benchmarks.machine import machine
from benchmarks.served_api import http, served_apart
from benchmarks.servers import start_postgres
from models.database import Database
from models.scopes import SCOPES

_HERE = Path(__file__).parent.parent
_RESULTS = Path(__file__).parent / "results" / "submissions.json"
_ROWS = 20
_REST_SECONDS = 0.3
"""What is done after the last answer, such as telling the queue, is counted too."""

_LEAKAGE = {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 0.5, "clip": 1.0}
_EPSILON = {
    "mechanism": "gaussian-central",
    "noise_multiplier": 8,
    "clip": 1.0,
    "delta": 1e-5,
    "noise": "release",
}

_COHORTS = {
    "laplace-l2": {"clients": 20},
    "gaussian-central": {"sampling": "poisson", "rate": 0.05},
}


def spec(privacy: dict[str, Any], *, seed: int = 1) -> dict[str, Any]:
    """An experiment on the table."""
    return {
        "name": "benchmark",
        "seed": seed,
        "tags": ["benchmark"],
        "federation": {
            "source": "table",
            "path": "people.csv",
            "client_key": "client",
            "target": "income",
            "features": ["age", "hours"],
            "validation_fraction": 0.3,
        },
        "model": {"kind": "linear"},
        "training": {
            "loss": "rmse",
            "hypotheses": 2,
            "rounds": 100,
            "cohort": _COHORTS[privacy["mechanism"]],
            "clustering": {"method": "reported"},
        },
        "privacy": privacy,
        "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 30}},
        "gates": [{"figure": "equalized_odds_difference", "op": "le", "value": 0.2}],
    }


@dataclass
class Service:
    """One API on one database, and what was measured of it."""

    client: httpx.Client
    process: psutil.Process
    database_url: str
    key: str
    figures: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, name: str, work: Callable[["Service"], int]) -> None:
        """Milliseconds of processor time for each of the things that `work` counts."""
        before = self._processor()
        things = work(self)
        time.sleep(_REST_SECONDS)
        self.figures.setdefault(name, []).append(1000 * (self._processor() - before) / things)

    def _processor(self) -> float:
        return float(sum(self.process.cpu_times()[:2]))


def submissions(service: Service, *, privacy: dict[str, Any], times: int) -> int:
    """One after the other."""
    for _ in range(times):
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = service.client.post("/v1/experiments", json=spec(privacy), headers=headers)
        answer.raise_for_status()
    return times


def sweep(service: Service, *, privacy: dict[str, Any], cells: int) -> int:
    """One sweep of so many seeds."""
    asked = {
        "name": "benchmark",
        "base": spec(privacy),
        "grid": {"seed": {"start": 1, "stop": cells, "count": cells}},
    }
    service.client.post("/v1/sweeps", json=asked, timeout=600).raise_for_status()
    return cells


def lists(service: Service, *, times: int) -> int:
    """Pages of 20 experiments."""
    for _ in range(times):
        page = service.client.get("/v1/experiments?limit=20").raise_for_status().json()
        assert len(page["items"]) == 20
    return times


def set_total(service: Service) -> None:
    """A total on the epsilon of the release book, which all that follow have room in."""
    found = service.client.get("/v1/federations").raise_for_status().json()["items"][0]["id"]
    total = {
        "book": "release",
        "figure": "epsilon",
        "total": 1e6,
        "delta": 1e-5,
        "adjacency": "add-or-remove-one",
        "observer": "final_model",
    }
    service.client.put(f"/v1/federations/{found}/budget", json=total).raise_for_status()


def flood(service: Service, *, clients: int, each: int) -> dict[str, Any]:
    """So many clients submit at once, each one after the other."""
    before = _stored(service)
    url, body = str(service.client.base_url), json.dumps(spec(_LEAKAGE))
    # Without -P: benchmarks are no part of what is installed, and are found by the folder.
    command = [sys.executable, "-m", "benchmarks.submitting_clients", url, service.key]
    asked = [*command, str(clients), str(each)]
    cpu = service.process.cpu_times()
    answer = subprocess.run(
        asked, input=body, check=True, stdout=subprocess.PIPE, text=True, cwd=_HERE
    )
    found: dict[str, Any] = json.loads(answer.stdout)
    spent = sum(service.process.cpu_times()[:2]) - sum(cpu[:2])
    stored = _stored(service) - before
    return found | {"stored": stored, "processor_ms": round(1000 * spent / clients / each, 2)}


def _stored(service: Service) -> int:
    database = Database(service.database_url)
    with database.read() as session:
        count = session.execute(text("SELECT count(*) FROM experiments")).scalar_one()
    database.dispose()
    return int(count)


def in_turn(
    services: Sequence[Service], name: str, work: Callable[[Service], int], *, batches: int
) -> None:
    """A B B A: every batch by each of the services."""
    for batch in range(batches):
        for service in services if batch % 2 else reversed(services):
            service.measure(name, work)


def measure(services: Sequence[Service], asked: argparse.Namespace) -> None:
    """Every figure of the services, in turn."""
    turn = partial(in_turn, services, batches=asked.batches)
    for one in services:
        submissions(one, privacy=_LEAKAGE, times=25)
        submissions(one, privacy=_EPSILON, times=1)
        lists(one, times=10)
    for name, privacy in (("leakage", _LEAKAGE), ("epsilon", _EPSILON)):
        turn(f"submission, {name}", partial(submissions, privacy=privacy, times=asked.times))
        turn(f"cell of a sweep, {name}", partial(sweep, privacy=privacy, cells=asked.cells))
    turn("list of 20", partial(lists, times=asked.times))
    for one in services:
        set_total(one)
    total = partial(submissions, privacy=_EPSILON, times=asked.times)
    turn("submission, epsilon with a total", total)
    turn(
        "cell of a sweep, epsilon with a total", partial(sweep, privacy=_EPSILON, cells=asked.cells)
    )


@contextmanager
def serving(trees: Sequence[Path], folder: Path, postgres: str | None) -> Iterator[list[Service]]:
    """A service of each tree, each on a database of its own."""
    with ExitStack() as stack:
        services = []
        for place, tree in enumerate(trees):
            url = f"sqlite:///{folder}/{place}.db"
            if postgres is not None:
                url = _fresh_database(postgres, f"benchmark_{place}")
            served = served_apart(url, SCOPES, sources=folder, tree=tree)
            address, key, process = stack.enter_context(served)
            client = stack.enter_context(http(address, key))
            services.append(Service(client, psutil.Process(process), url, key))
        yield services


def _fresh_database(server: str, name: str) -> str:
    database = Database(server)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    database.dispose()
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def write_table(path: Path, clients: int) -> None:
    """People of so many clients, whose income follows from age and hours."""
    draws = np.random.default_rng(1)
    rows = clients * _ROWS
    age, hours = draws.uniform(20, 60, rows).round(1), draws.uniform(10, 50, rows).round(1)
    income = (0.3 * age + 0.5 * hours + draws.normal(size=rows)).round(2)
    client, group = np.repeat(np.arange(clients), _ROWS), draws.choice(["a", "b"], rows)
    lines = zip(client, group, age, hours, income, strict=True)
    text_ = "\n".join(",".join(map(str, line)) for line in lines)
    path.write_text(f"client,group,age,hours,income\n{text_}\n")


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="REV")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--times", type=int, default=50, help="requests of a batch")
    parser.add_argument("--cells", type=int, default=50, help="cells of a sweep")
    parser.add_argument("--at-once", type=int, default=64, help="clients; 0 leaves them out")
    parser.add_argument("--each", type=int, default=30, help="submissions of each of them")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    asked = parser.parse_args()
    document: dict[str, Any] = {"benchmark": "submissions", "machine": machine()}
    document |= {"against": asked.against, "measured": {}}
    with ExitStack() as stack:
        trees = [_HERE]
        if asked.against is not None:
            trees.append(stack.enter_context(checked_out(asked.against)))
        for kind in asked.databases:
            document["measured"][kind] = _measured(kind, trees, asked)
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


def _measured(kind: str, trees: Sequence[Path], asked: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_table(folder / "people.csv", asked.clients)
        server = None
        if kind == "postgresql":
            started = start_postgres()
            stack.callback(started.stop)
            server = started.url
        services = stack.enter_context(serving(trees, folder, server))
        measure(services, asked)
        found: dict[str, Any] = {}
        for name, here in services[0].figures.items():
            found[name] = {"ms": [round(one, 2) for one in here], "median_ms": median(here)}
            said = f"{kind}: {name}: {median(here):.2f} ms"
            if len(services) > 1:
                before = services[1].figures[name]
                ratio = median(one / other for one, other in zip(here, before, strict=True))
                found[name] |= {"before_ms": [round(one, 2) for one in before], "ratio": ratio}
                said += f", before {median(before):.2f}, ratio {ratio:.2f}"
            print(said, flush=True)
        if server is not None and asked.at_once:
            floods = [flood(one, clients=asked.at_once, each=asked.each) for one in services]
            found["at once"] = dict(zip(("now", "before"), floods, strict=False))
            print(f"{kind}: {asked.at_once} at once: {found['at once']}", flush=True)
        return found


if __name__ == "__main__":
    main()
