"""What a coin for each record costs: `python -m benchmarks.record_coins`.

A table of `--rows` rows in 50 silos, 12 numbers and one category, is loaded with and without the
keys of its records, in turn; then rows are held out by their coins, and by rank within their silo,
which is how it was done before a record's coin went by the record itself. Processor time of one
thread, medians of `--repeats` turns, as JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.machine import machine
from fedaudit.federations.federation import Federation
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.split import held_out_rows, scored_rows
from fedaudit.federations.table.table_outline import TableKind
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.table import Table

_SILOS = 50
_NUMBERS = 12


def write_table(path: Path, rows: int) -> None:
    """A CSV file, the same on every machine."""
    random = np.random.default_rng(3)
    numbers = random.normal(size=(rows, _NUMBERS)).round(4)
    names = [f"x{place}" for place in range(_NUMBERS)]
    with path.open("w") as file:
        file.write(",".join(["silo", "kind", *names, "y"]) + "\n")
        for row, (own, kind) in enumerate(zip(numbers, random.integers(0, 4, rows), strict=True)):
            cells = ",".join(map(str, own.tolist()))
            file.write(f"s{row % _SILOS},k{kind},{cells},{row % 2}\n")


def seconds(work: Callable[[], object]) -> float:
    """Processor time of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    kinds = {"name": "kind", "kind": "categorical", "categories": ["k0", "k1", "k2", "k3"]}
    features = [*(f"x{place}" for place in range(_NUMBERS)), kinds]
    found: dict[str, list[float]] = {"load": [], "load_keyed": [], "by_rank": [], "by_coin": []}
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "a.csv", options.rows)
        source = Table.model_validate(
            {
                "source": "table",
                "path": "a.csv",
                "client_key": "silo",
                "target": "y",
                "features": features,
            }
        )

        def load(*, keyed: bool) -> Federation:
            return TableKind(source).load(
                LoadRequest(fairness=Fairness(), files=Files(Path(folder)), keyed=keyed)
            )

        for _ in range(options.repeats):
            found["load"].append(seconds(lambda: load(keyed=False)))
            found["load_keyed"].append(seconds(lambda: load(keyed=True)))
        data = load(keyed=True)
    keys, counts = data.record_keys, data.counts
    if keys is None:
        raise RuntimeError("the table was loaded without keys")
    for seed in range(options.repeats):
        found["by_rank"].append(
            seconds(
                partial(scored_rows, counts, clients=np.arange(_SILOS), fraction=0.3, seed=seed)
            )
        )
        found["by_coin"].append(seconds(partial(held_out_rows, keys, fraction=0.3, seed=seed)))
    medians = {name: median(values) for name, values in found.items()}
    ratios = {
        "load": medians["load_keyed"] / medians["load"],
        "split": medians["by_coin"] / medians["by_rank"],
        "load and split": (medians["load_keyed"] + medians["by_coin"])
        / (medians["load"] + medians["by_rank"]),
    }
    facts = {"machine": machine(), "rows": options.rows, "seconds": medians, "ratios": ratios}
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
