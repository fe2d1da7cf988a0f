"""The ledger as people read it: a line for each subject of an entry."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, RELEASED, LedgerEntry
from fedaudit.privacy.projection import NO_LEAKAGE, NO_MECHANISM, NO_NOISE

_COMPONENT = "all"
_REASONS = (
    None,
    "refused before the release, which would have passed the client's budget",
    "the update was not finite, so nothing was released",
)
"""By outcome, as in OUTCOMES."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_NOT_FINITE = "too large for a number in double precision"


def ledger_lines(
    entry: LedgerEntry, names: Sequence[str], *, subject: int | None = None
) -> list[dict[str, Any]]:
    """The entry's lines, with the figures of the view `privacy_ledger`; or one subject's line.

    `epsilon` is per unit of distance under metric privacy; with a delta it is what the subject has
    spent in all. A figure that does not exist is None, and `reason` says why.
    """
    chosen: Any = slice(None) if subject is None else np.flatnonzero(entry.subjects == subject)
    outcomes, radii = entry.outcomes[chosen], entry.radii[chosen]
    costs = _costs(entry, chosen)
    shared = {
        "round": entry.round,
        "release": entry.release,
        "subject_kind": entry.subject_kind,
        "observer": entry.observer,
        "component": _COMPONENT,
        "delta": entry.inputs.delta,
        "adjacency": entry.inputs.adjacency,
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
    entry: LedgerEntry, chosen: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Epsilon, leakage and total leakage of the chosen subjects; NaN where there is none."""
    outcomes = entry.outcomes[chosen]
    nothing = np.full(len(outcomes), np.nan)
    if entry.epsilons is not None:
        return entry.epsilons[chosen], nothing, nothing
    n, nu = entry.inputs.n, entry.inputs.noise_multiplier
    if nu is None:
        return nothing, nothing, nothing
    with np.errstate(all="ignore"):
        epsilons = n / (nu * entry.radii[chosen])
        leakages = np.where(outcomes == RELEASED, np.float64(n) / nu, np.nan)
        # An exact product of integers and one division: the same to the last bit everywhere.
        totals = (entry.releases[chosen].astype(np.int64) * n).astype(np.float64) / nu
    return epsilons, leakages, totals


def _reason(entry: LedgerEntry, outcome: int, figures: tuple[float, ...]) -> str | None:
    if all(np.isfinite(figures)):
        return None
    if entry.inputs.counts_epsilon:
        happened = _REASONS[outcome]
        return NO_LEAKAGE if happened is None else f"{happened}; {NO_LEAKAGE}"
    if entry.inputs.noise_multiplier is None:
        return NO_MECHANISM if entry.inputs.mechanism == "none" else NO_NOISE
    if entry.interrupted:
        return _INTERRUPTED
    return _REASONS[outcome] or _NOT_FINITE


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
