"""Canaries under `laplace-l2`, whose promise is a leakage within a radius and no epsilon."""

import math
from dataclasses import replace

import numpy as np

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, Weighed
from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.attacks.canaries.canary_set import CanarySet
from fedaudit.attacks.canaries.canary_words import COMPANION, CONFIDENTIAL, capabilities
from fedaudit.attacks.canaries.companion import train
from fedaudit.attacks.canaries.metric_clients import MetricClients
from fedaudit.attacks.canaries.score_table import score_table
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
from fedaudit.reports.sections.attacks import Alarm, CanariesSection, MetricAudit
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, expected_cohort

_NO_EPSILON = "metric privacy claims a leakage within a radius, and no epsilon with a delta"
_FIXED = "the inputs' noise does not depend on which of them was sent, and coins are fair"
_ADAPTIVE = "the noise follows the density that Algorithm 2 prescribes for each update"
_LEAST_POWER = 0.5


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
    """Trains the companion with two inputs, where anything can be tested of them."""
    device = attacked.device
    if privacy.radius == "adaptive":
        return _adaptive(spec, privacy, cell, pool, canaries, device=device, progress=progress)
    nu, n = privacy.noise_multiplier, cell.shape.n
    most = math.inf if privacy.clip is None else 2 * privacy.clip / privacy.radius
    test = plan_metric_test(
        n=n,
        noise_multiplier=nu,
        releases=_expected_uploads(cell, spec.count),
        most_share=most,
        significance=one_look_level(),
    )
    if test is None or test.power < _LEAST_POWER:
        return AttackOutcome(_not_done(spec, test, claim=n / nu, n=n))
    half = test.share * privacy.radius / 2
    planted = MetricClients(pool.clients, canaries, present=half, absent=-half)
    train(replace(cell, planted=planted), device=device, progress=progress)
    nearness = (planted.distances[:, 1] - planted.distances[:, 0]) / (2 * half)
    toward = np.where(canaries.coins, nearness, -nearness)
    right = int((toward > test.threshold).sum())
    wrong = int((toward < -test.threshold).sum())
    weighed = attacked.weigh(
        metric_e_value(right=right, wrong=wrong, leakage=test.leakage), "fresh"
    )
    found = least_leakage(right=right, wrong=wrong, significance=spec.significance)
    audit = MetricAudit(
        radius="fixed",
        leakage_claim=test.leakage,
        distance_over_radius=test.share,
        releases=int(np.isfinite(nearness).sum()),
        leakage_lower_bound=found,
        largest_log_ratio=None,
        median_log_ratio=None,
        significance=spec.significance,
        power=test.power,
        assumption=_FIXED,
        reason=None,
    )
    return AttackOutcome(
        _section(
            spec,
            canaries,
            audit,
            statement=(
                f"Claimed: a leakage of at most {test.leakage:.3g} between inputs at "
                f"{test.share:g} of the radius. Measured from below, from the uploads of "
                f"{audit.releases} canaries: {found:.3g} (power {test.power:.0%}). "
            ),
            alarm=_alarm(found, test, weighed, spec.significance),
            weighed=weighed,
        ),
        {"scores.csv": _scores(cell, pool, canaries, nearness, threshold=test.threshold)},
    )


def _expected_uploads(cell: Cell, canaries: int) -> int:
    """How many canaries upload at all, on average and at least one."""
    training = training_clients(cell.federation.clients, cell.spec.federation)
    share = min(1.0, expected_cohort(cell) / training)
    return max(1, int(canaries * (1 - (1 - share) ** cell.spec.training.rounds)))


def _alarm(found: float, test: MetricTest, weighed: Weighed, significance: float) -> Alarm | None:
    return weighed.alarm(
        claim=(
            f"leakage {test.leakage:.4g} between two updates of a client at {test.share:g} of the "
            "radius, against the server"
        ),
        evidence=f"at least {found:.4g}, wrong with a chance of at most {significance:.2g}",
    )


def _adaptive(
    spec: CanariesSpec,
    privacy: LaplaceL2,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    device: str,
    progress: Progress,
) -> AttackOutcome:
    """By how much the log ratio of two inputs, one twice as long as the other, passes n/nu."""
    n, nu = cell.shape.n, privacy.noise_multiplier
    length = max(1.0, privacy.radius_floor) if privacy.clip is None else privacy.clip / 2
    length = max(length, privacy.radius_floor)
    planted = MetricClients(pool.clients, canaries, present=length, absent=2 * length)
    train(replace(cell, planted=planted), device=device, progress=progress)
    near, far = (planted.distances / length).T
    of_small = adaptive_log_ratio(near=near, far=far, small=True, n=n, scale=nu / n)
    own = np.where(canaries.coins, of_small, -of_small)
    seen = own[np.isfinite(own)]
    largest = float(seen.max()) if len(seen) else None
    median = float(np.median(seen)) if len(seen) else None
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
        assumption=_ADAPTIVE,
        reason="an adaptive radius has no theorem that a bound could refute",
    )
    words = (
        "none took part"
        if largest is None
        else f"{median:.3g} in the middle, {largest:.3g} at most"
    )
    return AttackOutcome(
        _section(
            spec,
            canaries,
            audit,
            statement=(
                "The adaptive radius follows the update, so inputs of different norms have noise "
                f"of different sizes. The convention counts n/nu = {n / nu:.3g} for a release; of "
                "two inputs, one twice as long as the other, the log of the likelihood ratio was "
                f"{words}, over {len(seen)} uploads. The convention is no theorem, and this is "
                "why. "
            ),
            alarm=None,
        ),
        {"scores.csv": _scores(cell, pool, canaries, of_small, threshold=0.0)},
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
    return _section(
        spec,
        None,
        audit,
        statement=(
            f"Not tried, for the answer would say nothing: it {why}. That is no all-clear. What "
            "tests the noise here are the tests of its distribution. "
        ),
        alarm=None,
        reason=why,
    )


def _section(
    spec: CanariesSpec,
    canaries: CanarySet | None,
    audit: MetricAudit,
    *,
    statement: str,
    alarm: Alarm | None,
    weighed: Weighed | None = None,
    reason: str | None = None,
) -> CanariesSection:
    return CanariesSection(
        status="done" if reason is None else "not-done",
        reason=reason,
        statement=statement + ("" if canaries is None else f"{COMPANION} {CONFIDENTIAL}"),
        capabilities=capabilities("server", by_record=False),
        alarm=alarm,
        **({} if weighed is None else weighed.fields()),
        unit=spec.unit,
        count=spec.count,
        included=None if canaries is None else int(canaries.coins.sum()),
        claim=None,
        claim_reason=_NO_EPSILON,
        delta=None,
        adjacency=None,
        observer="server",
        compositions=None,
        correlation=None if canaries is None else 0.0,
        bounds=[],
        metric=audit,
    )


def _scores(
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    *,
    threshold: float,
) -> bytes:
    seen = np.isfinite(scores)
    guesses = np.where(scores > threshold, 1, np.where(scores < -threshold, -1, 0))
    return score_table(
        names=[cell.federation.client_names[client] for client in pool.clients],
        rows=None,
        coins=canaries.coins,
        releases=seen.astype(np.int64),
        scores=scores,
        guesses=np.where(seen, guesses, 0).astype(np.int8),
    )
