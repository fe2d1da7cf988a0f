"""What a run with an (epsilon, delta) mechanism will spend, after every number of compositions.

A composition is one thing that leaves with noise on it: a round of `gaussian-central`, an upload
of a `gaussian-local` client, a round of `record-personalised`. Everything is known before the run,
so that training counts compositions only and the keeper of the ledger looks epsilon up.

The plan's subjects, who are charged:

- `gaussian-central`: one subject, everyone. Who was drawn is secret, so everybody pays for every
  round. The server is trusted; the models are what is looked at.
- `gaussian-local`: every client, for each of its own uploads, against the server. It sees who
  sends, so no sampling amplifies.
- `record-personalised`: groups of records by budget (`fedaudit.privacy.records.record_use`),
  for every round against the observer of the final model, and for the rounds of the busiest client
  against the server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Floats
from fedaudit.privacy.accounting.epsilon_tables import EpsilonCurve
from fedaudit.privacy.accounting.privacy_events import BLOCKS, Adjacency, Observer
from fedaudit.privacy.records.record_use import RecordSpending
from fedaudit.spec.canonical import canonical_json

SubjectKind = Literal["client", "population", "record_group"]
PlanAccountant = Literal["rdp", "pld", "two-stage"]
EVERYONE = "everyone"


@dataclass(frozen=True, kw_only=True)
class ObserverEpsilon:
    """The largest epsilon of any subject against one observer."""

    observer: Observer
    delta: float
    adjacency: Adjacency
    value: float


@dataclass(frozen=True, eq=False, kw_only=True)
class SpendingPlan:
    """The epsilons of a run, for every subject of its ledger and every observer."""

    subject_kind: SubjectKind
    subjects: tuple[str, ...]
    """Names, by the ledger's index."""
    delta: float
    adjacency: Adjacency
    accountant: PlanAccountant
    steps: int
    """Compositions of the whole run, if no round is repeated."""
    lines: Mapping[Observer, tuple[EpsilonCurve, ...]]
    """One curve for all subjects, or one each."""
    records: RecordSpending | None = None
    """Every record's own figures; None except for `record-personalised`."""

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Observers against whom epsilon is counted, in a fixed order."""
        return tuple(self.lines)

    def line(self, observer: Observer, subject: int = 0) -> EpsilonCurve:
        """The curve of a subject."""
        lines = self.lines[observer]
        return lines[subject] if len(lines) > 1 else lines[0]

    def epsilons(
        self, observer: Observer, *, subjects: ArrayLike, compositions: ArrayLike
    ) -> Floats:
        """Cumulative epsilon of each subject after its number of compositions: float64."""
        who, counts = np.broadcast_arrays(
            np.asarray(subjects, dtype=np.int64), np.asarray(compositions, dtype=np.int64)
        )
        if len(self.lines[observer]) == 1:
            return self.lines[observer][0].after(counts)
        found = np.zeros(counts.shape)
        for subject in np.unique(who).tolist():
            mine = who == subject
            found[mine] = self.line(observer, subject).after(counts[mine])
        return found

    def largest(self, observer: Observer, compositions: ArrayLike) -> float:
        """The largest epsilon of any subject.

        `compositions`: one number, that of the subject that takes part most, or one each,
        [subjects].
        """
        counts = np.asarray(compositions, dtype=np.int64)
        if counts.ndim == 0:
            return max(float(line.after(counts)) for line in self.lines[observer])
        found = self.epsilons(observer, subjects=np.arange(len(self.subjects)), compositions=counts)
        return float(found.max(initial=0.0))

    def spent(self, compositions: Mapping[Observer, ArrayLike]) -> tuple[ObserverEpsilon, ...]:
        """The figures of a report: for every observer, what the subjects spent."""
        return tuple(
            ObserverEpsilon(
                observer=observer,
                delta=self.delta,
                adjacency=self.adjacency,
                value=self.largest(observer, compositions[observer]),
            )
            for observer in self.observers
        )

    def steps_within(self, observer: Observer, epsilon: float) -> int:
        """The largest number of compositions after which no subject has exceeded `epsilon`."""
        return min(line.steps_within(epsilon) for line in self.lines[observer])

    def events_within(self, observer: Observer, releases: int) -> int:
        """How many events so many releases are, as budgets book them: of cohorts by blocks
        those that were begun, else every release."""
        [repeated, *_] = self.line(observer).repeated_events
        if isinstance(repeated.event, BLOCKS):
            return int(repeated.compositions_within(releases))
        return releases

    def curve(self, observer: Observer, compositions: int) -> Floats:
        """Renyi divergences at RDP_ORDERS that no subject exceeds after this many compositions."""
        curves = [line.curve(compositions) for line in self.lines[observer]]
        most: Floats = np.max(curves, axis=0)
        return most

    @property
    def events_json(self) -> str:
        """What the ledger keeps of the events: canonical JSON.

        The event of one composition; for record groups, per group, the repeated events of its
        records: `{"group": [{"event": ..., "lasts": ...}]}`.
        """
        lines = self.lines[self.observers[0]]
        events = lines[0].event.as_dict()
        if self.subject_kind == "record_group":
            events = {
                name: [repeated.as_dict() for repeated in line.repeated_events]
                for name, line in zip(self.subjects, lines, strict=True)
            }
        return canonical_json(events).decode()
