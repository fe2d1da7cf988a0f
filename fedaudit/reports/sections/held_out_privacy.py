"""The section `fairness_privacy`: what counts with noise may reveal of held-out people."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.rows import SUBJECT_KINDS, report_inputs
from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import (
    MechanismParameters,
    adjacency_words,
    observer_words,
)
from fedaudit.privacy.count_release import CountRelease, count_release, held_out_units
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.checks import Check, agrees, same, value_at
from fedaudit.reports.sections.guarantee import delta_limits
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence
from fedaudit.reports.sections.part import Part, Section
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import HeldOutUnit, publishes_noised_rounds
from fedaudit.spec.metrics import COUNTS


class CountSensitivity(Part):
    """How far the rows of one unit can move the counts of all attributes together."""

    l1: float
    l2: float
    attributes: int
    max_rows: int
    """The most rows of one unit that count towards an attribute."""


class FairnessPrivacy(Part):
    """What the noised counts of held-out people may reveal of one of them."""

    mechanism: Literal["discrete-laplace", "gaussian"]
    epsilon: Annotated[float, Field(ge=0)]
    """What the run's ledger was charged, at `delta`."""
    delta: float
    """0 for discrete Laplace noise."""
    unit: Literal["client", "record"]
    adjacency: str
    observer: str
    accountant: str
    releases: int
    noise_deviation: float
    """Standard deviation of the noise on each count."""
    sensitivity: CountSensitivity
    in_force: bool
    """Whether the noise was secret. False for simulated noise, which protects no one."""
    statement: str


NO_NOISE = (
    "fairness.noise is not set: figures of the held-out people follow from their data without "
    "noise, and no epsilon bounds what they reveal"
)


_AS_RELEASED = ("mechanism", "delta", "unit", "adjacency", "observer", "accountant")


def fairness_privacy(spec: ExperimentSpec, *, releases: int) -> FairnessPrivacy | None:
    """The section for a run whose ledger was charged so often; None without noise."""
    release = count_release(spec)
    if release is None:
        return None
    # Who can draw the mechanism's noise again can draw that of the counts.
    epsilon, in_force = release.epsilon(releases), mechanism_of(spec).noise_is_secret
    return FairnessPrivacy(
        **{name: getattr(release, name) for name in _AS_RELEASED},
        epsilon=epsilon,
        releases=releases,
        noise_deviation=release.deviation,
        sensitivity=CountSensitivity.model_validate(release, from_attributes=True),
        in_force=in_force,
        statement=_statement(release, epsilon, releases=releases, in_force=in_force),
    )


_WHO: Mapping[HeldOutUnit, str] = {
    "client": (
        "one validation client are counted or not; at most {rows} of its rows count towards an "
        "attribute"
    ),
    "record": "one held-out record are counted or not, its client's other records being given",
}


def _statement(release: CountRelease, epsilon: float, *, releases: int, in_force: bool) -> str:
    who = _WHO[release.unit].format(rows=release.max_rows)
    delta = f", delta = {release.delta:g}" if release.delta else ""
    published = "this report"
    if releases != 1:
        published += f" and of its validated rounds ({releases - 1}), all together,"
    found = (
        f"Formal. The fairness figures of {published} satisfy "
        f"epsilon = {at_most(epsilon)}{delta} against {observer_words(release.observer)}, under "
        f"{adjacency_words(release.adjacency)}: "
        f"whether the figures of {who}. The model is taken as given."
    )
    if not in_force:
        found += (
            " The noise was simulated: anyone with the seed, which this report states, can "
            "subtract it, so the guarantee is not in force and protects no one."
        )
    return found


_ENTRIES = "ledger.fairness_privacy"
_DIGITS = 1e-9
"""Relative: the same few sums of floats."""


class ReportCharges:
    """The entries of a ledger that charge the held-out people."""

    def __init__(self, spec: ExperimentSpec | None) -> None:
        """`spec`: None where the stored one cannot be read."""
        self._spec = spec
        self._release = None if spec is None else count_release(spec)
        self._entries: list[EntryColumns] = []
        self._last_round = 0
        self._last_played = 0

    def read(self, entries: EntryColumns) -> None:
        """Note the next entries."""
        if entries.charge_report:
            self._entries += entries.each()
            return
        for (round_, *_), interrupted in zip(entries.keys, entries.interrupted, strict=True):
            self._last_round = max(self._last_round, round_)
            if not interrupted:
                self._last_played = max(self._last_played, round_)

    def checks(self, report: Mapping[str, Any] | None) -> Iterator[Check]:
        """The findings; none where nothing was to be charged and nothing was."""
        release, spec = self._release, self._spec
        if spec is None or release is None:
            if self._entries:
                why = "an entry charges readers of a report whose counts have no noise by the spec"
                yield Check.failed(_ENTRIES, why)
            return
        rounds = [entry.keys[0].round for entry in self._entries]
        if report is None and not rounds:
            return  # it ended before anything was charged, and published nothing
        yield Check.of(
            _ENTRIES,
            rounds in self._expected(spec, reported=report is not None)
            and all(
                _fits(entry, release, spec, report, releases=place + 1)
                for place, entry in enumerate(self._entries)
            ),
            good="the held-out people are charged once for each release of their counts, as the "
            "spec has it",
            bad="the held-out people are not charged once for each release of their counts, by the "
            "mechanism and to the epsilon that follow from the spec",
        )
        if report is not None:
            found = fairness_privacy(spec, releases=len(rounds))
            known = None if found is None else found.model_dump(mode="json")
            yield agrees(report, "fairness_privacy", known)

    def _expected(self, spec: ExperimentSpec, *, reported: bool) -> list[list[int]]:
        """Which rounds the releases may belong to: the validated rounds, and one after all of them
        for the report. A run without a report may have ended before or after it was charged for
        that. Where rounds that were charged are lost and leave no room in a budget, training ends
        with a round that was played as one of many."""
        planned = self._validated(spec, last_round=spec.training.rounds)
        ended = self._validated(spec, last_round=self._last_played)
        found = [[*ended, self._last_round + 1]]
        if self._last_round > self._last_played:
            found.append([*planned, self._last_round + 1])
        return found if reported else [planned, ended, *found]

    def _validated(self, spec: ExperimentSpec, *, last_round: int) -> list[int]:
        if not publishes_noised_rounds(spec.fairness):
            return []
        every = spec.training.stopping.validate_every
        # An altered row may give any number as its round. More rounds than charges fit nothing, so
        # one more than there are is enough to notice.
        played = min(self._last_played, every * (len(self._entries) + 1))
        candidates = sorted({*range(every, played + 1, every), last_round})
        return [one for one in candidates if 1 <= one <= played]


