"""Canaries under `laplace-l2`, which promises a leakage within a radius and no epsilon."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.attacks.attack import AttackOutcome, Progress, Weighed
from fedaudit.attacks.canaries.planted_canaries import (
    Companion,
    MetricClients,
    capabilities,
    no_epsilon,
)
from fedaudit.federations.split import training_clients
from fedaudit.privacy.lower_bounds.e_values import (
    LARGEST_LEAKAGE,
    EvidenceBasis,
    MetricTest,
    adaptive_log_ratio,
    least_leakage,
    metric_e_value,
    one_look_level,
    plan_metric_test,
)
from fedaudit.reports.sections.attacks import CanariesSection, MetricAudit
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import expected_cohort

_LEAST_POWER = 0.5
_NO_EPSILON = "metric privacy claims a leakage within a radius, and no epsilon with a delta"
_FIXED: dict[str, Any] = {
    "radius": "fixed",
    "largest_log_ratio": None,
    "median_log_ratio": None,
    "assumption": "the inputs' noise does not depend on which of them was sent, and coins are fair",
}


def audit_metric(
    companion: Companion,
    privacy: LaplaceL2,
    weigh: Callable[[float, EvidenceBasis], Weighed],
    *,
    progress: Progress,
) -> AttackOutcome:
    """Trains the companion with two inputs, if they can test anything."""
    if privacy.radius == "adaptive":
        return _audit_adaptive(companion, privacy, progress=progress)
    spec, cell, canaries = companion.spec, companion.cell, companion.canaries
    nu, n = privacy.noise_multiplier, cell.shape.n
    training = training_clients(cell.federation.clients, cell.spec.federation)
    absent = 1 - min(1.0, expected_cohort(cell) / training)
    test = plan_metric_test(
        n=n,
        noise_multiplier=nu,
        # How many canaries upload at all, on average and at least one.
        releases=max(1, int(spec.count * (1 - absent**cell.spec.training.rounds))),
        most_share=math.inf if privacy.clip is None else 2 * privacy.clip / privacy.radius,
        significance=one_look_level(),
    )
    if test is None or test.power < _LEAST_POWER:
        return AttackOutcome(_not_done(companion, test, leakage=n / nu))
    half = test.share * privacy.radius / 2
    planted = MetricClients(companion.pool.clients, canaries, present=half, absent=-half)
    companion.train(planted, progress=progress)
    nearness = (planted.distances[:, 1] - planted.distances[:, 0]) / (2 * half)
    toward = np.where(canaries.coins, nearness, -nearness)
    right = int((toward > test.threshold).sum())
    wrong = int((toward < -test.threshold).sum())
    weighed = weigh(metric_e_value(right=right, wrong=wrong, leakage=test.leakage), "fresh")
    found = least_leakage(right=right, wrong=wrong, significance=spec.significance)
    uploads = int(np.isfinite(nearness).sum())
    alarm = weighed.alarm(
        claim=(
            f"leakage {test.leakage:.4g} between two updates of a client at {test.share:g} of the "
            "radius, against the server"
        ),
        evidence=f"at least {found:.4g}, wrong with a chance of at most {spec.significance:.2g}",
    )
    audit = MetricAudit(
        leakage_claim=test.leakage,
        distance_over_radius=test.share,
        releases=uploads,
        leakage_lower_bound=found,
        significance=spec.significance,
        power=test.power,
        reason=None,
        **_FIXED,
    )
    statement = (
        f"Claimed: a leakage of at most {test.leakage:.3g} between inputs at {test.share:g} of the "
        f"radius. Measured from below, from the uploads of {uploads} canaries: {found:.3g} (power "
        f"{test.power:.0%})."
    )
    more = {"alarm": alarm, **weighed.fields()}
    return _outcome(companion, audit, statement, nearness, threshold=test.threshold, **more)


def _audit_adaptive(
    companion: Companion, privacy: LaplaceL2, *, progress: Progress
) -> AttackOutcome:
    """By how much the log ratio of two inputs, one twice as long as the other, exceeds n/nu."""
    n, nu, canaries = companion.cell.shape.n, privacy.noise_multiplier, companion.canaries
    length = max(1.0 if privacy.clip is None else privacy.clip / 2, privacy.radius_floor)
    clients = companion.pool.clients
    planted = MetricClients(clients, canaries, present=length, absent=2 * length)
    companion.train(planted, progress=progress)
    near, far = (planted.distances / length).T
    of_small = adaptive_log_ratio(near=near, far=far, n=n, scale=nu / n)
    own = np.where(canaries.coins, of_small, -of_small)
    seen = own[np.isfinite(own)]
    largest, median = (float(seen.max()), float(np.median(seen))) if len(seen) else (None, None)
    words = "none took part"
    if largest is not None:
        words = f"{median:.3g} in the middle, {largest:.3g} at most"
    audit = MetricAudit(
        radius="adaptive",
        leakage_claim=n / nu,
        distance_over_radius=None,
        releases=len(seen),
        leakage_lower_bound=None,
        largest_log_ratio=largest,
        median_log_ratio=median,
        significance=None,
        power=None,
        assumption="the noise follows the density that Algorithm 2 prescribes for each update",
        reason="an adaptive radius has no theorem that a bound could refute",
    )
    statement = (
        "The adaptive radius follows the update, so inputs of different norms have noise of "
        f"different sizes. The convention counts n/nu = {n / nu:.3g} for a release; of two "
        "inputs, one twice as long as the other, the log of the likelihood ratio was "
        f"{words}, over {len(seen)} uploads. The convention is no theorem, and this is why."
    )
    return _outcome(companion, audit, statement, of_small, threshold=0.0)


def _outcome(
    companion: Companion,
    audit: MetricAudit,
    statement: str,
    scores: Floats,
    *,
    threshold: float,
    **more: Any,
) -> AttackOutcome:
    seen = np.isfinite(scores)
    guesses = np.where(scores > threshold, 1, np.where(scores < -threshold, -1, 0))
    return companion.outcome(
        statement,
        "server",
        releases=seen.astype(np.int64),
        scores=scores,
        guesses=np.where(seen, guesses, 0).astype(np.int8),
        fields={**no_epsilon(_NO_EPSILON), "correlation": 0.0, "metric": audit, **more},
    )


def _not_done(companion: Companion, test: MetricTest | None, *, leakage: float) -> CanariesSection:
    spec = companion.spec
    if test is None:
        why = (
            f"cannot be audited: a leakage of {leakage:.3g} is beyond {LARGEST_LEAKAGE:g} at every "
            "distance that was tried"
        )
    else:
        why = (
            f"cannot be audited: with {spec.count} canaries and {companion.cell.shape.n} "
            "parameters, noise half of what is claimed would be noticed with a chance of "
            f"{test.power:.0%} at best; metric privacy hides in dimension"
        )
    audit = MetricAudit(
        leakage_claim=leakage,
        distance_over_radius=None if test is None else test.share,
        releases=0,
        leakage_lower_bound=None,
        significance=spec.significance,
        power=0.0 if test is None else test.power,
        reason=why,
        **_FIXED,
    )
    return CanariesSection(
        status="not-done",
        reason=why,
        statement=(
            f"Not tried, for the answer would say nothing: it {why}. That is no all-clear. What "
            "tests the noise here are the tests of its distribution. "
        ),
        capabilities=capabilities("server", by_record=False),
        unit=spec.unit,
        count=spec.count,
        included=None,
        observer="server",
        correlation=None,
        metric=audit,
        **no_epsilon(_NO_EPSILON),
    )
