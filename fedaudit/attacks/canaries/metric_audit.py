"""Canaries under `laplace-l2`, which promises a leakage within a radius and no epsilon."""

import math
from collections.abc import Callable
from typing import Any, Literal

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
    least_leakage,
    metric_e_value,
    one_look_level,
    plan_metric_test,
)
from fedaudit.reports.sections.attacks import CanariesSection, MetricAudit
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import expected_cohort

_LEAST_POWER = 0.5
_NO_THEOREM = (
    "an adaptive radius follows the update, so that inputs of different norms have noise of "
    "different sizes: n/nu is a convention, and no theorem that a bound could refute"
)
_ASSUMPTION = "the inputs' noise does not depend on which of them was sent, and coins are fair"
_NO_EPSILON = "metric privacy claims a leakage within a radius, and no epsilon with a delta"


def audit_metric(
    companion: Companion,
    privacy: LaplaceL2,
    weigh: Callable[[float, EvidenceBasis], Weighed],
    *,
    progress: Progress,
) -> AttackOutcome:
    """Trains the companion with two inputs, if they can test anything."""
    spec, cell, canaries = companion.spec, companion.cell, companion.canaries
    nu, n = privacy.noise_multiplier, cell.shape.n
    if privacy.radius == "adaptive":
        return AttackOutcome(_not_done(companion, _NO_THEOREM, radius="adaptive", leakage=n / nu))
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
    if test is None:
        why = f"a leakage of {n / nu:.3g} is beyond {LARGEST_LEAKAGE:g} at every distance tried"
        return AttackOutcome(_not_done(companion, why, leakage=n / nu))
    if test.power < _LEAST_POWER:
        why = (
            f"with {spec.count} canaries and {n} parameters, noise half of what is claimed would "
            f"be noticed with a chance of {test.power:.0%} at best; metric privacy hides in "
            "dimension"
        )
        return AttackOutcome(_not_done(companion, why, leakage=n / nu, test=test))
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
        radius="fixed",
        leakage_claim=test.leakage,
        distance_over_radius=test.share,
        releases=uploads,
        leakage_lower_bound=found,
        significance=spec.significance,
        power=test.power,
        assumption=_ASSUMPTION,
        reason=None,
    )
    statement = (
        f"Claimed: a leakage of at most {test.leakage:.3g} between inputs at {test.share:g} of the "
        f"radius. Measured from below, from the uploads of {uploads} canaries: {found:.3g} (power "
        f"{test.power:.0%})."
    )
    more = {"alarm": alarm, **weighed.fields()}
    return _outcome(companion, audit, statement, nearness, threshold=test.threshold, **more)


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


def _not_done(
    companion: Companion,
    why: str,
    *,
    leakage: float,
    radius: Literal["fixed", "adaptive"] = "fixed",
    test: MetricTest | None = None,
) -> CanariesSection:
    spec, reason = companion.spec, f"cannot be audited: {why}"
    audit = MetricAudit(
        radius=radius,
        leakage_claim=leakage,
        distance_over_radius=None if test is None else test.share,
        releases=0,
        leakage_lower_bound=None,
        significance=spec.significance,
        power=0.0 if test is None else test.power,
        assumption=_ASSUMPTION,
        reason=reason,
    )
    return CanariesSection(
        status="not-done",
        reason=reason,
        statement=(
            f"Not tried, for the answer would say nothing: it {reason}. That is no all-clear. What "
            "tests the noise here are the tests of its distribution."
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
