"""Whether the held-out people were charged for the report as its spec has it, and as it says."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.ledger.entries import LedgerEntry
from fedaudit.ledger.report_entries import SUBJECT_KINDS, charges_report, report_inputs
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.held_out.count_release import CountRelease, count_release
from fedaudit.reports.document.checks import Check, check, same, shown, value_at
from fedaudit.reports.sections.fairness_privacy import fairness_privacy
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.metrics import COUNTS
from fedaudit.spec.parse import parse_spec

_ENTRIES, _REPORT = "ledger.fairness_privacy", "report.fairness_privacy"
_MOST = 2
"""Entries that are kept: one is right, and a second shows that there are too many."""
_DIGITS = 1e-9
"""Relative: the same few sums of floats."""


class ReportCharges:
    """The entries of a ledger that charge the held-out people."""

    def __init__(self, spec: Any) -> None:
        """`spec`: as stored, of any form."""
        try:
            self._spec: ExperimentSpec | None = parse_spec(spec)
            self._release = count_release(self._spec)
        except InvalidInputError:
            self._spec, self._release = None, None
        self._entries: list[LedgerEntry] = []

    def read(self, entry: LedgerEntry) -> None:
        """Note the next entry."""
        if charges_report(entry.observer) and len(self._entries) < _MOST:
            self._entries.append(entry)

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
        if report is None and not self._entries:
            return  # it ended before it was charged, and published nothing
        yield check(
            _ENTRIES,
            len(self._entries) == 1 and _fits(self._entries[0], release, spec, report),
            good="the held-out people are charged once, as the spec has it",
            bad="the held-out people are not charged once, by the mechanism and to the epsilon "
            "that follow from the spec",
        )
        if report is not None:
            yield from _stated(spec, report)


def _fits(
    entry: LedgerEntry,
    release: CountRelease,
    spec: ExperimentSpec,
    report: Mapping[str, Any] | None,
) -> bool:
    counts = entry.inputs.n if report is None else _counts(report)
    expected = report_inputs(release, counts=counts, noise=spec.privacy.noise)
    return (
        _alike(entry.inputs, expected)
        and entry.subject_kind == SUBJECT_KINDS[release.unit]
        and entry.subjects.tolist() == [0]
        and entry.releases.tolist() == [1]
        and not entry.interrupted
        and entry.epsilons is not None
        and bool(np.allclose(entry.epsilons, release.epsilon(1), rtol=_DIGITS, atol=0))
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


def _stated(spec: ExperimentSpec, report: Mapping[str, Any]) -> Iterator[Check]:
    """The section of the report, all of which follows from the spec."""
    found = fairness_privacy(spec, releases=1)
    said = value_at(report, "fairness_privacy")
    known = None if found is None else found.model_dump(mode="json")
    yield check(
        _REPORT,
        same(said, known),
        good="fairness_privacy is as computed anew from the spec",
        bad=f"fairness_privacy is {shown(said)} in the report and {shown(known)} computed anew",
    )
