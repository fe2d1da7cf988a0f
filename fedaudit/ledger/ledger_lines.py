"""The ledger in readable form: a line for each subject of an entry, and each of its components."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, LedgerEntry, Outcome, OutcomeName
from fedaudit.ledger.report_entries import charges_report, names_of_subjects
from fedaudit.privacy.accounting.mechanism_parameters import Component
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_LEAKAGE

_WHOLE = "all"
"""The component of a vector that is released as a whole."""
_REASONS: dict[OutcomeName, str | None] = {
    "released": None,
    "refused": "refused before the release, which would have passed the client's budget",
    "withheld": "the update was not finite, so nothing was released",
}
"""Why a line lacks figures, by what became of its subject."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_NOT_FINITE = "too large for a number in double precision"


def ledger_lines(
    entry: LedgerEntry, names: Sequence[str], *, subject: int | None = None
) -> list[dict[str, Any]]:
    """The entry's lines, with the figures of the view `privacy_ledger`; or one subject's lines.

    `epsilon` is per unit of distance under metric privacy; with a delta it is what the subject has
    spent in all. Where the mechanism has components, the figures of a line are its component's, and
    those of a release are their sums. A figure that does not exist is None, and `reason` says why.
    """
    if charges_report(entry.observer):
        # Its one subject stands for all held-out people, and is none of the run's subjects.
        names = names_of_subjects(entry.subject_kind, names)
        if subject is not None:
            return []
    chosen: Any = slice(None) if subject is None else np.flatnonzero(entry.subjects == subject)
    components = entry.inputs.components or (Component(_WHOLE, entry.inputs.n),)
    shape = (len(entry.subjects[chosen]), len(components))
    outcomes, radii = entry.outcomes[chosen], entry.radii[chosen].reshape(shape)
    costs = _costs(entry, chosen, radii, np.array([part.n for part in components]))
    shared = {
        "round": entry.round,
        "release": entry.release,
        "subject_kind": entry.subject_kind,
        "observer": entry.observer,
        "delta": entry.inputs.delta,
        "adjacency": entry.inputs.adjacency,
        "guarantee": entry.inputs.guarantee,
    }
    parts = [part.name for part in components]
    columns = [np.repeat(column, len(parts)) for column in (entry.subjects[chosen], outcomes)]
    columns += [figures.ravel() for figures in (radii, *costs)]
    return [
        {
            **shared,
            "component": part,
            "subject": names[index],
            "outcome": OUTCOMES[outcome],
            "radius": _finite(radius),
            "epsilon": _finite(epsilon),
            "leakage": _finite(leakage),
            "leakage_total": _finite(total),
            "reason": _reason(entry, OUTCOMES[outcome], (radius, epsilon, leakage, total)),
        }
        for part, index, outcome, radius, epsilon, leakage, total in zip(
            parts * shape[0], *(column.tolist() for column in columns), strict=True
        )
    ]


_Figures = NDArray[np.float64]


def _costs(
    entry: LedgerEntry, chosen: Any, radii: _Figures, sizes: NDArray[np.int64]
) -> tuple[_Figures, _Figures, _Figures]:
    """Epsilon, leakage and total leakage [subjects, components]; NaN where there is none.

    `radii` [subjects, components] are those of the chosen subjects; `sizes` [components].
    """
    released = entry.outcomes[chosen][:, None] == Outcome.RELEASED
    nothing = np.full(radii.shape, np.nan)
    if entry.epsilons is not None:
        return entry.epsilons[chosen], nothing, nothing
    if entry.inputs.cost_kind != "leakage":
        return nothing, nothing, nothing
    with np.errstate(all="ignore"):
        epsilons = entry.inputs.release_epsilons(radii)
        once = np.where(released, entry.inputs.leakages(1, sizes=sizes), np.nan)
        counts = entry.releases[chosen].astype(np.int64)[:, None]
        totals = entry.inputs.leakages(counts, sizes=sizes)
    return epsilons, once, totals


def _reason(entry: LedgerEntry, outcome: OutcomeName, figures: tuple[float, ...]) -> str | None:
    if all(np.isfinite(figures)):
        return None
    if entry.inputs.counts_epsilon:
        happened = _REASONS[outcome]
        return NO_LEAKAGE if happened is None else f"{happened}; {NO_LEAKAGE}"
    if entry.inputs.cost_kind == "unbounded":
        return why_unbounded(entry.inputs)
    if entry.interrupted:
        return _INTERRUPTED
    return _REASONS[outcome] or _NOT_FINITE


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
