"""What all ledger entries of a run share: subjects, observers, mechanism and spending plan.

The ledger's subjects are the federation's clients, except for mechanisms whose spending plan has
others (`fedaudit.privacy.planning.plan`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike
from pydantic import TypeAdapter

from fedaudit.arrays import Floats, Ints32
from fedaudit.privacy.accounting.epsilon_tables import (
    EpsilonCurve,
    EpsilonTerms,
    RepeatedEvent,
    repeated_event_from_dict,
)
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    MechanismParameters,
    Observer,
    event_from_dict,
)
from fedaudit.privacy.count_release import CountRelease
from fedaudit.privacy.mechanisms.registry import known_facts, mechanism_facts
from fedaudit.privacy.planning.plan import EVERYONE, PlanAccountant, SpendingPlan, SubjectKind


@dataclass(frozen=True, eq=False)
class HeldOutContext:
    """What all entries that charge the held-out people have in common."""

    release: CountRelease
    inputs: MechanismParameters


@dataclass(frozen=True, eq=False)
class LedgerContext:
    """What all entries of one run have in common."""

    inputs: MechanismParameters
    subject_kind: SubjectKind
    subjects: tuple[str, ...]
    """Names by index."""
    observers: tuple[Observer, ...]
    """In the order of their names; each has its own entry."""
    plan: SpendingPlan | None = None
    """None where nothing is counted as an epsilon with a delta."""
    held_out: HeldOutContext | None = None
    """How the held-out people are charged for the report; None where their counts get no noise."""

    def epsilons(self, observer: Observer, subjects: Ints32, releases: ArrayLike) -> Floats | None:
        """What these subjects have spent after their numbers of compositions; None without an
        epsilon."""
        if self.plan is None:
            return None
        return self.plan.epsilons(observer, subjects=subjects, compositions=releases)


def build_metric_context(inputs: MechanismParameters, client_names: Sequence[str]) -> LedgerContext:
    """The context of a run without an (epsilon, delta) cost: clients, against the server, or
    against everyone where a trusted server keeps secret who took part."""
    facts = known_facts(inputs.mechanism)
    if facts is not None and facts.subject_kind == "population":
        return LedgerContext(inputs, facts.subject_kind, (EVERYONE,), facts.observers)
    return LedgerContext(inputs, "client", tuple(client_names), ("server",))


def rebuild_ledger_context(
    inputs: MechanismParameters, subjects: Sequence[str], *, rounds: int
) -> LedgerContext:
    """The ledger context of a run whose entries have these parameters, without spec or data.

    Epsilons are recomputed from the events alone. Raises ValueError, KeyError or TypeError where
    the parameters are malformed.
    """
    if not inputs.counts_epsilon:
        return build_metric_context(inputs, subjects)
    facts = mechanism_facts(inputs.mechanism)
    if inputs.cost_kind not in facts.cost_kinds:
        raise ValueError(f"{inputs.mechanism} is not counted as an epsilon with a delta")
    repeated_events = _repeated_events(inputs, subjects)
    delta = float(inputs.delta or 0.0)
    adjacency: Adjacency = TypeAdapter(Adjacency).validate_python(inputs.adjacency)
    accountant: PlanAccountant = TypeAdapter(PlanAccountant).validate_python(inputs.accountant)
    lines = {}
    for observer in facts.observers:
        terms = EpsilonTerms(adjacency=adjacency, observer=observer, delta=delta)
        lines[observer] = tuple(
            EpsilonCurve.of_events(some, rounds, terms, by_pld=accountant == "pld")
            for some in repeated_events
        )
    plan = SpendingPlan(
        subject_kind=facts.subject_kind,
        subjects=tuple(subjects),
        delta=delta,
        adjacency=adjacency,
        accountant=accountant,
        steps=rounds,
        lines=lines,
    )
    return LedgerContext(inputs, plan.subject_kind, plan.subjects, plan.observers, plan)


def _repeated_events(
    inputs: MechanismParameters, subjects: Sequence[str]
) -> list[tuple[RepeatedEvent, ...]]:
    """The repeated events of each subject; a single list for all where there is one event."""
    events: dict[str, Any] = json.loads(inputs.event or "null")
    if "kind" in events:
        return [(RepeatedEvent(event_from_dict(events)),)]
    if set(events) != set(subjects):
        raise ValueError("the events are not those of the subjects")
    return [
        tuple(repeated_event_from_dict(repeated) for repeated in events[name]) for name in subjects
    ]
