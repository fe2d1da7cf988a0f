"""Recompute a report's privacy figures from ledger entries and the spec alone."""

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.columns import EntryColumns, misfits
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import leakage, summarise_leakage

_LEAKAGE = (
    "leakage_median",
    "leakage_max",
    "leakage_quantiles",
    "leakage_per_release",
    "leakage_by_component",
    "leakage_by_cluster",
)


class LedgerTotals:
    """Totals over entries, counted from outcomes alone and not from the running columns."""

    def __init__(self, subjects: int, *, best_round: int = 0) -> None:
        """`best_round`: the round whose radii and clusters are kept, 0 for no round."""
        self._subjects = subjects
        self._best_round = best_round
        self.releases = np.zeros(subjects, dtype=np.int32)
        self.clusters = np.full(subjects, -1, dtype=np.int16)
        """The cluster of each subject's newest upload, -1 for none."""
        self.refusals = 0
        self.withheld = 0
        self.inputs: set[MechanismParameters] = set()
        self.misfits = 0
        """Entries whose radii do not match their mechanism."""
        self.rounds: set[int] = set()
        """Rounds with an entry whose results were stored."""
        self.compositions: dict[str, NDArray[np.int64]] = {}
        """By observer, the largest running count of each subject: its compositions against that
        observer."""
        self.best_radii: NDArray[np.float64] | None = None
        """[releases, parts] of the best round, None without one."""
        self.best_clusters = np.empty(0, dtype=np.int16)
        """[releases] of the best round."""

    def add(self, entries: EntryColumns) -> None:
        """Count entries in; their subjects must lie within the range, each once in an entry."""
        if entries.charge_report:
            return  # counted by `report_charges`
        released, subjects = entries.released, entries.subjects
        every = bool(released.all())
        uploaded = subjects if every else subjects[released]
        self.releases += np.bincount(uploaded, minlength=self._subjects).astype(np.int32)
        placed = released & (entries.clusters >= 0)
        # Of a subject that is there several times the last is kept, as the newest.
        self.clusters[subjects[placed]] = entries.clusters[placed]
        if not every:
            self.refusals += int(np.count_nonzero(entries.outcomes == Outcome.REFUSED))
            self.withheld += int(np.count_nonzero(entries.outcomes == Outcome.WITHHELD))
        self.inputs.add(entries.inputs)
        self.misfits += len(misfits(entries))
        self._compose(entries)
        self._note_rounds(entries)

    def _compose(self, entries: EntryColumns) -> None:
        for observer, charged in entries.by_observer():
            if observer not in self.compositions:
                self.compositions[observer] = np.zeros(self._subjects, dtype=np.int64)
            found, counts = self.compositions[observer], entries.releases[charged]
            np.maximum.at(found, entries.subjects[charged], counts.astype(np.int64))

    def _note_rounds(self, entries: EntryColumns) -> None:
        for (round_, *_), interrupted, span in zip(
            entries.keys, entries.interrupted, entries.spans, strict=True
        ):
            if interrupted:
                continue
            self.rounds.add(round_)
            if round_ == self._best_round:
                released, radii = entries.released[span], entries.radii[span]
                by_part = radii.reshape(len(released), len(entries.inputs.noised_sizes))
                self.best_radii = by_part[released]
                self.best_clusters = entries.clusters[span][released]


def recompute(
    totals: LedgerTotals, *, inputs: MechanismParameters, training_clients: int, hypotheses: int
) -> dict[str, Any] | None:
    """The figures of the report's section `privacy` that follow from the entries.

    Not for a cost that is an epsilon, which follows from events (`epsilon_checks`). Raises
    ValueError where more clients released something than train.
    """
    match inputs.cost_kind:
        case "leakage":
            figures = _metric_privacy(totals, inputs, training_clients, hypotheses)
        case "unbounded":
            figures = dict.fromkeys(_LEAKAGE)
        case "epsilon":
            return None
        case other:
            assert_never(other)
    common = {
        "participations_max": int(totals.releases.max(initial=0)),
        "refusals": totals.refusals,
        "withheld": totals.withheld,
    }
    return {**common, **figures}


def _metric_privacy(
    totals: LedgerTotals, inputs: MechanismParameters, training_clients: int, hypotheses: int
) -> dict[str, Any]:
    n, nu = inputs.n, inputs.noise_multiplier
    if nu is None or not training_clients:
        raise ValueError("there is no noise multiplier, or nobody trains")
    summary = summarise_leakage(
        totals.releases, training_clients=training_clients, n=n, noise_multiplier=nu
    )
    return {
        "leakage_median": summary.median,
        "leakage_max": summary.maximum,
        "leakage_quantiles": summary.quantiles,
        "leakage_per_release": leakage(1, n=n, noise_multiplier=nu),
        "leakage_by_component": _by_component(inputs, nu),
        "leakage_by_cluster": _by_cluster(totals, n, nu, hypotheses),
    }


def _by_component(inputs: MechanismParameters, nu: float) -> list[dict[str, Any]] | None:
    if inputs.components is None:
        return None
    return [
        {
            "component": part.name,
            "parameters": part.n,
            "leakage_per_release": leakage(1, n=part.n, noise_multiplier=nu),
        }
        for part in inputs.components
    ]


def _by_cluster(
    totals: LedgerTotals, n: int, nu: float, hypotheses: int
) -> Sequence[dict[str, Any]]:
    found = []
    for cluster in range(hypotheses):
        releases = totals.releases[totals.clusters == cluster]
        if len(releases):
            found.append(
                {
                    "cluster": cluster,
                    "clients": len(releases),
                    "leakage_median": leakage(float(np.median(releases)), n=n, noise_multiplier=nu),
                    "leakage_max": leakage(int(releases.max()), n=n, noise_multiplier=nu),
                }
            )
    return found
