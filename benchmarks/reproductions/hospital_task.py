"""The hospital task of Galli et al. (section 5.2): leakage beside the published Table 1, and RMSE.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.hospital_task --data ../shared/data
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.reproductions.runs import Run, table, train
from benchmarks.workloads import cells, hospital_charges, missing_hospital_data

HYPOTHESES = (7, 5, 3, 1)
NOISE = (None, 0.1, 1.0, 2.0, 3.0, 5.0)
# Table 1 of the ICISSP 2023 version: median and maximum over clients, averaged over 10 runs.
PUBLISHED = {
    0.1: ((517.0, 1551.0), (418.0, 1342.0), (473.0, 1386.0), (528.0, 1540.0)),
    1.0: ((36.3, 126.5), (40.7, 127.6), (44.0, 138.6), (49.5, 147.4)),
    2.0: ((15.4, 57.8), (14.3, 54.5), (22.0, 69.3), (21.5, 66.6)),
    3.0: ((7.7, 32.3), (8.4, 36.7), (12.5, 40.0), (12.1, 40.0)),
    5.0: ((5.7, 21.3), (5.9, 22.0), (5.5, 21.6), (5.3, 20.9)),
}
_MAX_ROUNDS = 2000
_PATIENCE = 30
_DOLLARS = 10_000

Grid = dict[tuple[int, float | None], list[Run]]


def run_grid(data: Path, *, client_key: str, empty_cluster: str, seeds: int) -> Grid:
    """Every number of hypotheses with every noise multiplier, on seeds 1 to `seeds`."""
    places = [(k, nu) for k in HYPOTHESES for nu in NOISE]
    specs = [
        hospital_charges(
            seed=seed,
            hypotheses=k,
            noise_multiplier=nu,
            client_key=client_key,
            empty_cluster=empty_cluster,
            rounds=_MAX_ROUNDS,
            patience=_PATIENCE,
            by_state=False,
        )
        for k, nu in places
        for seed in range(1, seeds + 1)
    ]
    runs = train(cells(specs, data=data))
    return {
        place: runs[position * seeds : (position + 1) * seeds]
        for position, place in enumerate(places)
    }


def leakage_table(grid: Grid) -> str:
    """Median and maximum over clients, averaged over the runs; the published pair below."""
    rows = []
    for nu in NOISE:
        if nu is None:
            continue
        ours = []
        for k in HYPOTHESES:
            median, largest = np.mean([run.leakage for run in grid[k, nu]], axis=0)
            ours.append(f"{median:.1f}, {largest:.1f}")
        rows.append([f"{nu:g}, here", *ours])
        rows.append(["published", *(f"{low}, {high}" for low, high in PUBLISHED[nu])])
    return table(["nu", *(f"k = {k}" for k in HYPOTHESES)], rows)


def mean_table(title: str, grid: Grid, figure: str, *, scale: float, digits: int) -> str:
    """Mean and standard deviation over the runs of one figure of `figures_of`."""
    rows = []
    for nu in NOISE:
        row = ["none" if nu is None else f"{nu:g}"]
        for k in HYPOTHESES:
            values = [figures_of(run)[figure] * scale for run in grid[k, nu]]
            row.append(f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}")
        rows.append(row)
    return table([title, *(f"k = {k}" for k in HYPOTHESES)], rows)


def figures_of(run: Run) -> dict[str, float]:
    """The figures of a run that go into a table."""
    result = run.result
    return {
        "selection": result.selection_loss,
        "honest": result.validation_loss,
        "rounds": result.rounds,
        "collapsed": run.collapsed_share,
        "alive": sum(size > 1 for size in run.last.cluster_sizes[-1].tolist()),
    }


def report(data: Path, *, client_key: str, empty_cluster: str, seeds: int) -> str:
    """All tables for one client key and one treatment of empty clusters."""
    grid = run_grid(data, client_key=client_key, empty_cluster=empty_cluster, seeds=seeds)
    federation = next(iter(grid.values()))[0].cell.federation
    parts = [
        f"{client_key}: {federation.clients} clients, {federation.rows} rows, "
        f"at most {federation.longest} a client; empty clusters: {empty_cluster}",
        leakage_table(grid),
        mean_table("smallest RMSE, dollars", grid, "selection", scale=_DOLLARS, digits=0),
        mean_table("honest RMSE, dollars", grid, "honest", scale=_DOLLARS, digits=0),
        mean_table("rounds", grid, "rounds", scale=1, digits=0),
        mean_table("collapsed rounds, %", grid, "collapsed", scale=100, digits=1),
        mean_table("clusters of two or more, last round", grid, "alive", scale=1, digits=1),
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Prints the tables; docs/evidence/reproduction.md has what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to this number")
    parser.add_argument("--client-keys", nargs="+", default=["zip", "provider_id"])
    parser.add_argument("--empty-cluster", choices=["relocate", "keep"], default="relocate")
    chosen = parser.parse_args()
    if reason := missing_hospital_data(chosen.data):
        parser.exit(message=f"hospital task left out: {reason}\n")
    for client_key in chosen.client_keys:
        tables = report(
            chosen.data,
            client_key=client_key,
            empty_cluster=chosen.empty_cluster,
            seeds=chosen.seeds,
        )
        print(tables, end="\n\n")


if __name__ == "__main__":
    main()
