"""What it takes to decide which groups are disclosed: `python -m benchmarks.disclosure_cost`.

Once in a run, before its first round. Three ways, in processor time of one thread, the best of
`--turns`: each attribute by itself, as it was before attributes were looked at together; all
of them together; and the comparison with what earlier reports on the same data disclosed. Made-up
people, of clients of twenty rows; the attributes are independent of each other.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from fedaudit.fairness.scored_groups import Neighbourhood, conflicting, disclosed_sets

_RESULTS = Path(__file__).parent / "results" / "disclosure_cost.json"
_ROWS_OF_A_CLIENT = 20
_MINIMUM = 30
_EARLIER = 100
_SIZES = ((2_000, (2, 5)), (20_000, (2, 9, 45)), (200_000, (2, 9, 45)), (20_000, (2, 5, 9, 9, 20)))
"""Rows, and the groups of each attribute; of the first two an intersection is measured too."""


def made_up(rows: int, sizes: tuple[int, ...], seed: int) -> Population:
    """People with a group of every attribute; larger numbers of a group are rarer."""
    rng = np.random.default_rng(seed)
    codes = {
        f"attribute {place}": np.minimum(rng.geometric(2 / (size + 1), rows) - 1, size - 1)
        for place, size in enumerate(sizes)
    }
    groups = {f"attribute {place}": size for place, size in enumerate(sizes)}
    first, second = list(codes)[:2]
    codes["both"] = codes[first] * groups[second] + codes[second]
    groups["both"] = groups[first] * groups[second]
    # Half of the clients are held out, other ones in every report.
    held_out = rng.choice(2 * rows // _ROWS_OF_A_CLIENT, rows // _ROWS_OF_A_CLIENT, replace=False)
    own = np.repeat(np.sort(held_out), _ROWS_OF_A_CLIENT)
    ids = own * _ROWS_OF_A_CLIENT + np.arange(rows) % _ROWS_OF_A_CLIENT
    return Population(codes, groups, own, ids)


def measure(rows: int, sizes: tuple[int, ...], turns: int) -> dict[str, Any]:
    """Seconds of each way, and what was decided."""
    people = made_up(rows, sizes, seed=1)
    rules = {name: DisclosureRule(_MINIMUM, minimum_group_clients=2) for name in people.codes}
    together = decide_together(rules, people)
    favourable = np.arange(rows) % 2 == 0
    own = disclosed_sets(people, together, favourable)
    earlier = []
    for seed in range(2, 2 + _EARLIER // sum(map(len, own.values())) + 1):
        other = made_up(rows, sizes, seed)
        for sets in disclosed_sets(other, decide_together(rules, other), favourable).values():
            earlier += sets
    near = Neighbourhood(np.arange(2 * rows) // _ROWS_OF_A_CLIENT, rows=_MINIMUM, clients=2)
    alone = {name: rule.decide(people.sizes(name)) for name, rule in rules.items()}
    return {
        "rows": rows,
        "groups": sum(people.groups.values()),
        "atoms": len(people.atoms(list(rules))),
        "disclosed_alone": sum(int(one.shown.sum()) for one in alone.values()),
        "disclosed_together": sum(int(one.shown.sum()) for one in together.values()),
        "alone": _seconds(
            lambda: [rule.decide(people.sizes(name)) for name, rule in rules.items()], turns
        ),
        "together": _seconds(lambda: decide_together(rules, people), turns),
        "beside_100_earlier": _seconds(lambda: conflicting(own, earlier[:_EARLIER], near), turns),
    }


def _seconds(work: Callable[[], object], turns: int) -> float:
    best = float("inf")
    for _ in range(turns):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _line(found: Mapping[str, Any]) -> str:
    times = " | ".join(f"{found[name]:.3f}" for name in ("alone", "together", "beside_100_earlier"))
    shown = f"{found['disclosed_alone']} | {found['disclosed_together']}"
    return f"| {found['rows']:,} | {found['groups']} | {found['atoms']:,} | {shown} | {times} |"


def main() -> None:
    """Prints the table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    asked = parser.parse_args()
    found = [measure(rows, sizes, asked.turns) for rows, sizes in _SIZES]
    print(
        "| rows | groups | atoms | shown, alone | together | s alone | s together | s beside 100 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        print(_line(one))
    document = {"benchmark": "disclosure_cost", "machine": machine(), "measured": found}
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
