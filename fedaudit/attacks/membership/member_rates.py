"""Rates of a membership attack, of all rows and by group, and what the run's claim allows.

(epsilon, delta)-differential privacy between two datasets bounds every test of one against the
other: P(found | member) <= e^epsilon P(taken for one | non-member) + delta, and the same of the
complements (Kairouz, Oh and Viswanath 2015, theorem 2.1).

How many neighbours lie between a run that trained on a row and one that did not follows from how
rows are held out. Of a fixed number of clients some are drawn: a client that is held out has
another in its place, which is one step of replace-one, and two of zero-out (one client comes and
one goes). A record that is held out by an independent coin is one step of zero-out. Over m steps
the claim is (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)) (Dwork and Roth 2014, 2.3).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
from scipy.special import stdtrit
from sklearn.metrics import roc_auc_score, roc_curve

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.attacks.attack import AttackedRun
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.fairness.intervals import exact_limits
from fedaudit.fairness.joint_disclosure import Population, decide_together
from fedaudit.privacy.accounting.privacy_events import Adjacency, adjacency_words, observer_words
from fedaudit.privacy.lower_bounds.e_values import calibrated, one_look_level, staked
from fedaudit.privacy.mechanisms.base import PrivacyUnit
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.plan import ObserverEpsilon
from fedaudit.reports.sections.attacks import (
    AttributeMembership,
    ConfidenceLimits,
    GroupMembership,
    RateAtFpr,
)
from fedaudit.reports.sections.epsilon import planned_epsilons
from fedaudit.runs.run import Run
from fedaudit.spec.models import ArtifactStart
from fedaudit.training.base.rounds import reported_end


def clopper_pearson(hits: float, trials: float, *, confidence: float) -> ConfidenceLimits:
    """See `exact_limits`."""
    low, high = exact_limits(hits, trials, confidence=confidence)
    return ConfidenceLimits(low=low, high=high)


def clustered_interval(hits: Bools, clusters: Ints, *, confidence: float) -> ConfidenceLimits:
    """The interval of a share of trials that are alike within clusters (Korn and Graubard 1998).

    Clopper and Pearson's for as many independent trials as would have the variance that the
    clusters show; never for more than there are. Clusters that are all hits, or all misses, show no
    variance: then each is worth one trial, which is the least. `hits`, `clusters` [trials]: whether
    each was a hit, and which cluster it is of. Raises ValueError without a trial.
    """
    of_cluster = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(of_cluster)
    count, trials = len(sizes), len(hits)
    share, worth = float(hits.mean()) if trials else 0.0, float(count)
    if count not in (0, 1, trials) and share not in (0.0, 1.0):
        own = np.bincount(of_cluster, weights=hits.astype(np.float64))
        spread = float(((own - share * sizes) ** 2).sum())
        variance = count / (count - 1) * spread / trials**2
        independent, tail = share * (1 - share) / trials, (1 - confidence) / 2
        # The variance is itself estimated, from as many clusters.
        ratio = float(stdtrit(trials - 1, tail) / stdtrit(count - 1, tail)) ** 2
        worth = float(trials)
        if variance > 0:
            worth = min(worth, trials * independent / variance * ratio)
    return clopper_pearson(worth * share, worth, confidence=confidence)


CONFIDENCE = 0.95
"""Confidence level of intervals."""
FALSE_POSITIVE_RATES = (0.001, 0.01)
MIN_FALSE_POSITIVES = 10
"""A rate of false positives is evaluated if it makes at least so many of them."""
_SUPPRESSED = (
    "suppressed: the report does not disclose the group, or too few of its rows were attacked, or "
    "others that few would follow from if it were shown"
)
_ROUNDED = (
    "suppressed: the report rounds its counts, and rates of groups would give them back; set "
    "`fairness.rounding` to null to see them"
)
_WARM = (
    "the claim covers what this run added to the parameters that it started from, and members may "
    "be recognised by those"
)
_METRIC = (
    "the claim is one of metric privacy: it bounds densities within a distance, for datasets that "
    "are near each other, and does not translate into rates of false and true positives"
)
_UNIT_DIFFERS = (
    "the claim is of single records, and here all rows of a client are in the training data or "
    "outside of it together; hold out records (`federation.validation_unit: record`) to compare"
)
_LARGEST_EXPONENT = 700.0
"""Above it the exponential overflows, and the bound shows nothing anyway."""
_LEVELS = 0.5 ** np.arange(41)
"""Levels among which the p-value is searched; it is the next larger one."""


@dataclass(frozen=True)
class FoundMembers:
    """The members found at one threshold on scores."""

    rate: RateAtFpr
    threshold: float | None
    """Rows that score at least this much are taken for members; None for too few non-members."""


def area_under_curve(scores: Floats, member: Bools) -> float:
    """The chance that a member's score is the larger one, ties counting half."""
    return float(roc_auc_score(member, scores))


