"""The ledger as people read it: a line for each subject of an entry."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, RELEASED, LedgerEntry
from fedaudit.privacy.inputs import MechanismInputs
from fedaudit.privacy.projection import NO_MECHANISM

_COMPONENT = "all"
_REASONS = (
    None,
    "refused before the release, which would have passed privacy.client_budget",
    "the update was not finite, so nothing was released",
)
"""By outcome, as in OUTCOMES."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_NOT_FINITE = "too large for a number in double precision"


def ledger_lines(
    entry: LedgerEntry, names: Sequence[str], *, subject: int | None = None
) -> list[dict[str, Any]]:
    """The entry's lines, with the figures of the view `privacy_ledger`; or one subject's line.

    A figure that does not exist is None, and `reason` says why.
    """
    chosen: Any = slice(None) if subject is None else np.flatnonzero(entry.subjects == subject)
    outcomes, radii = entry.outcomes[chosen], entry.radii[chosen]
    costs = _costs(entry.inputs, outcomes, radii, entry.releases[chosen])
    shared = {
        "round": entry.round,
        "release": entry.release,
        "subject_kind": entry.subject_kind,
        "observer": entry.observer,
        "component": _COMPONENT,
        "guarantee": entry.inputs.guarantee,
    }
    columns = (entry.subjects[chosen], outcomes, radii, *costs)
    return [
        {
            **shared,
            "subject": names[index],
            "outcome": OUTCOMES[outcome],
            "radius": _finite(radius),
            "epsilon": _finite(epsilon),
            "leakage": _finite(leakage),
            "leakage_total": _finite(total),
            "reason": _reason(entry, outcome, (radius, epsilon, leakage, total)),
        }
        for index, outcome, radius, epsilon, leakage, total in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _costs(
    inputs: MechanismInputs,
    outcomes: NDArray[np.uint8],
    radii: NDArray[np.float64],
    releases: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Epsilon, leakage and total leakage of each subject; NaN where there is none."""
    n, nu = inputs.n, inputs.noise_multiplier
    if nu is None:
        nothing = np.full(len(outcomes), np.nan)
        return nothing, nothing, nothing
    with np.errstate(all="ignore"):
        epsilons = n / (nu * radii)
        leakages = np.where(outcomes == RELEASED, np.float64(n) / nu, np.nan)
        # An exact product of integers and one division: the same to the last bit everywhere.
        totals = (releases.astype(np.int64) * n).astype(np.float64) / nu
    return epsilons, leakages, totals


def _reason(entry: LedgerEntry, outcome: int, figures: tuple[float, ...]) -> str | None:
    if all(np.isfinite(figures)):
        return None
    if entry.inputs.noise_multiplier is None:
        return NO_MECHANISM
    if entry.interrupted:
        return _INTERRUPTED
    return _REASONS[outcome] or _NOT_FINITE


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
