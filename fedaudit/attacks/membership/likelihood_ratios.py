"""LiRA: how much likelier a row's statistic is among shadow runs that trained on it (Carlini et
al., "Membership inference attacks from first principles", 2022, algorithm 1).

Statistics are taken for normal, by row, with and without it. `normality` tells how often they are
not.
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import log_ndtr

from fedaudit.attacks.membership.shadow_runs import ShadowObservations
from fedaudit.spec.attacks.membership_spec import ScoreVariance, ShadowVariant

TESTED_ROWS = 500
"""Rows whose statistics are tested, at most: a test takes a tenth of a millisecond."""
LEVEL = 0.05
"""Of the test of a row; each of its two sides gets half of it."""
_FLOOR = 1e-6
"""A row's variance is at least so much of the average one: a few equal statistics are no proof."""
_FEWEST = 3


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal distributions of the statistics of rows; both [rows]."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def log_density(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """[rows] of values [rows], without the constant."""
        apart = (values - self.mean) / self.deviation
        return -0.5 * apart**2 - np.log(self.deviation)


def likelihood_ratios(
    target: NDArray[np.float64],
    shadows: ShadowObservations,
    *,
    residuals: bool,
    variant: ShadowVariant,
    variance: ScoreVariance,
) -> NDArray[np.float64]:
    """The score of each row, larger for likelier members: [rows].

    `target` [rows]: statistics under the attacked run; `residuals`: whether statistics are
    residuals, which are small for a good fit, and not logits, which are large. `online`: logarithm
    of the ratio of densities with the row and without it. `offline`: logarithm of the chance that
    the statistic of a run without the row is as good a fit or worse.
    """
    without = _fitted(shadows.statistic, ~shadows.trained, variance)
    match variant:
        case "online":
            with_it = _fitted(shadows.statistic, shadows.trained, variance)
            return with_it.log_density(target) - without.log_density(target)
        case "offline":
            if not residuals:
                return np.asarray(log_ndtr((target - without.mean) / without.deviation))
            size = np.abs(target)
            above = log_ndtr(-(size - without.mean) / without.deviation)
            below = log_ndtr((-size - without.mean) / without.deviation)
            return np.asarray(np.logaddexp(above, below))
        case _:
            assert_never(variant)


def _fitted(
    statistic: NDArray[np.float64], of: NDArray[np.bool_], variance: ScoreVariance
) -> Normal:
    """Fitted to statistics [shadows, rows]; `of`, of that shape, says which of them count."""
    counted = of & np.isfinite(statistic)
    count = counted.sum(0)
    values = np.where(counted, statistic, 0.0)
    mean = values.sum(0) / np.maximum(count, 1)
    squares = (np.where(counted, statistic - mean, 0.0) ** 2).sum(0)
    free = np.maximum(count - 1, 0)
    common = float(squares.sum() / max(int(free.sum()), 1))
    # Where everything is equal any number will do.
    floor = max(_FLOOR * common, np.finfo(np.float64).tiny)
    match variance:
        case "per-record":
            own = squares / np.maximum(free, 1)
        case "global":
            own = np.full(len(mean), common)
        case _:
            assert_never(variance)
    return Normal(mean, np.sqrt(np.maximum(own, floor)))


def not_normal(
    shadows: ShadowObservations, rows: NDArray[np.int64], *, level: float = LEVEL
) -> NDArray[np.bool_]:
    """Whether a Shapiro-Wilk test calls the statistics of these rows not normal: bool [rows].

    A row is tested with the shadow runs that trained on it and with the others, each at half the
    level, so of normal ones about `level` are called so. Equal statistics are not normal.
    """
    found = np.zeros(len(rows), dtype=np.bool_)
    for place, row in enumerate(rows.tolist()):
        values, trained = shadows.statistic[:, row], shadows.trained[:, row]
        sides = (values[trained], values[~trained])
        found[place] = any(_deviates(side, level=level / 2) for side in sides)
    return found


def _deviates(values: NDArray[np.float64], *, level: float) -> bool:
    values = values[np.isfinite(values)]
    if len(values) < _FEWEST or np.ptp(values) == 0:
        return True
    return bool(stats.shapiro(values).pvalue < level)
