"""Fairness on synthetic groups (Galli et al., SN Computer Science 2023), with a control.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.synthetic_groups --seeds 20
"""

import argparse

import numpy as np
from scipy.stats import t

from benchmarks.reproductions.runs import Run, quartiles, table, train
from benchmarks.workloads import cells, synthetic_groups
from fedaudit.fairness.disclosure import attribute_rule
from fedaudit.fairness.gaps import gaps, scored_rows

HYPOTHESES = (1, 2)
NOISE = (None, 1.0, 2.0, 3.0, 4.0, 5.0)
FIGURES = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
VARIANTS = {
    "the group is the distribution": {},
    "control: the group is independent of the distribution": {"independent_attribute": True},
    "control: independent, and one rule (y >= 0) for both groups": {
        "independent_attribute": True,
        "one_rule": True,
    },
}
_MAX_ROUNDS = 2000
_PATIENCE = 30


def gaps_of(run: Run) -> dict[str, float]:
    """The figures of the final hypotheses, pooled over all validation clients' rows."""
    groups = {"group": run.cell.federation.attribute("group").values}
    counts = run.result.fairness["group"].sum(0)
    rule = attribute_rule(run.cell.spec, "group", groups)
    (figures,) = gaps(counts, rule.decide(scored_rows(counts)))
    return {figure.metric: np.nan if figure.value is None else figure.value for figure in figures}


def report(seeds: int, *, cohort: int, changes: dict[str, bool]) -> str:
    """A line for each number of hypotheses and noise multiplier."""
    places = [(k, nu) for k in HYPOTHESES for nu in NOISE]
    specs = [
        synthetic_groups(
            seed=seed,
            hypotheses=k,
            noise_multiplier=nu,
            cohort=cohort,
            rounds=_MAX_ROUNDS,
            patience=_PATIENCE,
            **changes,
        )
        for k, nu in places
        for seed in range(1, seeds + 1)
    ]
    runs = train(cells(specs))
    rows = []
    gaps_at: dict[tuple[int, float | None], list[dict[str, float]]] = {}
    for position, (k, nu) in enumerate(places):
        own = runs[position * seeds : (position + 1) * seeds]
        found = gaps_at[k, nu] = [gaps_of(run) for run in own]
        rows.append(
            [
                str(k),
                _named(nu),
                quartiles([run.result.validation_loss for run in own]),
                *(quartiles([gap[figure] for gap in found], 3) for figure in FIGURES),
            ]
        )
    levels = table(["k", "nu", "honest RMSE", *FIGURES], rows)
    return f"{levels}\n\n{_reductions(gaps_at)}"


def _reductions(gaps_at: dict[tuple[int, float | None], list[dict[str, float]]]) -> str:
    """By how much the gaps of two hypotheses are smaller than those of one, seed by seed."""
    one, two = HYPOTHESES
    rows = []
    for nu in NOISE:
        pairs = list(zip(gaps_at[one, nu], gaps_at[two, nu], strict=True))
        less = [[first[name] - second[name] for first, second in pairs] for name in FIGURES]
        rows.append([_named(nu), *(_paired(differences) for differences in less)])
    return table(["nu", *(f"less {name}" for name in FIGURES)], rows)


def _paired(differences: list[float]) -> str:
    """The mean with its 95 % interval by Student's t over seeds, and how many seeds are above 0."""
    values = np.array(differences)
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    low, high = values.mean() - half, values.mean() + half
    above = np.count_nonzero(values > 0)
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f}), {above} of {len(values)}"


def _named(nu: float | None) -> str:
    return "none" if nu is None else f"{nu:g}"


def main() -> None:
    """Prints the tables; docs/evidence/reproduction.md has what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="seeds 1 to this number")
    parser.add_argument("--cohort", type=int, default=70)
    chosen = parser.parse_args()
    for title, changes in VARIANTS.items():
        print(f"{title}; {chosen.cohort} clients a round\n")
        print(report(chosen.seeds, cohort=chosen.cohort, changes=changes), end="\n\n")


if __name__ == "__main__":
    main()