def found_members(scores: Floats, rows: AttackedRows) -> list[FoundMembers]:
    """Find at each of FALSE_POSITIVE_RATES the threshold that keeps it and finds most members.

    `scores` [rows], finite. The interval counts as many independent rows as the clients' rows are
    worth.
    """
    member = rows.member
    false, true, thresholds = roc_curve(member, scores, drop_intermediate=False)
    others, found = int((~member).sum()), []
    for rate in FALSE_POSITIVE_RATES:
        needed = round(MIN_FALSE_POSITIVES / rate)
        if others < needed:
            why = (
                f"{others} non-members were attacked, and a false positive rate of {rate:.1%} "
                f"needs {needed} or more"
            )
            found.append(FoundMembers(RateAtFpr(fpr=rate, reason=why), None))
            continue
        last = int(np.searchsorted(false, rate + 1e-12, side="right")) - 1
        hits = scores[member] >= thresholds[last]
        interval = clustered_interval(hits, rows.client[member], confidence=CONFIDENCE)
        at_rate = RateAtFpr(fpr=rate, tpr=float(true[last]), interval=interval)
        found.append(FoundMembers(at_rate, float(thresholds[last])))
    return found


def group_exposure(
    run: Run, rows: AttackedRows, scores: Floats, overall: list[FoundMembers]
) -> list[AttributeMembership]:
    """The groups of every sensitive attribute; `overall`: at the thresholds of all rows.

    A group's figures rest on its members, whom the report's own figures do not count, as well as on
    held-out rows. So a group is shown if the report shows it *and* the rule of its attribute allows
    it for the rows attacked, members and non-members each.
    """
    shown, rounded = shown_groups_of(run, rows), run.spec.fairness.rounded_to is not None
    found = []
    for attribute in run.federation.attributes:
        codes, groups = attribute.codes[rows.place], []
        for place, value in enumerate(attribute.values):
            if rounded or not shown[attribute.name][place]:
                why = _ROUNDED if rounded else _SUPPRESSED
                groups.append(GroupMembership(value=value, suppressed=True, reason=why))
            else:
                groups.append(_group(value, rows, scores, codes == place, overall))
        found.append(AttributeMembership(attribute=attribute.name, groups=groups))
    return found


def shown_groups_of(run: Run, rows: AttackedRows) -> Mapping[str, Bools]:
    """Which groups are shown, keyed by attribute: bool [groups]."""
    shown = {name: one.shown for name, one in run.disclosures.items()}
    rules = {name: one.rule for name, one in run.disclosures.items()}
    attributes = run.federation.attributes
    for side in (rows.member, ~rows.member) if rules else ():
        population = Population(
            codes={one.name: one.codes[rows.place[side]].astype(np.int64) for one in attributes},
            groups={one.name: len(one.values) for one in attributes},
            clients=rows.client[side],
        )
        decided = decide_together(rules, population, beforehand=shown)
        shown = {name: one.shown for name, one in decided.items()}
    return shown


