"""Verify what a declared ledger left: its entries are composed anew from what they declare."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.ledger.audit import LedgerAudit, Places
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.declared import ChargedEntries
from fedaudit.privacy.declared.histories import Histories, renyi_epsilons
from fedaudit.reports.checks import MALFORMED, Check, answer_check, check, failed, unchecked
from fedaudit.reports.declared.declared_report import DECLARED, declared_answer
from fedaudit.reports.declared.ledger_material import DeclaredEvidence
from fedaudit.reports.sections.part import section_checks
from fedaudit.spec.declared_ledgers import LedgerTerms

_DIGITS = 1e-9
_MAX_CHARGES = 10_000
"""Distinct events that are composed anew."""


def is_declared(spec: Any) -> bool:
    """Whether the evidence is of a declared ledger: its spec are the ledger's terms."""
    return isinstance(spec, dict) and "terms_version" in spec


class DeclaredEntries:
    """Charges the entries anew, one after the other, and compares what they state."""

    def __init__(self, spec: Any, names: Any) -> None:
        """`spec`: the terms, of any form; `names`: the subjects' by index."""
        self._histories = Histories(list(names))
        try:
            self._terms: LedgerTerms | None = LedgerTerms.model_validate(spec)
        except ValueError:
            self._terms = None
        else:
            self._charged = ChargedEntries(self._terms, self._histories)
        self._wrong = Places()
        self._foreign = Places()
        self._skipped = False
        self._rounds: list[int] = []
        self._participations = self._failures = 0
        self._names_are_secret = False

    def read(self, entry: EntryColumns) -> None:
        """Charge the next entry."""
        self._count(entry)
        if self._terms is None or self._skipped:
            return
        place = "round {}, release {}".format(*entry.keys[0])
        try:
            self._charged.read(entry)
            self._skipped = len(self._histories.tallies) > _MAX_CHARGES
            if self._skipped or entry.epsilons is None:
                return
            if not self._agrees(entry, entry.epsilons, self._terms):
                self._wrong.add(place)
        except MALFORMED:
            self._foreign.add(place)

    def _count(self, entry: EntryColumns) -> None:
        key = entry.keys[0]
        if key.round not in self._rounds[-1:]:
            self._rounds.append(key.round)
        if entry.subject_kind != "client":
            self._names_are_secret = True
        elif key.release:
            self._failures += len(entry.subjects)
        else:
            self._participations += len(entry.subjects)

    def _agrees(self, entry: EntryColumns, stated: Floats, terms: LedgerTerms) -> bool:
        rows = self._histories.of(entry.subjects)
        found = renyi_epsilons(rows, self._histories.charges, terms)
        unbounded = ~np.isfinite(found) & ~np.isfinite(stated)
        return bool((unbounded | np.isclose(stated, found, rtol=_DIGITS, atol=1e-12)).all())

    def checks(self, evidence: Evidence, audit: LedgerAudit) -> Iterator[Check]:
        """The findings in entries and report, once all entries were read."""
        if self._terms is None:
            yield failed("ledger.terms", "the ledger's terms cannot be read")
            return
        yield check(
            "ledger.inputs",
            not self._foreign.count,
            good="every entry is of the ledger's terms",
            bad=f"not of the ledger's terms: {self._foreign}",
        )
        if self._skipped:
            yield unchecked("ledger.epsilons", "the entries have too many distinct events")
        elif self._terms.counts_epsilon:
            yield check(
                "ledger.epsilons",
                not self._wrong.count,
                good="every entry's epsilons are equal to what was recomputed",
                bad=f"not equal to what was recomputed: {self._wrong}",
            )
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
