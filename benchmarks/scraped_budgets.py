"""What a scrape of `/metrics` takes that reads every budget again.

`python -m benchmarks.scraped_budgets [--postgres]` stores federations with a total for an epsilon
each and some experiments that draw on it, and reads all of them as a scrape does: first with prices
that nobody has asked for, then again, as a minute later. Processor time is that of this process.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import migrations
from api.metrics.state_metrics import StateMetrics
from api.shared.resources import Resources
from benchmarks.servers import start_postgres
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.privacy.accounting.rdp import RDP_ORDERS
from infrastructure.settings import Settings
from models.database import Database
from models.epsilon_costs import EpsilonCost
from models.repositories import EpsilonBudgetRepository, FederationRepository, ProjectRepository

_READINGS = 5


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scraped_budgets")
    parser.add_argument("--budgets", type=int, default=100)
    parser.add_argument("--experiments", type=int, default=5, help="of each federation")
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_postgres() if options.postgres else None
        url = f"sqlite:///{folder}/fedaudit.db" if server is None else server.url
        try:
            migrations.upgrade(url)
            fill(url, budgets=options.budgets, experiments=options.experiments)
            read(Settings(data_dir=Path(folder), database_url=url, broker_url="redis://none"))
        finally:
            if server is not None:
                server.stop()
    return 0


def fill(url: str, *, budgets: int, experiments: int) -> None:
    """Federations with a total each, and what experiments have reserved of it."""
    database = Database(url)
    with database.write() as session:
        project = ProjectRepository(session).get_or_create("benchmark").id
        federations = FederationRepository(session, project)
        epsilons = EpsilonBudgetRepository(session, project)
        delta, adjacency, observer = 1e-5, "replace-one", "server"
        for place in range(budgets):
            id_ = federations.get_or_create(
                fingerprint=f"{place:064d}", name="benchmark", source="table", profile={}
            ).id
            federations.set_budget(
                id_,
                book="release",
                figure="epsilon",
                total=1e6,
                delta=delta,
                adjacency=adjacency,
                observer=observer,
            )
            for number in range(experiments):
                curve = (1 + place + number) * 1e-3 * np.array(RDP_ORDERS)
                cost = EpsilonCost(
                    observer=observer,
                    adjacency=adjacency,
                    unit="client",
                    delta=delta,
                    epsilon=1.0,
                    curve=curve,
                    step=curve,
                    compositions=1,
                )
                refusal = epsilons.reserve(
                    id_,
                    experiment_id=f"{place:018d}{number:018d}",
                    book="release",
                    costs=[cost],
                    price=composed_epsilon,
                )
                assert refusal is None
    database.dispose()


def read(settings: Settings) -> None:
    """As a scrape does, over and over."""
    resources = Resources(settings)
    metrics = StateMetrics(resources)
    for reading in range(_READINGS):
        busy, began = process_time(), perf_counter()
        found = metrics._read_budgets()
        busy, waited = process_time() - busy, perf_counter() - began
        shown = f"{1000 * waited:.1f} ms, {1000 * busy:.1f} ms of the processor"
        print(f"reading {reading + 1} of {len(found.left)} budgets: {shown}")
    resources.close()


if __name__ == "__main__":
    sys.exit(main())
