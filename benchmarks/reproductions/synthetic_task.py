"""The synthetic task of Galli et al. (section 5.1), over many seeds.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.synthetic_task --seeds 400
"""

import argparse
from itertools import permutations
from typing import Any

import numpy as np

from benchmarks.reproductions.runs import Run, quartiles, table, train
from benchmarks.workloads import cells, synthetic_linear
from fedaudit.spec.federation import SyntheticLinear

KEEP = {"method": "k-means", "empty_cluster": "keep"}
RELOCATE = {"method": "k-means", "empty_cluster": "relocate"}
METHODS: dict[str, dict[str, Any]] = {
    "federated averaging": {"hypotheses": 1, "noise_multiplier": None},
    "IFCA": {"noise_multiplier": None, "clustering": {"method": "reported"}},
    "Algorithm 1, no noise": {"noise_multiplier": None, "clustering": KEEP},
    "Algorithm 1": {"clustering": KEEP},
    "Algorithm 1, `relocate`": {"clustering": RELOCATE},
}
PATIENCE = (6, 30)
_MAX_ROUNDS = 2000
_REACHED = 0.5


def distance_to_truth(run: Run) -> float:
    """Mean distance of the true parameters from the hypotheses, matched as well as they can be.

    A single hypothesis is matched with every distribution.
    """
    source = run.cell.spec.federation
    if not isinstance(source, SyntheticLinear):
        raise ValueError("only synthetic data have true parameters")
    thetas = np.array(source.thetas)
    apart = np.linalg.norm(thetas[:, None] - run.result.hypotheses[None], axis=-1)
    components, hypotheses = apart.shape
    if hypotheses < components:
        return float(apart.min(1).mean())
    rows = np.arange(components)
    matches = permutations(range(hypotheses), components)
    return float(min(apart[rows, list(match)].mean() for match in matches))


def run_all(seeds: int, patience: int, loss: str) -> dict[str, list[Run]]:
    """Every method on every seed: a seed gives the same data and the same split to each."""
    specs = [
        synthetic_linear(seed=seed, rounds=_MAX_ROUNDS, patience=patience, loss=loss, **settings)
        for settings in METHODS.values()
        for seed in range(1, seeds + 1)
    ]
    runs = train(cells(specs))
    return {name: runs[place * seeds : (place + 1) * seeds] for place, name in enumerate(METHODS)}


def ordered(found: dict[str, list[Run]], private: str) -> str:
    """Shares of seeds with: not sanitised <= sanitised, sanitised <= averaging, and both."""
    losses = {name: [run.result.selection_loss for run in runs] for name, runs in found.items()}
    plain, noisy, single = (
        np.array(losses[name]) for name in ("IFCA", private, "federated averaging")
    )
    first, second = plain <= noisy, noisy <= single
    return ", ".join(f"{share.mean():.0%}" for share in (first, second, first & second))


def report(seeds: int, patience: int, loss: str) -> str:
    """One table of medians and quartiles over the seeds, and the shares of seeds in order."""
    found = run_all(seeds, patience, loss)
    rows = []
    for name, runs in found.items():
        distances = [distance_to_truth(run) for run in runs]
        leakage = [run.leakage[1] for run in runs]
        rows.append(
            [
                name,
                quartiles([run.result.selection_loss for run in runs]),
                quartiles([run.result.validation_loss for run in runs]),
                quartiles(distances),
                f"{np.mean(np.array(distances) < _REACHED):.0%}",
                quartiles([run.result.rounds for run in runs], 0),
                "none" if np.isnan(leakage).any() else quartiles(leakage, 1),
            ]
        )
    header = [
        f"patience {patience}",
        f"smallest {loss.upper()}",
        f"honest {loss.upper()}",
        "distance to the true parameters",
        f"within {_REACHED}",
        "rounds",
        "largest leakage of a client",
    ]
    shares = [
        f"IFCA <= {name}, {name} <= averaging, both: {ordered(found, name)}"
        for name in found
        if name.startswith("Algorithm 1") and "no noise" not in name
    ]
    return "\n".join([table(header, rows), "", *shares])


def main() -> None:
    """Prints the tables; docs/evidence/reproduction.md has what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400, help="seeds 1 to this number")
    parser.add_argument("--loss", choices=["rmse", "mse"], default="rmse")
    chosen = parser.parse_args()
    for patience in PATIENCE:
        print(report(chosen.seeds, patience, chosen.loss), end="\n\n")


if __name__ == "__main__":
    main()
