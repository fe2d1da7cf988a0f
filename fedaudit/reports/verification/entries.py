"""Whether ledger entries state the epsilons that follow from their own events and counts: those of
a run, and those of a declared ledger.

The work is bounded regardless of the entries' content: an event is composed only if it fits the
spec, one event for the whole ledger of a run, and anything that would take too long is left
unchecked.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from fedaudit.arrays import Bools, Floats
from fedaudit.ledger.audit import LedgerAudit, Places
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.declared import ChargedEntries
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, Observer
from fedaudit.privacy.declared.histories import Histories, renyi_epsilons
from fedaudit.privacy.mechanisms.record_personalised import TooManyEventsError
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.reports.checks import MALFORMED, Check, answer_check, shown
from fedaudit.reports.declared.declared_report import declared_answer
from fedaudit.reports.declared.declared_sections import DECLARED
from fedaudit.reports.declared.ledger_material import DeclaredEvidence
from fedaudit.reports.sections.epsilon import ledger_plan
from fedaudit.reports.sections.part import section_checks
from fedaudit.spec.declared_ledgers import LedgerTerms
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
_MAX_CHARGES = 10_000
"""Distinct events of a declared ledger that are composed anew."""


class _UncheckedError(Exception):
    """The figure cannot be computed, or takes too long, although nothing is known to be wrong."""


class EntryEpsilons:
    """Compares the epsilons of each entry of a run with recomputed ones, entry by entry."""

    def __init__(self, spec: ExperimentSpec | None, names: Sequence[str]) -> None:
        """`spec`: None where the stored one cannot be read. `names`: the subjects' by index."""
        self._spec = spec
        self._names = tuple(names)
        self._inputs: MechanismParameters | None = None
        self._plan: SpendingPlan | str | None = None
        """That of the inputs, or why it is not made; None where none follows from the spec."""
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
        if self._skipped is not None and not self.wrong.count:
            yield Check.unchecked(NAME, self._skipped)
        elif self.entries:
            yield _epsilons_check(self.wrong)

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
                cast(Observer, observer),  # Another one has no line in the plan.
                subjects=entries.subjects[charged],
                compositions=entries.releases[charged],
            )
        return found

    def _plan_of(self, inputs: MechanismParameters) -> SpendingPlan:
        """The plan of the ledger's first parameters, made once; those of all entries are the
        same."""
        if self._inputs is None:
            self._inputs = inputs
            self._plan = _plan(self._spec, inputs, self._names)
        if inputs != self._inputs or self._plan is None:
            raise ValueError("another mechanism")
        if isinstance(self._plan, str):
            raise _UncheckedError(self._plan)
        return self._plan

    def _compare(self, entries: EntryColumns, stated: Floats, found: Floats) -> None:
        digits = _DIGITS_OF_PLD if entries.inputs.accountant == "pld" else _DIGITS
        for place in np.flatnonzero(~_equal(stated, found, digits=digits)).tolist():
            name = shown(self._names[entries.subjects[place]])
            where = _where(entries, int(entries.places[place]))
            self.wrong.add(
                f"{where}, subject {name}: {float(stated[place])!r} in the entry and "
                f"{float(found[place])!r} recomputed"
            )


def _epsilons_check(wrong: Places) -> Check:
    return Check.of(
        NAME,
        not wrong.count,
        good="every entry's epsilons are equal to what was recomputed",
        bad=f"not equal to what was recomputed: {wrong}",
    )


def _equal(stated: Floats, found: Floats, *, digits: float = _DIGITS) -> Bools:
    # Infinity is null in a bundle, and is not a number here.
    infinite = ~np.isfinite(stated) & ~np.isfinite(found)
    equal: Bools = infinite | np.isclose(stated, found, rtol=digits, atol=1e-12)
    return equal


def _where(entries: EntryColumns, place: int) -> str:
    round_, release, _, observer = entries.keys[place]
    return f"round {round_}, release {release} against {shown(observer)}"


