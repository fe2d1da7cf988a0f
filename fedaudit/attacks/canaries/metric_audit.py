"""Canaries under `laplace-l2`, which promises a leakage within a radius and no epsilon."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.attacks.canaries.planted_canaries import (
    CanarySet,
    MetricClients,
    canaries_outcome,
    capabilities,
    train,
)
from fedaudit.federations.split import training_clients
from fedaudit.privacy.lower_bounds.e_values import (
    LARGEST_LEAKAGE,
    MetricTest,
    adaptive_log_ratio,
    least_leakage,
    metric_e_value,
    one_look_level,
    plan_metric_test,
)
from fedaudit.reports.document.attacks.canaries_section import CanariesSection, MetricAudit
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, expected_cohort

_FIXED = "the inputs' noise does not depend on which of them was sent, and coins are fair"
_ADAPTIVE = "the noise follows the density that Algorithm 2 prescribes for each update"
_LEAST_POWER = 0.5
_NO_EPSILON: dict[str, Any] = {
    "claim": None,
    "claim_reason": "metric privacy claims a leakage within a radius, and no epsilon with a delta",
    "delta": None,
    "adjacency": None,
    "compositions": None,
    "bounds": [],
}


def audit_metric(
    spec: CanariesSpec,
    privacy: LaplaceL2,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    attacked: AttackedRun,
    progress: Progress,
) -> AttackOutcome:
    """Trains the companion with two inputs, if they can test anything."""
    if privacy.radius == "adaptive":
        return _audit_adaptive(
            spec, privacy, cell, pool, canaries, device=attacked.device, progress=progress
        )
    nu, n, count = privacy.noise_multiplier, cell.shape.n, spec.count
    training = training_clients(cell.federation.clients, cell.spec.federation)
    absent = 1 - min(1.0, expected_cohort(cell) / training)
    test = plan_metric_test(
        n=n,
        noise_multiplier=nu,
        # How many canaries upload at all, on average and at least one.
        releases=max(1, int(count * (1 - absent**cell.spec.training.rounds))),
        most_share=math.inf if privacy.clip is None else 2 * privacy.clip / privacy.radius,
        significance=one_look_level(),
    )
    if test is None or test.power < _LEAST_POWER:
        return AttackOutcome(_not_done(spec, test, claim=n / nu, n=n))
    half = test.share * privacy.radius / 2
    planted = MetricClients(pool.clients, canaries, present=half, absent=-half)
    train(replace(cell, planted=planted), device=attacked.device, progress=progress)
    nearness = (planted.distances[:, 1] - planted.distances[:, 0]) / (2 * half)
    toward = np.where(canaries.coins, nearness, -nearness)
    right = int((toward > test.threshold).sum())
    wrong = int((toward < -test.threshold).sum())
    weighed = attacked.weigh(
        metric_e_value(right=right, wrong=wrong, leakage=test.leakage), "fresh"
    )
    found = least_leakage(right=right, wrong=wrong, significance=spec.significance)
    uploads = int(np.isfinite(nearness).sum())
    alarm = weighed.alarm(
        claim=(
            f"leakage {test.leakage:.4g} between two updates of a client at {test.share:g} of the "
            "radius, against the server"
        ),
        evidence=f"at least {found:.4g}, wrong with a chance of at most {spec.significance:.2g}",
    )
    return _outcome(
        spec,
        cell,
        pool,
        canaries,
        MetricAudit(
            radius="fixed",
            leakage_claim=test.leakage,
            distance_over_radius=test.share,
            releases=uploads,
            leakage_lower_bound=found,
            largest_log_ratio=None,
            median_log_ratio=None,
            significance=spec.significance,
            power=test.power,
            assumption=_FIXED,
            reason=None,
        ),
        statement=(
            f"Claimed: a leakage of at most {test.leakage:.3g} between inputs at {test.share:g} of "
            f"the radius. Measured from below, from the uploads of {uploads} canaries: "
            f"{found:.3g} (power {test.power:.0%})."
        ),
        scores=nearness,
        threshold=test.threshold,
        fields={"alarm": alarm, **weighed.fields()},
    )


def _audit_adaptive(
    spec: CanariesSpec,
    privacy: LaplaceL2,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    device: str,
    progress: Progress,
) -> AttackOutcome:
    """By how much the log ratio of two inputs, one twice as long as the other, exceeds n/nu."""
    n, nu = cell.shape.n, privacy.noise_multiplier
    length = max(1.0 if privacy.clip is None else privacy.clip / 2, privacy.radius_floor)
    planted = MetricClients(pool.clients, canaries, present=length, absent=2 * length)
    train(replace(cell, planted=planted), device=device, progress=progress)
    near, far = (planted.distances / length).T
    of_small = adaptive_log_ratio(near=near, far=far, small=True, n=n, scale=nu / n)
    own = np.where(canaries.coins, of_small, -of_small)
    seen = own[np.isfinite(own)]
    largest, median = (float(seen.max()), float(np.median(seen))) if len(seen) else (None, None)
    words = "none took part"
    if largest is not None:
        words = f"{median:.3g} in the middle, {largest:.3g} at most"
    return _outcome(
        spec,
        cell,
        pool,
        canaries,
        MetricAudit(
            radius="adaptive",
            leakage_claim=n / nu,
            distance_over_radius=None,
            releases=len(seen),
            leakage_lower_bound=None,
            largest_log_ratio=largest,
            median_log_ratio=median,
            significance=None,
            power=None,
            assumption=_ADAPTIVE,
            reason="an adaptive radius has no theorem that a bound could refute",
        ),
        statement=(
            "The adaptive radius follows the update, so inputs of different norms have noise of "
            f"different sizes. The convention counts n/nu = {n / nu:.3g} for a release; of two "
            "inputs, one twice as long as the other, the log of the likelihood ratio was "
            f"{words}, over {len(seen)} uploads. The convention is no theorem, and this is why."
        ),
        scores=of_small,
        threshold=0.0,
        fields={},
    )


def _outcome(
    spec: CanariesSpec,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    audit: MetricAudit,
    *,
    statement: str,
    scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    threshold: float,
    fields: dict[str, Any],
) -> AttackOutcome:
    seen = np.isfinite(scores)
    guesses = np.where(scores > threshold, 1, np.where(scores < -threshold, -1, 0))
    return canaries_outcome(
        spec,
        cell,
        pool,
        canaries,
        statement=statement,
        observer="server",
        releases=seen.astype(np.int64),
        scores=scores,
        guesses=np.where(seen, guesses, 0).astype(np.int8),
        fields={**_NO_EPSILON, "correlation": 0.0, "metric": audit, **fields},
    )


def _not_done(
    spec: CanariesSpec, test: MetricTest | None, *, claim: float, n: int
) -> CanariesSection:
    if test is None:
        why = (
            f"cannot be audited: a leakage of {claim:.3g} is beyond {LARGEST_LEAKAGE:g} at every "
            "distance that was tried"
        )
    else:
        why = (
            f"cannot be audited: with {spec.count} canaries and {n} parameters, noise half of what "
            f"is claimed would be noticed with a chance of {test.power:.0%} at best; metric "
            "privacy hides in dimension"
        )
    audit = MetricAudit(
        radius="fixed",
        leakage_claim=claim,
        distance_over_radius=None if test is None else test.share,
        releases=0,
        leakage_lower_bound=None,
        largest_log_ratio=None,
        median_log_ratio=None,
        significance=spec.significance,
        power=0.0 if test is None else test.power,
        assumption=_FIXED,
        reason=why,
    )
    return CanariesSection(
        status="not-done",
        reason=why,
        statement=(
            f"Not tried, for the answer would say nothing: it {why}. That is no all-clear. What "
            "tests the noise here are the tests of its distribution."
        ),
        capabilities=capabilities("server", by_record=False),
        unit=spec.unit,
        count=spec.count,
        included=None,
        observer="server",
        correlation=None,
        metric=audit,
        **_NO_EPSILON,
    )
