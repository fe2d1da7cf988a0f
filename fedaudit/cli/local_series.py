"""The figures of each round of a run in this process: the service stores the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import attribute_rule
from fedaudit.fairness.gaps import gaps
from fedaudit.ledger.accounts import Account
from fedaudit.privacy.cluster_leakage import ClusterCounts, ClusterLeakage
from fedaudit.privacy.metric import summarise_leakage
from fedaudit.reports.series import Series, series_of
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.records import RoundRecord


@dataclass(frozen=True)
class _Round:
    round: int
    cluster_sizes: Sequence[int]
    selection_loss: float | None
    validation_loss: float | None
    accuracy: float | None
    separation: float | None
    leakage_median: float | None
    leakage_max: float | None
    leakage_by_cluster: Sequence[ClusterLeakage] | None
    epsilon_max: float | None


@dataclass(frozen=True)
class _Gaps:
    round: int
    attribute: str
    figures: Sequence[Mapping[str, Any]]


def local_series(
    records: Sequence[RoundRecord],
    *,
    account: Account,
    training_clients: int,
    spec: ExperimentSpec,
    groups: Mapping[str, Sequence[str]],
) -> Series:
    """The series of a run's records. `groups`: the values of each sensitive attribute."""
    spending = _Spending(account, training_clients)
    rounds = [_round(record, spending) for record in records]
    found = [one for attribute in groups for one in _gaps(records, attribute, groups, spec)]
    return series_of(rounds, found)


class _Spending:
    """What everybody has spent so far."""

    def __init__(self, account: Account, training_clients: int) -> None:
        self._account = account
        self._training_clients = training_clients
        self._releases = np.zeros(len(account.subjects), dtype=np.int32)
        self._most = dict.fromkeys(account.observers, 0)
        unplaced = np.full(len(account.subjects), -1, dtype=np.int16)
        self._clusters = ClusterCounts(unplaced, self._releases)

    def add(self, record: RoundRecord) -> None:
        """Count one round in."""
        self._releases[record.subjects] = record.releases
        # Of whoever released nothing the cluster is -1: it stays where it was.
        self._clusters.move(record.subjects, clusters=record.clusters, releases=record.releases)
        for observer in self._most:
            paid = record.compositions.get(observer, record.releases)
            self._most[observer] = max(self._most[observer], int(paid.max(initial=0)))

    def leakage(self) -> tuple[float | None, float | None]:
        """Median and largest over the training clients; None where the cost is no leakage."""
        inputs = self._account.inputs
        if inputs.noise_multiplier is None or inputs.counts_epsilon:
            return None, None
        found = summarise_leakage(
            self._releases,
            training_clients=self._training_clients,
            n=inputs.n,
            noise_multiplier=inputs.noise_multiplier,
        )
        return found.median, found.maximum

    def leakage_by_cluster(self) -> Sequence[ClusterLeakage] | None:
        """Of the clients of each cluster; None where the cost is no leakage."""
        inputs = self._account.inputs
        if inputs.noise_multiplier is None or inputs.counts_epsilon:
            return None
        return self._clusters.leakage(n=inputs.n, noise_multiplier=inputs.noise_multiplier)

    def epsilon(self) -> float | None:
        """The largest of anyone before anyone; None where the cost is no epsilon with a delta."""
        return self._account.largest(list(self._most.values()))


def _round(record: RoundRecord, spending: _Spending) -> _Round:
    spending.add(record)
    median, largest = spending.leakage()
    return _Round(
        round=record.round,
        cluster_sizes=record.cluster_sizes,
        selection_loss=record.selection_loss,
        validation_loss=record.validation_loss,
        accuracy=record.accuracy,
        separation=record.separation,
        leakage_median=median,
        leakage_max=largest,
        leakage_by_cluster=spending.leakage_by_cluster(),
        epsilon_max=spending.epsilon(),
    )


def _gaps(
    records: Sequence[RoundRecord],
    attribute: str,
    groups: Mapping[str, Sequence[str]],
    spec: ExperimentSpec,
) -> list[_Gaps]:
    validated = [record for record in records if record.fairness]
    if not validated:
        return []
    counts = np.stack([record.fairness[attribute] for record in validated])
    found = gaps(counts, attribute_rule(spec, attribute, groups).decide(scored_rows(counts)))
    return [
        _Gaps(record.round, attribute, [figure._asdict() for figure in figures])
        for record, figures in zip(validated, found, strict=True)
    ]