def _fits(
    entry: EntryColumns,
    release: CountRelease,
    spec: ExperimentSpec,
    report: Mapping[str, Any] | None,
    *,
    releases: int,
) -> bool:
    counts = entry.inputs.n if report is None else _published_counts(report)
    expected = report_inputs(release, counts=counts, noise=spec.privacy.noise)
    return (
        _alike(entry.inputs, expected)
        and entry.subject_kind == SUBJECT_KINDS[release.unit]
        and entry.subjects.tolist() == [0]
        and entry.releases.tolist() == [releases]
        and not any(entry.interrupted)
        and entry.epsilons is not None
        and bool(np.allclose(entry.epsilons, release.epsilon(releases), rtol=_DIGITS, atol=0))
    )


def _alike(inputs: MechanismParameters, expected: MechanismParameters) -> bool:
    """Whether parameters are the expected ones, but for the last digits of calibrated noise."""
    try:
        event, other = (json.loads(one.event or "") for one in (inputs, expected))
    except (ValueError, RecursionError):
        return False
    as_calibrated = replace(
        inputs, event=expected.event, noise_multiplier=expected.noise_multiplier
    )
    return (
        as_calibrated == expected
        and same(event, other, digits=_DIGITS)
        and same(inputs.noise_multiplier, expected.noise_multiplier, digits=_DIGITS)
    )


def _published_counts(report: Mapping[str, Any]) -> int:
    """How many counts the fairness sections rest on; 0 where they cannot be read."""
    sections = value_at(report, "fairness")
    listed = sections if isinstance(sections, list) else []
    groups = [value_at(section, "groups") for section in listed]
    return len(COUNTS) * sum(len(some) for some in groups if isinstance(some, list))


_HOW_COUNTED: Mapping[HeldOutUnit, str] = {
    "client": (
        "At most {rows} rows of a client count towards an attribute, drawn at random where it has "
        "more, so clients with more rows weigh less than their rows. Intervals are for the gap in "
        "a population counted so: where larger clients fare otherwise, the gap over all rows may "
        "lie outside. How many rows were left out is not stated. Intervals allow for all rows of a "
        "client being alike, and are wide where they are not."
    ),
    "record": (
        "Intervals take the rows for drawn one by one: where rows of one client are alike they are "
        "too narrow. A client with several rows is protected less than a record."
    ),
}


def noised_limits(spec: ExperimentSpec) -> list[str]:
    """The sentences about validation and fairness for a run with `fairness.noise`. Raises
    ValueError for a spec without it."""
    release = count_release(spec)
    if release is None:
        raise ValueError("the counts of this run have no noise")
    left_out = "" if publishes_noised_rounds(spec.fairness) else "figures of rounds "
    found = [
        "Fairness figures are those of counts with noise, and everything else that was computed "
        f"from the data of held-out people is left out: losses, {left_out}and accuracy.",
        "fairness_privacy covers these figures, given the model, the split and, where the seed "
        "deals rows to clients, the dealing, which one row more does anew. It does not cover who "
        "has a usable row, the numbers of clients and rows, the values of the attributes, that the "
        "data could be read, nor their hash, which are taken to be known, and nothing that other "
        "reports on the same people say: the federation's budget counts those.",
        "No loss chose the best round or ended training: the hypotheses are those of the last "
        "round, and a model that diverged is reported as it is.",
        "Intervals are for the gaps in the population that the held-out people were drawn from, "
        "noise included; a gap's value is computed from clamped counts and is biased where the "
        "noise is as large as a group.",
        _HOW_COUNTED[release.unit].format(rows=release.max_rows),
        f"Groups with fewer than {spec.fairness.minimum_group_size} rows by the noised counts are "
        "left out, since noise would outweigh people; a gap may be larger among them.",
    ]
    if not mechanism_of(spec).noise_is_secret:
        found.append(
            "The noise on the fairness counts was simulated: anyone with the seed can subtract it, "
            "so fairness_privacy protects no one here. So groups are suppressed as without noise, "
            "and all rows of a client count, for which intervals may be too narrow."
        )
    return found + list(spec.federation.traits.fairness_limits)


def _limit_delta(material: ReportMaterial) -> list[str]:
    release = count_release(material.spec)
    if release is None:
        return []
    units = held_out_units(vars(material.federation), unit=release.unit)
    called = "rows" if release.unit == "record" else "clients with held-out rows"
    return delta_limits(release.delta, units, called)


# Other limits, `noised_limits`, are among those of fairness.
FAIRNESS_PRIVACY = Section[ReportMaterial, RunEvidence](
    "fairness_privacy",
    lambda material: fairness_privacy(material.spec, releases=material.report_charges) or NO_NOISE,
    "`ReportCharges` checks it with the ledger's entries, which a failed run has as well",
    _limit_delta,
)
