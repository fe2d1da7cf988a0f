"""How often canaries raise an alarm: with half of the noise that is claimed, and with all of it.

    OMP_NUM_THREADS=1 python -m benchmarks.canary_power --runs 100
    OMP_NUM_THREADS=1 python -m benchmarks.canary_power --sampled --runs 100
    OMP_NUM_THREADS=1 python -m benchmarks.canary_power --tightness --runs 21
    OMP_NUM_THREADS=1 python -m benchmarks.canary_power --violations --runs 40

Each run trains a companion through the normal path with coins, directions and noise of its own; a
mechanism is sabotaged where it draws its noise. For sampled cohorts the power is computed first,
and the runs have as many canaries as it says.
"""

import argparse
import statistics
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import get_args

import torch

from benchmarks import canary_scenarios as scenarios
from benchmarks.canary_scenarios import COUNTS, KEPT, VIOLATIONS, Scenario
from benchmarks.reproductions.runs import table
from fedaudit.attacks.attack import weigh
from fedaudit.attacks.canaries.canary_attack import CanaryAudit, draw_companion
from fedaudit.attacks.canaries.canary_bounds import PlannedBounds, plan_bounds
from fedaudit.reports.sections.attacks import BoundName, CanariesSection
from fedaudit.spec.attacks import CanariesSpec

_LADDER = (40, 60, 80, 110, 150, 200, 270, 350, 500, 700, 900, 1250, 1700, 2300, 3200, 4500)
_ENOUGH = 0.99
_BOUNDS = get_args(BoundName)


def planned_for(scenario: Scenario) -> PlannedBounds:
    """What is decided before any run of the scenario."""
    spec = CanariesSpec(unit=scenario.unit, count=scenario.count)
    _, claim = draw_companion(spec, scenario.cell, device="cpu")
    assert claim is not None
    return plan_bounds(claim, canaries=scenario.count)


def measured(scenario: Scenario, planned: PlannedBounds, seed: int) -> CanariesSection:
    """The section of one run."""
    spec = CanariesSpec(unit=scenario.unit, count=scenario.count)
    companion, _ = draw_companion(spec, scenario.seeded(seed).cell, device="cpu")
    audit = CanaryAudit(companion, planned)
    audit.play(progress=lambda share: None)
    outcome = audit.outcome(weigh)
    assert isinstance(outcome.section, CanariesSection)
    return outcome.section


def alarms(sections: Iterable[CanariesSection]) -> dict[str, int]:
    """How many sections raise an alarm, in all and by each bound."""
    found = dict.fromkeys(("any", *_BOUNDS), 0)
    for section in sections:
        found["any"] += section.alarm is not None
        for bound in section.bounds:
            assert section.claim is not None
            found[bound.name] += bound.epsilon_lower_bound > section.claim
    return found


def row(scenario: Scenario, label: str, runs: int) -> list[str]:
    """Powers, and alarms with half of the noise and with all of it."""
    planned = planned_for(scenario)
    with scenario.halved():
        half = alarms(measured(scenario, planned, seed) for seed in range(runs))
    whole = alarms(measured(scenario, planned, 10_000 + seed) for seed in range(runs))
    return [
        label,
        str(scenario.count),
        *(f"{planned.tests[name].power:.2f}" for name in _BOUNDS),
        *(str(half[name]) for name in ("any", *_BOUNDS)),
        f"{whole['any']} ({whole['summed-releases']})",
    ]


_HEAD = (
    "claim", "canaries", *(f"power: {name}" for name in _BOUNDS),
    "alarms, half the noise", *_BOUNDS, "false alarms (summed-releases)",
)  # fmt: skip


def in_full_view(releases: int) -> Mapping[str, Callable[[float, int], Scenario]]:
    """By kind, so many releases with every canary in each."""
    return {
        "central": partial(scenarios.central, rounds=releases),
        "local": partial(scenarios.local, rounds=releases),
        "record": partial(scenarios.record, steps=releases),
    }


