"""What a long run's history costs to read: `python -m benchmarks.long_history --rounds 100000`.

Fills a database with one finished run of 100 clients a round (valid digests, links and report),
then asks an API process of its own for pages of the ledger, one client's history, the report, its
verification and files, and verifies its bundle offline. Prints time, processor time of the process
that answers (Postgres' own is not in it) and the most memory that it took.
The database is a Postgres of its own, the server that TEST_DATABASE_URL names, or an SQLite file.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import text

from benchmarks.filled_run import COHORT, fill
from benchmarks.served_api import http, served_apart
from benchmarks.servers import start_postgres
from models.database import Database
from models.repositories import LedgerRepository, ProjectRepository, SubjectSetRepository
from models.scopes import SCOPES
from models.tables.experiments import Experiment
from workers.history_index import HistoryIndexer

_PAGE = 1000
_PATIENCE_SECONDS = 1800.0
_VERIFY = "from fedaudit.cli.main import main; main()"


@dataclass(frozen=True)
class _Figure:
    """What one thing took."""

    what: str
    seconds: float
    """Median of the turns, from request to the last byte."""
    processor_seconds: float
    """Of the process that answers, a turn."""
    memory: int
    """Bytes: the most in any turn, beyond what was held before."""
    answered: str


class _Bench:
    """Asks the API for one run's history, and notes what each answer took."""

    def __init__(self, client: httpx.Client, process: psutil.Process, experiment_id: str) -> None:
        self._client, self._process = client, process
        self.place = f"/v1/experiments/{experiment_id}"
        self.figures: list[_Figure] = []

    def measure(self, what: str, turns: int, ask: Callable[[], str]) -> None:
        """Print and keep the figure of what `ask` does; it says what was answered."""
        held = self._process.memory_info().rss
        # Linux starts its high-water mark of the process's memory anew.
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        worked, walls, answered = self._worked(), [], ""
        for _ in range(turns):
            began = time.perf_counter()
            answered = ask()
            walls.append(time.perf_counter() - began)
        figure = _Figure(
            what,
            statistics.median(walls),
            (self._worked() - worked) / turns,
            max(0, _most_held(self._process.pid) - held),
            answered,
        )
        self.figures.append(figure)
        print(_line(figure), flush=True)

    def json(self, path: str, **parameters: Any) -> Any:
        """The answer of a request."""
        answer = self._client.get(f"{self.place}{path}", params=parameters)
        return answer.raise_for_status().json()

    def stream(self, path: str, to: Path | None = None) -> str:
        """Read a file as it comes; says how many bytes it has."""
        size = 0
        with (
            self._client.stream("GET", f"{self.place}{path}") as answer,
            (to or Path(os.devnull)).open("wb") as file,
        ):
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                size += file.write(chunk)
        return f"{size / 1e6:,.1f} MB"

    def _worked(self) -> float:
        return float(sum(self._process.cpu_times()[:2]))


