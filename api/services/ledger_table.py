"""The packed ledger as lines, one a subject: the figures of the view `privacy_ledger`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.schemas.records import LedgerFilters, LedgerLine
from api.services.pages import Key, Line
from fedaudit.ledger.entries import OUTCOMES, RELEASED
from fedaudit.privacy.projection import NO_MECHANISM
from models.records import LedgerRow
from models.repositories import LedgerRepository

_COMPONENT = "all"
_REASONS = (
    None,
    "refused before the release, which would have passed privacy.client_budget",
    "the update was not finite, so nothing was released",
)
"""By outcome, as in OUTCOMES."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_NOT_FINITE = "too large for a number in double precision"


class LedgerTable:
    """The ledger of one experiment, or the part that the filters let through."""

    columns: Sequence[str] = tuple(LedgerLine.model_fields)

    def __init__(
        self,
        project_id: str,
        experiment_id: str,
        names: Sequence[str],
        filters: LedgerFilters,
    ) -> None:
        """`names`: the subjects' keys by index."""
        self._project_id = project_id
        self._experiment_id = experiment_id
        self._names = names
        self._filters = filters
        self._client = None if filters.client is None else _index(names, filters.client)

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[LedgerRow]:
        """Packed rows behind a key (round, release, subject kind, observer)."""
        if self._client == -1:
            return []
        return LedgerRepository(session, self._project_id).rows_after(
            self._experiment_id,
            self._filters.round_from,
            self._filters.round_to,
            after=after,
            limit=limit,
        )

    def key(self, row: LedgerRow) -> Key:
        """The row's key."""
        return (row.round, row.release, row.subject_kind, row.observer)

    def lines(self, row: LedgerRow) -> list[Line]:
        """A line for each subject."""
        chosen: Any = slice(None)
        if self._client is not None:
            chosen = np.flatnonzero(row.subjects == self._client)
        subjects, outcomes = row.subjects[chosen], row.outcomes[chosen]
        radii, releases = row.radii[chosen], row.releases[chosen]
        shared = {
            "round": row.round,
            "release": row.release,
            "subject_kind": row.subject_kind,
            "observer": row.observer,
            "component": _COMPONENT,
            "guarantee": row.inputs["guarantee"],
        }
        epsilons, leakages, totals = _costs(row.inputs, outcomes, radii, releases)
        columns = (subjects, outcomes, radii, epsilons, leakages, totals)
        return [
            {
                **shared,
                "subject": self._names[subject],
                "outcome": OUTCOMES[outcome],
                "radius": _finite(radius),
                "epsilon": _finite(epsilon),
                "leakage": _finite(leakage),
                "leakage_total": _finite(total),
                "reason": _reason(row, outcome, (radius, epsilon, leakage, total)),
            }
            for subject, outcome, radius, epsilon, leakage, total in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]


def _costs(
    inputs: Any,
    outcomes: NDArray[Any],
    radii: NDArray[np.float64],
    releases: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Epsilon, leakage and total leakage of each subject; NaN where there is none."""
    n, nu = inputs["n"], inputs["noise_multiplier"]
    if nu is None:
        nothing = np.full(len(outcomes), np.nan)
        return nothing, nothing, nothing
    with np.errstate(all="ignore"):
        epsilons = n / (nu * radii)
        leakages = np.where(outcomes == RELEASED, np.float64(n) / nu, np.nan)
        # An exact product of integers and one division: the same to the last bit everywhere.
        totals = (releases.astype(np.int64) * n).astype(np.float64) / nu
    return epsilons, leakages, totals


def _reason(row: LedgerRow, outcome: int, figures: tuple[float, ...]) -> str | None:
    if all(np.isfinite(figures)):
        return None
    if row.inputs["noise_multiplier"] is None:
        return NO_MECHANISM
    if row.interrupted:
        return _INTERRUPTED
    return _REASONS[outcome] or _NOT_FINITE


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _index(names: Sequence[str], client: str) -> int:
    """The subject's index, -1 where there is no such subject."""
    try:
        return names.index(client)
    except ValueError:
        return -1
