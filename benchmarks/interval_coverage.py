"""How often intervals of gaps hold the true gap: `python -m benchmarks.interval_coverage`.

Draws clients of known populations, `--draws` of each, and counts in how many the 95 % interval of
each gap holds the population's gap, of those in which the gap is defined. Rows are drawn one by one
(a client each), or clients of five have rates of their own (intra-client correlation 0.2), or
clients have five rows of every group, and what makes them different is the same for all.
"""

import argparse
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from benchmarks.machine import machine
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule
from fedaudit.fairness.gaps import GroupScores, group_rates, rate_gaps, score_values
from fedaudit.fairness.intervals import rate_intervals, score_intervals
from fedaudit.spec.metrics import FAIRNESS_FIGURES

_RESULTS = Path(__file__).parent / "results" / "interval_coverage.jsonl"
SIZES = (10, 30, 100, 300, 1000)
_WAYS = {"single rows": 1, "clients of 5": 5, "shared": 5}
"""How rows belong to clients, and how many a client has of a group."""


@dataclass(frozen=True)
class Population:
    """True and false positive rates, and mean losses, of the first and the last group; those
    between lie evenly between them. Half of the rows are positive."""

    name: str
    true_positive: tuple[float, float]
    false_positive: tuple[float, float]
    loss: tuple[float, float] = (1.0, 1.0)

    def of_groups(self, groups: int) -> NDArray[np.float64]:
        """True positive rate, false positive rate and loss: [3, groups]."""
        ends = (self.true_positive, self.false_positive, self.loss)
        return np.stack([np.linspace(*end, groups) for end in ends])

    def gaps(self, groups: int) -> NDArray[np.float64]:
        """The FAIRNESS_FIGURES of the population."""
        of_true, of_false, loss = self.of_groups(groups)
        everyone = np.ones(groups, dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            kinds = np.stack([of_true, of_false, 1 - of_false, 1 - of_true], axis=-1)
            rates = rate_gaps(group_rates((kinds * 10**9).round().astype(np.int64)), everyone)
        right = (of_true + 1 - of_false) / 2
        scores = np.stack([np.ones(groups), right, loss])
        return np.concatenate([rates, score_values(scores, everyone, root_mean=False)])


POPULATIONS = (
    Population("alike", (0.7, 0.7), (0.3, 0.3)),
    Population("apart", (0.9, 0.6), (0.4, 0.2), (1.0, 1.5)),
    Population("rarely yes", (0.1, 0.1), (0.02, 0.02)),
    Population("one group never yes", (0.0, 0.3), (0.0, 0.1)),
    Population("never yes", (0.0, 0.0), (0.0, 0.0)),
)


def drawn(
    population: Population,
    rng: np.random.Generator,
    *,
    groups: int,
    rows: int,
    of_client: int,
    correlation: float,
    shared: bool = False,
) -> tuple[NDArray[np.int64], GroupScores]:
    """Counts [clients, groups, 4] and scores of clients with rows in one group each, or, `shared`,
    in all of them."""
    clients = rows // of_client
    shape = groups, clients
    means = population.of_groups(groups)
    rates = (np.full(groups, 0.5), *means[:2])
    effects = rng.random((4, 1, clients) if shared else (4, *shape))
    shares = [
        _of_clients(mean, correlation, effect) for mean, effect in zip(rates, effects, strict=False)
    ]
    positives = rng.binomial(of_client, shares[0], shape)
    hits = rng.binomial(positives, shares[1])
    false = rng.binomial(of_client - positives, shares[2])
    kinds = np.stack([hits, false, of_client - positives - false, positives - hits], axis=-1)
    own = means[2][:, np.newaxis] * np.exp(ndtri(effects[3]) * correlation**0.5 - correlation / 2)
    lost = rng.gamma(2.0 * of_client, own / 2, shape)
    if shared:
        counts = kinds.swapaxes(0, 1)
        right = counts[..., [0, 2]].sum(-1)
        return counts, GroupScores(counts.sum(-1), right, lost.T)
    counts = np.zeros((groups, clients, groups, 4), dtype=np.int64)
    counts[np.arange(groups), :, np.arange(groups)] = kinds
    counts = counts.reshape(-1, groups, 4)
    loss = np.zeros((groups, clients, groups))
    loss[np.arange(groups), :, np.arange(groups)] = lost
    scores = GroupScores(counts.sum(-1), counts[..., [0, 2]].sum(-1), loss.reshape(-1, groups))
    return counts, scores


def _of_clients(
    mean: NDArray[np.float64], correlation: float, effects: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of clients [groups, clients] whose rows have this intra-client correlation, from
    uniform effects that broadcast to them."""
    wide = mean[:, np.newaxis]
    if not correlation:
        return wide
    size, open_ = 1 / correlation - 1, np.clip(wide, 1e-9, 1 - 1e-9)
    found = betaincinv(open_ * size, (1 - open_) * size, effects)
    return np.where((wide == 0) | (wide == 1), wide, found)


def closed(
    counts: NDArray[np.int64], scores: GroupScores, disclosure: Disclosure
) -> NDArray[np.float64]:
    """The ends of each of FAIRNESS_FIGURES: [2, figures]; NaN where there is no interval."""
    found = rate_intervals(counts, disclosure, level=0.95)
    found |= score_intervals(scores, disclosure, root_mean=False, level=0.95)
    own = [found[name] for name in FAIRNESS_FIGURES]
    ends = [(np.nan, np.nan) if isinstance(one, str) else one for one in own]
    return np.array(ends, dtype=np.float64).T


def cell(
    population: Population,
    *,
    groups: int,
    rows: int,
    of_client: int,
    draws: int,
    shared: bool = False,
) -> dict[str, dict[str, float | None]]:
    """Coverage and mean width by figure, of the draws in which it is defined."""
    rng = np.random.default_rng([groups, rows, of_client, len(population.name)])
    correlation = 0.0 if of_client == 1 else 0.2
    true = population.gaps(groups)
    ends, defined = [], []
    disclosure = DisclosureRule(1).decide(np.full(groups, rows))
    for _ in range(draws):
        counts, scores = drawn(
            population,
            rng,
            groups=groups,
            rows=rows,
            of_client=of_client,
            correlation=correlation,
            shared=shared,
        )
        values = score_values(scores.sums.sum(0), disclosure.shown, root_mean=False)
        values = np.concatenate([rate_gaps(group_rates(counts.sum(0)), disclosure.shown), values])
        defined.append(~np.isnan(values) & ~np.isnan(true))
        ends.append(closed(counts, scores, disclosure))
    both = np.stack(ends)
    low, high = both[:, 0] - 1e-9, both[:, 1] + 1e-9
    known = np.stack(defined) & ~np.isnan(low)
    held = known & (low <= true) & (true <= high)
    found: dict[str, dict[str, float | None]] = {}
    for place, name in enumerate(FAIRNESS_FIGURES):
        of = int(known[:, place].sum())
        found[name] = {
            "draws": of,
            "coverage": int(held[:, place].sum()) / of if of else None,
            "width": float((high - low)[known[:, place], place].mean()) if of else None,
        }
    return found


def main() -> None:
    """Draw every population, print the least coverage of its figures and keep all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    names = [population.name for population in POPULATIONS]
    parser.add_argument("--populations", nargs="+", choices=names, default=names)
    parser.add_argument("--ways", nargs="+", choices=_WAYS, default=list(_WAYS))
    asked = parser.parse_args()
    found = []
    chosen = [population for population in POPULATIONS if population.name in asked.populations]
    for population, groups, way, rows in product(chosen, (2, 4), asked.ways, SIZES):
        figures = cell(
            population,
            groups=groups,
            rows=rows,
            of_client=_WAYS[way],
            draws=asked.draws,
            shared=way == "shared",
        )
        least, name = min(
            (one["coverage"], name)
            for name, one in figures.items()
            if one["coverage"] is not None and (one["draws"] or 0) >= asked.draws / 20
        )
        print(f"| {population.name} | {groups} | {way} | {rows} | {least:.3f} | {name} |")
        of = {"population": population.name, "groups": groups, "way": way, "rows": rows}
        found.append(json.dumps({**of, "figures": figures}))
    head = json.dumps({"machine": machine(), "draws": asked.draws})
    _RESULTS.write_text("\n".join([head, *found]) + "\n")


if __name__ == "__main__":
    main()