def full_view(
    claims: Iterable[float], kinds: Iterable[str], runs: int, releases: int
) -> list[list[str]]:
    """Every canary in every release."""
    made = in_full_view(releases)
    return [
        row(made[kind](claim, COUNTS[claim]), f"{kind} {claim:g}", runs)
        for kind in kinds
        for claim in claims
    ]


def sampled(claims: Iterable[float], kinds: Iterable[str], runs: int) -> list[list[str]]:
    """Cohorts by coins (a fifth, 10 rounds) and of a fixed size (a half, 5 rounds), with the fewest
    canaries whose power is enough."""
    found, kinds = [], tuple(kinds)
    for claim in claims:
        for kind in kinds:
            for count in _LADDER:
                scenario = (
                    scenarios.central(claim, count, rate=0.2, rounds=10)
                    if kind == "coins"
                    else scenarios.fixed(claim, count, share=0.5, rounds=5)
                )
                if planned_for(scenario).tests["known-noise"].power >= _ENOUGH:
                    break
            found.append(row(scenario, f"{kind} {claim:g}", runs))
    return found


def violations(claims: Iterable[float], kinds: Iterable[str], runs: int) -> list[list[str]]:
    """Alarms of runs with ten releases whose noise hides less than it seems to."""
    made: dict[str, Callable[[float, int], Scenario]] = {
        **in_full_view(10),
        "coins": partial(scenarios.central, rate=0.2, rounds=10),
        "fixed": partial(scenarios.fixed, share=0.5, rounds=10),
    }
    kinds, found = tuple(kinds), []
    for claim in claims:
        all_of = {kind: made[kind](claim, COUNTS[claim]) for kind in kinds}
        planned = {kind: planned_for(one) for kind, one in all_of.items()}
        for violation in (*VIOLATIONS, KEPT):
            cells = []
            for kind, one in all_of.items():
                if violation == KEPT and kind in ("local", "record"):
                    cells.append("-")
                    continue
                with one.sabotaged(violation):
                    seen = alarms(measured(one, planned[kind], seed) for seed in range(runs))
                others = max(seen[name] for name in _BOUNDS[:3])
                cells.append(f"{seen['any']} ({others})")
            found.append([f"{claim:g}", violation, *cells])
    return found


def tightness(claims: Iterable[float], runs: int) -> list[list[str]]:
    """The median bounds of 5,000 canaries over the exact epsilon, the noise being as claimed.

    Records of 50 clients and a model of 201 parameters: the size of the noise is measured by ten
    thousand numbers.
    """
    found = []
    for claim in claims:
        scenario = scenarios.record(claim, 5000, clients=50, hidden=50)
        planned = planned_for(scenario)
        exact = planned.claim.law.epsilon(scenarios.DELTA)
        sections = [measured(scenario, planned, seed) for seed in range(runs)]
        medians = [
            statistics.median(section.bounds[place].epsilon_lower_bound for section in sections)
            for place in range(3)
        ]
        shares = [f"{one / exact:.2f}" for one in medians]
        found.append([f"{claim:g}", f"{exact:.3f}", *shares])
    return found


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--claims", type=float, nargs="+", default=list(COUNTS))
    parser.add_argument(
        "--kinds", nargs="+", help="central, local, record; with --sampled coins, fixed"
    )
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--tightness", action="store_true")
    parser.add_argument("--violations", action="store_true")
    parser.add_argument("--releases", type=int, default=1, help="in full view")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.tightness:
        head = ("claim", "exact", "known-noise over exact", "f-dp over exact", "one-run over exact")
        print(table(head, tightness(chosen.claims, chosen.runs)))
    elif chosen.violations:
        kinds = chosen.kinds or ("central", "local", "record", "coins")
        print(table(("claim", "violation", *kinds), violations(chosen.claims, kinds, chosen.runs)))
    elif chosen.sampled:
        print(table(_HEAD, sampled(chosen.claims, chosen.kinds or ("coins", "fixed"), chosen.runs)))
    else:
        kinds = chosen.kinds or ("central", "local", "record")
        print(table(_HEAD, full_view(chosen.claims, kinds, chosen.runs, chosen.releases)))


if __name__ == "__main__":
    main()
