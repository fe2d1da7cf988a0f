"""How near the samples of two rounds come: `python -m benchmarks.sampled_rounds SPEC --data DIR`.

Of the groups that a run's rounds show, where each round scores a sample of the held-out clients
(`training.stopping.validation_clients`): how often the rows of a group differ from those of the
same group in an earlier round that shows it, but in fewer rows, or in rows of fewer clients, than
the spec's minimum. One round less another gives these few away where both models decide alike.
With the rule of `fedaudit.runs.earlier_samples` there are none.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.federations.load import load_federation
from fedaudit.runs.held_out_groups import decide_disclosures
from fedaudit.runs.sampled_rounds import SampledRounds
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.training.base.cell import Cell


def near_an_earlier(
    drawn: NDArray[np.bool_], rows: NDArray[np.int64], found: Disclosure
) -> NDArray[np.bool_]:
    """Of each round, whether a group is shown that lies near one of an earlier round: [rounds,
    groups]. `drawn` [rounds, clients]; `rows` [clients, groups] of each client."""
    near = np.zeros(found.shown.shape, dtype=np.bool_)
    for group in range(rows.shape[1]):
        mine = np.flatnonzero(rows[:, group])
        weights, sets = rows[mine, group].astype(np.float64), drawn[:, mine].astype(np.float64)
        apart_rows, apart_clients = _apart(sets, weights), _apart(sets, np.ones(len(mine)))
        few = (apart_rows < found.rule.minimum_group_size) | (
            apart_clients < found.rule.minimum_group_clients
        )
        shown = found.shown[:, group]
        earlier = np.tri(len(sets), k=-1, dtype=np.bool_) & shown & shown[:, np.newaxis]
        near[:, group] = (few & (apart_rows > 0) & earlier).any(axis=1)
    return near


def _apart(sets: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of what only one of two sets has, of all pairs."""
    alone = sets @ weights
    return alone[:, np.newaxis] + alone - 2 * (sets * weights) @ sets.T


def main() -> None:
    """Prints, by attribute, how many shown groups of rounds there are and how many lie near."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of the spec's files")
    options = parser.parse_args()
    spec = parse_spec(decode_text(options.spec.read_text()))
    size = spec.training.stopping.validation_clients
    if size is None:
        parser.error("the spec's rounds score all clients: it sets no validation_clients")
    cell = Cell(spec, load_federation(spec, sources_dir=options.data))
    sampled = SampledRounds(cell, decide_disclosures(cell), size=size)
    every = spec.training.stopping.validate_every
    rounds = range(every, spec.training.rounds + 1, every)
    drawn = np.zeros((len(rounds), sampled.clients), dtype=np.bool_)
    np.put_along_axis(drawn, sampled.drawn(rounds), values=True, axis=1)
    for name, found in sampled.disclosures(rounds).items():
        near = near_an_earlier(drawn, sampled.rows_of(name), found)
        figures = {"attribute": name, "clients": sampled.clients, "drawn": size}
        figures |= {"rounds": len(rounds), "shown": int(found.shown.sum()), "near": int(near.sum())}
        figures |= {"groups": near.shape[1], "groups_near": int(near.any(axis=0).sum())}
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
