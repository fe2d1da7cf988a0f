"""What correlated noise gains at the same epsilon, on tables whose clients take turns.

    python -m benchmarks.correlated_noise --data DATA

Every run is the answer of `propose_experiment` with twice its rounds and half its clip, and with
another cohort: in rotation, with independent noise or with as many bands as a block has rounds; and
everybody in every round, which a federation without rotation may do. Prints the table of
docs/usefulness.md.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.usefulness import SEEDS, TABLES, facts_of, spec_of
from fedaudit.cli.run import run_locally
from fedaudit.privacy.noise.banded_noise import BandedNoise
from fedaudit.privacy.planning.cost_projection import mean_cohort
from fedaudit.runs.proposed_experiment import ProposalAim, propose_experiment
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec

EVERY = (5, 10)
EPSILONS = (1.0, 3.0)
ROUNDS = 60
NAMES = ("income, 35 states, scales only", "adult, 42 countries")


def arms() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """By name, what is changed of `training.cohort` and of `privacy`."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for every in EVERY:
        cohort = {"sampling": "rotation", "every": every}
        found[f"every {every}, independent"] = cohort, {}
        found[f"every {every}, correlated"] = cohort, {"correlation": {"bands": every}}
    found["all in every round"] = {"sampling": "poisson", "rate": 1.0}, {}
    return found


def rms_of_sums(bands: int, rounds: int) -> float:
    """The root of the mean over rounds of the variance of the noise summed up to each, of noise
    made of deviation 1."""
    impulse = np.zeros((rounds, 1))
    impulse[0] = 1.0
    if bands > 1:
        BandedNoise(bands).follow(impulse, first=1, earlier=None)
    variances = np.cumsum(np.square(np.cumsum(impulse[:, 0])))
    return float(np.sqrt(variances.mean()))


def figures(
    spec: ExperimentSpec, report: Mapping[str, Any], *, clients: int
) -> tuple[float, float]:
    """Accuracy, and the noise of running sums of averages, in clips."""
    bands = getattr(getattr(spec.privacy, "correlation", None), "bands", 1)
    noise = float(report["privacy"]["noise_multiplier"]) * rms_of_sums(bands, ROUNDS)
    return report["utility"]["accuracy"], noise / mean_cohort(spec.training.cohort, clients)


def line_of(name: str, epsilon: float, data: Path) -> str:
    """A cell for each arm: accuracy with two standard errors, and noise."""
    source, facts = TABLES[name], facts_of(name, TABLES[name], data)
    proposal, cells = propose_experiment(facts, ProposalAim(epsilon=epsilon)), []
    for cohort, privacy in arms().values():
        found = []
        for seed in SEEDS:
            base = spec_of(proposal, source, seed).model_dump(mode="json")
            base["privacy"] |= {"clip": base["privacy"]["clip"] / 2, **privacy}
            base["training"] |= {"rounds": ROUNDS, "cohort": cohort}
            spec = parse_spec(base)
            run = run_locally(spec, sources_dir=data, device="cpu", progress=lambda _: None)
            fraction = spec.federation.validation_fraction
            clients = facts.clients - round(facts.clients * fraction)
            found.append(figures(spec, run.report, clients=clients))
        accuracy, noise = (np.array(part) for part in zip(*found, strict=True))
        error = 2 * float(np.std(accuracy, ddof=1)) / len(SEEDS) ** 0.5
        cells.append(f"{accuracy.mean():.3f}±{error:.3f}<br>{noise.mean():.3g}")
    return "|".join(("", f"{name}, epsilon {epsilon:g}".replace(" ", "&nbsp;"), *cells, ""))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", type=Path, required=True)
    given = asked.parse_args()
    print("|".join(("", "table", *(arm.replace(" ", "&nbsp;") for arm in arms()), "")))
    print("|---" * (1 + len(arms())) + "|")
    for name in NAMES:
        for epsilon in EPSILONS:
            print(line_of(name, epsilon, given.data), flush=True)


if __name__ == "__main__":
    main()