def _group(
    value: str, rows: AttackedRows, scores: Floats, own: Bools, overall: list[FoundMembers]
) -> GroupMembership:
    members, others = own & rows.member, own & ~rows.member
    if not (members.any() and others.any()):
        why = "no member, or no non-member, of the group was attacked"
        return GroupMembership(value=value, reason=why)
    rates = []
    for beyond in (scores >= one.threshold for one in overall if one.threshold is not None):
        interval = clustered_interval(beyond[members], rows.client[members], confidence=CONFIDENCE)
        fpr, tpr = float(beyond[others].mean()), float(beyond[members].mean())
        rates.append(RateAtFpr(fpr=fpr, tpr=tpr, interval=interval))
    auc = area_under_curve(scores[own], rows.member[own])
    return GroupMembership(value=value, auc=auc, tpr_at_fpr=rates)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a run claims for the unit that is attacked, against those who see the model."""

    claimed: ObserverEpsilon
    unit: PrivacyUnit
    steps: int

    @property
    def epsilon(self) -> float:
        """Epsilon over all steps."""
        return self.steps * self.claimed.value

    @property
    def delta(self) -> float:
        """Delta over all steps."""
        epsilon = self.claimed.value
        # Of the geometric sum 1 + e^epsilon + ...
        factors = [math.exp(min(step * epsilon, _LARGEST_EXPONENT)) for step in range(self.steps)]
        return min(1.0, self.claimed.delta * sum(factors))

    def tpr_max(self, fpr: float) -> float:
        """The largest share of members that may be found at this share of false positives."""
        factor = math.exp(min(self.epsilon, _LARGEST_EXPONENT))
        by_members = factor * fpr + self.delta
        by_others = 1 - (1 - self.delta - fpr) / factor
        return max(0.0, min(1.0, by_members, by_others))

    def __str__(self) -> str:
        one = self.claimed
        return (
            f"epsilon {one.value:.4g} at delta {one.delta:g} for every {self.unit}, under "
            f"{adjacency_words(one.adjacency)}, against {observer_words(one.observer)}"
        )


def claim_of(attacked: AttackedRun) -> Claim | str:
    """The claim of a run that bounds this attack, or why there is none."""
    run, result = attacked.run, attacked.result
    mechanism, inputs = mechanism_of(run.spec), run.ledger.inputs
    match inputs.cost_kind:
        case "unbounded":
            return why_unbounded(inputs)
        case "leakage":
            return _METRIC
        case "epsilon":
            pass
        case _:
            assert_never(inputs.cost_kind)
    if isinstance(run.spec.model.start, ArtifactStart):
        return _WARM
    if mechanism.uncovered_model is not None:
        return f"no claim covers the model: {mechanism.uncovered_model}"
    plan = run.ledger.ledger_context.plan
    if plan is None:
        raise ValueError("a run with an epsilon has a spending plan")
    found = planned_epsilons(
        run.spec,
        plan,
        run.ledger.compositions,
        rounds=result.rounds,
        stopped_by=reported_end(result.stopped_by),
    ) or plan.spent(run.ledger.compositions)
    # Where the claim is against the server alone, it sees the models, too.
    claimed = next((one for one in found if one.observer == "final_model"), found[0])
    unit = mechanism.facts.unit
    steps = _steps(unit, claimed.adjacency, holds_out_rows=run.spec.federation.holds_out_rows)
    return _UNIT_DIFFERS if steps is None else Claim(claimed=claimed, unit=unit, steps=steps)


def _steps(unit: PrivacyUnit, adjacency: Adjacency, *, holds_out_rows: bool) -> int | None:
    """How many neighbours lie between a run with a row and one without; None if the unit is smaller
    than what goes in and out together."""
    match unit:
        case "record":
            return 1 if holds_out_rows else None
        case "client":
            pass
        case _:
            assert_never(unit)
    match adjacency:
        case "replace-one":
            return 1
        case "add-or-remove-one":
            return 2
        case _:
            assert_never(adjacency)


def contradiction_of(claim: Claim, scores: Floats, rows: AttackedRows) -> dict[str, Any]:
    """How far the members found exceed what a claim allows, as `AttackedRun.weigh` takes it: by the
    smallest level at which the limits at some rate contradict the claim.

    One row of each client counts: rows of one client are alike, and how much so cannot be measured
    on a few clients. What a claim allows of one release may fail with a chance of about delta for
    each row (Steinke, Nasr and Jagielski 2023), which is added to the p-value.
    """
    alone = np.unique(rows.client, return_index=True)[1]
    own, member = scores[alone], rows.member[alone]
    # Level 1 is never wrong.
    low = bisect_left(
        range(1, len(_LEVELS)),
        True,
        key=lambda at: _contradicted(claim, own, member, level=float(_LEVELS[at])) is None,
    )
    p_value = min(1.0, float(_LEVELS[low]) + 2 * len(alone) * claim.delta)
    level = one_look_level()
    found, others, allowed = _contradicted(claim, own, member, level=level) or _limits(
        claim, own, member, rate=FALSE_POSITIVE_RATES[-1], level=level
    )
    return {
        "e_value": staked(p_value, calibrated(p_value)),
        "basis": "run",
        "claim": f"{claim}: of the members at most {allowed:.2%} are found where {others:.2%} "
        "of the others are taken for members",
        "evidence": (
            f"at least {found:.2%} of the members were found where at most {others:.2%} of the "
            f"others were taken for members, by one score of each of {len(alone)} clients (p-value "
            f"{p_value:.2g} over the {len(FALSE_POSITIVE_RATES)} rates evaluated; different "
            "clients being taken as independent, also given the model)"
        ),
    }


Limits = tuple[float, float, float]
"""Members found, at least; others taken for members, at most; members that the claim allows."""


def _contradicted(claim: Claim, scores: Floats, member: Bools, *, level: float) -> Limits | None:
    """The limits at the first rate where they contradict the claim, wrong with a chance of at most
    `level` over all rates (Bonferroni)."""
    found = (_limits(claim, scores, member, rate=one, level=level) for one in FALSE_POSITIVE_RATES)
    return next((limits for limits in found if limits[0] > limits[2]), None)


def _limits(claim: Claim, scores: Floats, member: Bools, *, rate: float, level: float) -> Limits:
    """The limits of independent rows at a rate.

    The threshold is the score of a fixed rank among the others, so that their limit is exact for an
    order statistic. Without a member or an other nothing is known: the first rows of few clients,
    of which records are held out, may all be members.
    """
    if member.all() or not member.any():
        return 0.0, 1.0, 1.0
    others = np.sort(scores[~member])[::-1]
    rank = int(rate * len(others))
    hits = scores[member] > others[min(rank, len(others) - 1)]
    # Each of the two limits at each rate fails with an equal share of the level.
    confidence = 1 - level / len(FALSE_POSITIVE_RATES)
    low = clopper_pearson(int(hits.sum()), len(hits), confidence=confidence).low
    high = clopper_pearson(rank, len(others), confidence=confidence).high
    return low, high, claim.tpr_max(high)