def _plan(
    spec: ExperimentSpec | None, inputs: MechanismParameters, names: tuple[str, ...]
) -> SpendingPlan | str | None:
    """The plan of the stored parameters, or why it is not made; None where they do not match the
    spec."""
    if spec is None:
        return "the stored spec cannot be read, or is of another version"
    if len(inputs.event or "") > _MAX_EVENT_LENGTH:
        return "the entries' event is too long to be recomposed"
    # How many clients the event samples from; of one that samples otherwise it does not matter.
    population = json.loads(inputs.event or "null").get("population", 1)
    if type(population) is not int or not 1 <= population <= _MAX_POPULATION:
        raise ValueError("no population")
    try:
        plan = ledger_plan(spec, {inputs}, names, parameters=inputs.n, training_clients=population)
    except TooManyEventsError as error:
        return str(error)
    if plan is None or plan.subject_kind != "record_group":
        return plan
    rounds, [groups, *_] = spec.training.rounds + _REPEATS, plan.lines.values()
    if sum(len(line.repeated_events) for line in groups) * rounds > _MAX_PLACES:
        return "the entries' events take too long to be recomposed"
    return rebuild_ledger_context(inputs, names, rounds=rounds).plan


def is_declared(spec: Any) -> bool:
    """Whether the evidence is of a declared ledger: its spec are the ledger's terms."""
    return isinstance(spec, dict) and "terms_version" in spec


class DeclaredEntries:
    """Charges the entries of a declared ledger anew, one after the other, and compares what they
    state."""

    def __init__(self, spec: Any, names: Sequence[str]) -> None:
        """`spec`: the terms, of any form; `names`: the subjects' by index."""
        self._histories = Histories(list(names))
        self._terms: LedgerTerms | None = None
        with suppress(ValueError):
            self._terms = LedgerTerms.model_validate(spec)
            self._charged = ChargedEntries(self._terms, self._histories)
        self._wrong = Places()
        self._foreign = Places()
        self._skipped = False
        self._rounds: list[int] = []
        self._participations = self._failures = 0
        self._names_are_secret = False

    def read(self, entry: EntryColumns) -> None:
        """Charge the next entry."""
        key = entry.keys[0]
        if key.round not in self._rounds[-1:]:
            self._rounds.append(key.round)
        if entry.subject_kind != "client":
            self._names_are_secret = True
        elif key.release:
            self._failures += len(entry.subjects)
        else:
            self._participations += len(entry.subjects)
        if self._terms is None or self._skipped:
            return
        place = f"round {key.round}, release {key.release}"
        try:
            self._charged.read(entry)
            self._skipped = len(self._histories.tallies) > _MAX_CHARGES
            if self._skipped or entry.epsilons is None:
                return
            rows, charges = self._histories.of(entry.subjects), self._histories.charges
            if not _equal(entry.epsilons, renyi_epsilons(rows, charges, self._terms)).all():
                self._wrong.add(place)
        except MALFORMED:
            self._foreign.add(place)

    def checks(self, evidence: Evidence, audit: LedgerAudit) -> Iterator[Check]:
        """The findings in entries and report, once all entries were read."""
        if self._terms is None:
            yield Check.failed("ledger.terms", "the ledger's terms cannot be read")
            return
        yield Check.of(
            "ledger.inputs",
            not self._foreign.count,
            good="every entry is of the ledger's terms",
            bad=f"not of the ledger's terms: {self._foreign}",
        )
        if self._skipped:
            yield Check.unchecked(NAME, "the entries have too many distinct events")
        elif self._terms.counts_epsilon:
            yield _epsilons_check(self._wrong)
        if evidence.report is not None:
            found = DeclaredEvidence(
                evidence=evidence,
                report=evidence.report,
                audit=audit,
                terms=self._terms,
                histories=None if self._skipped else self._histories,
                rounds=self._rounds,
                asked=None if self._names_are_secret else (self._participations, self._failures),
            )
            yield from section_checks(DECLARED, found)
            if evidence.report.get("answer") is not None:
                yield answer_check(evidence.report, declared_answer)
