"""What ledger entries add up to, and whether each states the epsilons that follow from it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.audit import Places
from fedaudit.ledger.columns import EntryColumns, misfits
from fedaudit.ledger.entries import Outcome
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.leakage import leakage, summarise_leakage
from fedaudit.privacy.mechanisms.record_personalised import TooManyEventsError, record_courses
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.reports.checks import Check, check, shown, unchecked
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted

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


NAME = "ledger.epsilons"
_DIGITS = 1e-9
"""Relative; both sides are sums and minima of the same few numbers."""
_DIGITS_OF_PLD = 1e-6
"""Relative: transforms in another library or on another machine may round differently."""
_NO_EPSILONS = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
)
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

    def __init__(self, spec: Any, names: Sequence[str]) -> None:
        """`spec`: as stored, of any form. `names`: the subjects' names by index."""
        try:
            self._spec: ExperimentSpec | None = parse_admitted(spec)
        except InvalidInputError:
            self._spec = None
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
        except (_UncheckedError, *_NO_EPSILONS) as error:
            if len(entries) > 1:
                self.entries -= len(entries)
                for entry in entries.entries():
                    self.read(EntryColumns.of_entries([entry]))
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
            yield check(NAME, False, good="", bad=f"not equal to what was recomputed: {self.wrong}")
        elif self._skipped is not None:
            yield unchecked(NAME, self._skipped)
        elif self.entries:
            yield check(
                NAME, True, good="every entry's epsilons are equal to what was recomputed", bad=""
            )

    def _anew(self, entries: EntryColumns) -> NDArray[np.float64]:
        """[charged]. Raises one of `_NO_EPSILONS` where that of some entry does not follow."""
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

    def _compare(
        self, entries: EntryColumns, said: NDArray[np.float64], found: NDArray[np.float64]
    ) -> None:
        digits = _DIGITS_OF_PLD if entries.inputs.accountant == "pld" else _DIGITS
        # Infinity is null in a bundle, and is not a number here.
        infinite = ~np.isfinite(said) & ~np.isfinite(found)
        agrees = infinite | np.isclose(said, found, rtol=digits, atol=1e-12)
        for place in np.flatnonzero(~agrees).tolist():
            name = shown(self._names[entries.subjects[place]])
            where = _where(entries, int(entries.places[place]))
            self.wrong.add(
                f"{where}, subject {name}: {float(said[place])!r} in the entry and "
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
    rounds = spec.training.rounds
    mechanism = mechanism_of(spec)
    match mechanism.facts.subject_kind:
        case "record_group":
            try:
                repeated_events = record_courses(spec, inputs, inputs.n, names)
            except TooManyEventsError as error:
                raise _UncheckedError(str(error)) from None
            rounds += _REPEATS
            if (
                repeated_events is not None
                and sum(map(len, repeated_events)) * rounds > _MAX_PLACES
            ):
                raise _UncheckedError("the entries' events take too long to be recomposed")
            known = repeated_events is not None
        case "client" | "population":
            population = _population(json.loads(inputs.event or "null"))
            plan = mechanism.spending_plan(training_clients=population, client_names=names)
            known = (
                plan is not None
                and plan.subjects == names
                and mechanism.inputs(n=inputs.n, plan=plan) == inputs
            )
        case other:
            assert_never(other)
    return rebuild_ledger_context(inputs, names, rounds=rounds).plan if known else None


def _population(event: Mapping[str, Any]) -> int:
    """The number of clients that the event samples from; any number where it samples otherwise."""
    population = event.get("population", 1)
    if type(population) is not int or not 1 <= population <= _MAX_POPULATION:
        raise ValueError("no population")
    return population