def _most_held(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def measure_all(bench: _Bench, *, client: str, rounds: int, folder: Path) -> None:
    """Every figure, in the order in which they are told."""
    middle = rounds // 2

    def ledger_page(**parameters: Any) -> str:
        page = bench.json("/privacy-ledger", limit=_PAGE, **parameters)
        return f"{len(page['items']):,} lines"

    def history() -> str:
        lines, pages, cursor = 0, 0, None
        while cursor is not None or not pages:
            cursor_is: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
            page = bench.json("/privacy-ledger", limit=_PAGE, client=client, **cursor_is)
            lines, pages, cursor = lines + len(page["items"]), pages + 1, page["next_cursor"]
        return f"{lines:,} lines on {pages} pages"

    def report_json() -> str:
        return f"{len(json.dumps(bench.json('/report.json'))):,} bytes"

    def verification() -> str:
        found = bench.json("/report/verification")
        failed = [one["name"] for one in found["checks"] if one["outcome"] == "fail"]
        if failed or found["entries"] != rounds:
            raise RuntimeError(f"the run was to be consistent, and is not: {failed}")
        return f"{found['entries']:,} entries, {found['verdict']}"

    bench.json("/report.json")
    bench.stream("/report.html")
    bench.measure("ledger page, first", 9, ledger_page)
    bench.measure("ledger page, middle", 9, lambda: ledger_page(round_from=middle))
    bench.measure("client's history, a page", 9, lambda: ledger_page(client=client))
    bench.measure("client's history, whole", 3, history)
    bench.measure(
        "rounds, a page", 5, lambda: f"{len(bench.json('/rounds', limit=_PAGE)['items']):,}"
    )
    bench.measure("report JSON", 9, report_json)
    bench.measure("report HTML", 5, lambda: bench.stream("/report.html"))
    bench.measure("verification", 1, verification)
    for form in ("csv", "ndjson", "parquet"):
        file = f"/privacy-ledger.{form}"
        bench.measure(f"ledger {form}", 1, partial(bench.stream, file))
    bench.measure(
        "client's history csv", 1, lambda: bench.stream(f"/privacy-ledger.csv?client={client}")
    )
    bench.measure("rounds csv", 1, lambda: bench.stream("/rounds.csv"))
    bundle = folder / "bundle.zip"
    bench.measure("bundle", 1, lambda: bench.stream("/bundle", bundle))
    figure = _verified(bundle)
    bench.figures.append(figure)
    print(_line(figure), flush=True)


def _verified(bundle: Path) -> _Figure:
    """`fedaudit verify` of a bundle, in a process of its own: all that it takes."""
    began = time.perf_counter()
    command = [sys.executable, "-P", "-c", _VERIFY, "verify", str(bundle), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    used = os.wait4(process.pid, 0)[2]
    return _Figure(
        "bundle verified offline",
        time.perf_counter() - began,
        used.ru_utime + used.ru_stime,
        1024 * used.ru_maxrss,
        f"{found['entries']:,} entries, {found['verdict']}",
    )


def _line(figure: _Figure) -> str:
    return (
        f"| {figure.what} | {1000 * figure.seconds:,.0f} ms | "
        f"{1000 * figure.processor_seconds:,.0f} ms | {figure.memory / 2**20:,.0f} MiB | "
        f"{figure.answered} |"
    )


@contextmanager
def _database(name: str) -> Iterator[str]:
    """The URL of an empty database."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/fedaudit.db"
        return
    server = start_postgres()
    try:
        yield server.url
    finally:
        server.stop()


def main() -> None:
    """Prints a row a figure, and writes all to `--out`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_history", description=__doc__)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--rounds", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--experiment", help="one that the database of TEST_DATABASE_URL holds")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    with (
        _database(options.database) as url,
        tempfile.TemporaryDirectory() as folder,
        served_apart(url, SCOPES) as (address, key, pid),
        http(address, key) as client,
    ):
        client.timeout = httpx.Timeout(_PATIENCE_SECONDS)
        for rounds in options.rounds:
            id_ = options.experiment or _filled(url, client, rounds, options.clients)
            print(f"{rounds:,} rounds of {COHORT} of {options.clients:,} clients ({id_})")
            bench = _Bench(client, psutil.Process(pid), id_)
            measure_all(bench, client=_busy_client(url, id_), rounds=rounds, folder=Path(folder))
            found[str(rounds)] = [asdict(figure) for figure in bench.figures]
    if options.out is not None:
        # Only now: it imports torch.
        from benchmarks.machine import machine

        document = {"machine": machine(), "database": options.database, "rounds": found}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


def _filled(url: str, client: httpx.Client, rounds: int, clients: int) -> str:
    database = Database(url)
    with database.write() as session:
        project_id = ProjectRepository(session).get_or_create("benchmark").id
    began = time.perf_counter()
    id_ = fill(database, client, project_id, rounds=rounds, clients=clients)
    print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)
    with database.write() as session:
        # As Postgres does by itself within minutes. Before, it takes the ledger for a few rows, and
        # sorts all of it for each page.
        session.execute(text("ANALYZE"))
    began = time.perf_counter()
    blocks = HistoryIndexer(database).index_waiting(rounds)
    seconds = time.perf_counter() - began
    print(f"{blocks} blocks indexed by client in {seconds:.0f} s, as a sweeper does", flush=True)
    database.dispose()
    return id_


def _busy_client(url: str, experiment_id: str) -> str:
    """One that took part in the first round."""
    database = Database(url)
    with database.read() as session:
        [row] = LedgerRepository(session).rows_after(experiment_id, limit=1)
        found = session.get(Experiment, experiment_id)
        assert found is not None
        name: str = SubjectSetRepository(session).names(found.subject_set_id)[row.subjects[0]]
    database.dispose()
    return name


if __name__ == "__main__":
    main()
