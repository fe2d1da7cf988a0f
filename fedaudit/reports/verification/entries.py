"""Whether each ledger entry states the epsilons that follow from its own event and counts.

The work is bounded regardless of the entries' content: an event is composed only if it fits the
spec, one event for the whole ledger, and anything that would take too long is left unchecked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.ledger.audit import Places
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, Observer
from fedaudit.privacy.mechanisms.record_personalised import TooManyEventsError
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.reports.checks import MALFORMED, Check, failed, passed, shown, unchecked
from fedaudit.reports.sections.epsilon import ledger_plan
from fedaudit.spec.experiment import ExperimentSpec

NAME = "ledger.epsilons"
_DIGITS = 1e-9
"""Relative; both sides are sums and minima of the same few numbers."""
_DIGITS_OF_PLD = 1e-6
"""Relative: transforms in another library or on another machine may round differently."""
_MAX_POPULATION = 10**9
_MAX_EVENT_LENGTH = 1 << 18
_REPEATS = 1000
"""Compositions beyond the planned ones that are precomputed for records."""
_MAX_PLACES = 20_000_000
"""Repeated events of records times compositions."""


class _UncheckedError(Exception):
    """The figure cannot be computed, or takes too long, although nothing is known to be wrong."""


class EntryEpsilons:
    """Compares the epsilons of each entry with recomputed ones, entry by entry."""

    def __init__(self, spec: ExperimentSpec | None, names: Sequence[str]) -> None:
        """`spec`: None where the stored one cannot be read. `names`: the subjects' by index."""
        self._spec = spec
        self._names = tuple(names)
        self._inputs: MechanismParameters | None = None
        self._plan: SpendingPlan | _UncheckedError | None = None
        self._skipped: str | None = None
        self.wrong = Places()
        self.entries = 0
        """Entries of a mechanism with an epsilon and a delta."""

    def read(self, entries: EntryColumns) -> None:
        """Check the next entries; their subjects must lie within the range."""
        if entries.epsilons is None or entries.charge_report:
            return
        self.entries += len(entries)
        try:
            with np.errstate(all="ignore"):
                found = self._anew(entries)
        except (_UncheckedError, *MALFORMED) as error:
            if len(entries) > 1:
                self.entries -= len(entries)
                for entry in entries.each():
                    self.read(entry)
            elif isinstance(error, _UncheckedError):
                self._skipped = str(error)
            else:
                self.wrong.add(
                    f"{_where(entries, 0)}: no epsilon follows from the entry's mechanism"
                )
        else:
            self._compare(entries, entries.epsilons, found)

    def checks(self) -> Iterator[Check]:
        """The findings once all entries were read; empty where no entry has an epsilon."""
        if self.wrong.count:
            yield failed(NAME, f"not equal to what was recomputed: {self.wrong}")
        elif self._skipped is not None:
            yield unchecked(NAME, self._skipped)
        elif self.entries:
            yield passed(NAME, "every entry's epsilons are equal to what was recomputed")

    def _anew(self, entries: EntryColumns) -> Floats:
        """[charged]. Raises one of `MALFORMED` where that of some entry does not follow."""
        plan = self._plan_of(entries.inputs)
        if entries.subject_kind != plan.subject_kind or (entries.releases < 0).any():
            raise ValueError("another kind of subject, or a count below 0")
        if plan.subject_kind == "record_group" and entries.releases.max(initial=0) > plan.steps:
            raise _UncheckedError("some counts lie far beyond the rounds of the spec")
        found = np.empty(len(entries.subjects))
        for observer, charged in entries.by_observer():
            found[charged] = plan.epsilons(
                _known(observer, plan),
                subjects=entries.subjects[charged],
                compositions=entries.releases[charged],
            )
        return found

    def _plan_of(self, inputs: MechanismParameters) -> SpendingPlan:
        """The plan of the ledger's first parameters, made once; those of all entries are the
        same."""
        if self._inputs is None:
            self._inputs = inputs
            try:
                self._plan = _plan(self._spec, inputs, self._names)
            except _UncheckedError as error:
                self._plan = error
        if inputs == self._inputs and isinstance(self._plan, _UncheckedError):
            raise self._plan.with_traceback(None)
        if inputs != self._inputs or not isinstance(self._plan, SpendingPlan):
            raise ValueError("another mechanism")
        return self._plan

    def _compare(self, entries: EntryColumns, stated: Floats, found: Floats) -> None:
        digits = _DIGITS_OF_PLD if entries.inputs.accountant == "pld" else _DIGITS
        # Infinity is null in a bundle, and is not a number here.
        infinite = ~np.isfinite(stated) & ~np.isfinite(found)
        agrees = infinite | np.isclose(stated, found, rtol=digits, atol=1e-12)
        for place in np.flatnonzero(~agrees).tolist():
            name = shown(self._names[entries.subjects[place]])
            where = _where(entries, int(entries.places[place]))
            self.wrong.add(
                f"{where}, subject {name}: {float(stated[place])!r} in the entry and "
                f"{float(found[place])!r} recomputed"
            )


def _known(name: str, plan: SpendingPlan) -> Observer:
    """Raises ValueError for another observer than those of the plan."""
    for observer in plan.observers:
        if observer == name:
            return observer
    raise ValueError("another observer")


def _where(entries: EntryColumns, place: int) -> str:
    round_, release, _, observer = entries.keys[place]
    return f"round {round_}, release {release} against {shown(observer)}"


def _plan(
    spec: ExperimentSpec | None, inputs: MechanismParameters, names: tuple[str, ...]
) -> SpendingPlan | None:
    """The context of the stored parameters; None where they do not match the spec."""
    if spec is None:
        raise _UncheckedError("the stored spec cannot be read, or is of another version")
    if len(inputs.event or "") > _MAX_EVENT_LENGTH:
        raise _UncheckedError("the entries' event is too long to be recomposed")
    population = _population(json.loads(inputs.event or "null"))
    try:
        plan = ledger_plan(spec, {inputs}, names, parameters=inputs.n, training_clients=population)
    except TooManyEventsError as error:
        raise _UncheckedError(str(error)) from None
    if plan is None or plan.subject_kind != "record_group":
        return plan
    rounds, [groups, *_] = spec.training.rounds + _REPEATS, plan.lines.values()
    if sum(len(line.repeated_events) for line in groups) * rounds > _MAX_PLACES:
        raise _UncheckedError("the entries' events take too long to be recomposed")
    return rebuild_ledger_context(inputs, names, rounds=rounds).plan


def _population(event: Mapping[str, Any]) -> int:
    """The number of clients that the event samples from; any number where it samples otherwise."""
    population = event.get("population", 1)
    if type(population) is not int or not 1 <= population <= _MAX_POPULATION:
        raise ValueError("no population")
    return population
