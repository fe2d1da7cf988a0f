"""How long nulls take: `python -m benchmarks.permutation_null`.

Times `permutation_nulls` on made-up counts, 1,000 permutations of the six metrics of rates, by the
number of validation clients and of groups, and by whether clients or rows are exchanged. The best
of `--turns` is kept, in processor time of one thread.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import machine
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.metrics import scored_rows
from fedaudit.fairness.permutation import PERMUTATIONS, Unit, permutation_nulls

_RESULTS = Path(__file__).parent / "results" / "permutation_null.json"
_ROWS = 20
_SIZES: tuple[tuple[int, int, Unit], ...] = (
    (500, 2, "client"),
    (3_000, 50, "client"),
    (20_000, 1_000, "client"),
    (3_000, 50, "record"),
    (3_000, 1_000, "record"),
)


def made_up(clients: int, groups: int, unit: Unit) -> NDArray[np.int64]:
    """Counts [clients, groups, 4] of about 20 rows a client, in one group or in all of them."""
    rng = np.random.default_rng(1)
    kinds = [0.3, 0.2, 0.3, 0.2]
    counts = np.zeros((clients, groups, 4), dtype=np.int64)
    if unit == "client":
        own = np.arange(clients) % groups
        counts[np.arange(clients), own] = rng.multinomial(_ROWS, kinds, size=clients)
        return counts
    where = rng.integers(0, groups, size=(clients, _ROWS))
    kind = rng.choice(4, p=kinds, size=where.shape)
    np.add.at(counts, (np.arange(clients)[:, np.newaxis], where, kind), 1)
    return counts


def seconds(clients: int, groups: int, unit: Unit, *, turns: int) -> float:
    """The best of several turns."""
    counts = made_up(clients, groups, unit)
    taken = []
    for _ in range(turns):
        began = time.process_time()
        disclosure = DisclosureRule(5).decide(scored_rows(counts.sum(axis=0)))
        permutation_nulls(counts, disclosure, seed=1)
        taken.append(time.process_time() - began)
    return min(taken)


def main() -> None:
    """Time every size, print it and keep it beside the other results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    turns = parser.parse_args().turns
    found = [
        {
            "clients": clients,
            "groups": groups,
            "unit": unit,
            "permutations": PERMUTATIONS,
            "seconds": round(seconds(clients, groups, unit, turns=turns), 3),
        }
        for clients, groups, unit in _SIZES
    ]
    for one in found:
        print(f"| {one['clients']:,} | {one['groups']:,} | {one['unit']} | {one['seconds']:.2f} |")
    _RESULTS.write_text(json.dumps({"machine": machine(), "nulls": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
