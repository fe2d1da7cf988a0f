"""Whether the held-out people were charged for what is published as the spec has it, and as the
report says."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.rows import SUBJECT_KINDS, LedgerEntry, report_inputs
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.count_release import CountRelease, count_release
from fedaudit.reports.document.checks import Check, check, same, shown, value_at
from fedaudit.reports.sections.fairness_privacy import fairness_privacy
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import publishes_noised_rounds
from fedaudit.spec.metrics import COUNTS
from fedaudit.spec.parse import parse_admitted

_ENTRIES, _REPORT = "ledger.fairness_privacy", "report.fairness_privacy"
_DIGITS = 1e-9
"""Relative: the same few sums of floats."""


class ReportCharges:
    """The entries of a ledger that charge the held-out people."""

    def __init__(self, spec: Any) -> None:
        """`spec`: as stored, of any form."""
        try:
            self._spec: ExperimentSpec | None = parse_admitted(spec)
            self._release = count_release(self._spec)
        except InvalidInputError:
            self._spec, self._release = None, None
        self._entries: list[LedgerEntry] = []
        self._last_round = 0
        self._last_played = 0

    def read(self, entries: EntryColumns) -> None:
        """Note the next entries."""
        if entries.charge_report:
            self._entries += entries.entries()
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
                yield check(
                    _ENTRIES,
                    False,
                    good="",
                    bad="an entry charges readers of a report whose "
                    "counts have no noise by the spec",
                )
            return
        rounds = [entry.round for entry in self._entries]
        if report is None and not rounds:
            return  # it ended before anything was charged, and published nothing
        yield check(
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
            yield from _stated(spec, report, releases=len(rounds))

    def _expected(self, spec: ExperimentSpec, *, reported: bool) -> list[list[int]]:
        """Which rounds may stand for releases: those validated, and one behind all for the report.

        A run without a report may have ended before it was charged for it, or behind that. And
        where rounds that were charged are lost and leave no room in a budget, training ends with a
        round that was played as one of many.
        """
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
        # one more than there are is enough to tell.
        played = min(self._last_played, every * (len(self._entries) + 1))
        candidates = sorted({*range(every, played + 1, every), last_round})
        return [one for one in candidates if 1 <= one <= played]


def _fits(
    entry: LedgerEntry,
    release: CountRelease,
    spec: ExperimentSpec,
    report: Mapping[str, Any] | None,
    *,
    releases: int,
) -> bool:
    counts = entry.inputs.n if report is None else _counts(report)
    expected = report_inputs(release, counts=counts, noise=spec.privacy.noise)
    return (
        _alike(entry.inputs, expected)
        and entry.subject_kind == SUBJECT_KINDS[release.unit]
        and entry.subjects.tolist() == [0]
        and entry.releases.tolist() == [releases]
        and not entry.interrupted
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
        and _close(event, other)
        and _close(inputs.noise_multiplier, expected.noise_multiplier)
    )


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=_DIGITS)
    return bool(one == other)


def _counts(report: Mapping[str, Any]) -> int:
    """How many counts the fairness sections rest on; 0 where they cannot be read."""
    sections = value_at(report, "fairness")
    groups: Sequence[Any] = []
    if isinstance(sections, list):
        groups = [value_at(section, "groups") for section in sections]
    return len(COUNTS) * sum(len(some) for some in groups if isinstance(some, list))


def _stated(spec: ExperimentSpec, report: Mapping[str, Any], *, releases: int) -> Iterator[Check]:
    """The section of the report, all of which follows from the spec."""
    found = fairness_privacy(spec, releases=releases)
    said = value_at(report, "fairness_privacy")
    known = None if found is None else found.model_dump(mode="json")
    yield check(
        _REPORT,
        same(said, known),
        good="fairness_privacy is equal to what was recomputed from the spec",
        bad=f"fairness_privacy is {shown(said)} in the report and {shown(known)} recomputed",
    )
