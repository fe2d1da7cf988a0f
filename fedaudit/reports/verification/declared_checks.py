"""Verify what a declared ledger left: its entries are composed anew from what they declare."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedaudit.ledger.audit import LedgerAudit, Places
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.declared import charge_of_entry, declared_inputs
from fedaudit.ledger.rows import LedgerEntry
from fedaudit.privacy.declared.figures import ledger_figures
from fedaudit.privacy.declared.histories import Histories, renyi_epsilons
from fedaudit.reports.checks import Check, canonical_hash, check, same, shown, unchecked, value_at
from fedaudit.reports.declared.declared_report import privacy_section
from fedaudit.spec.declared_ledgers import LedgerTerms

_DIGITS = 1e-9
_DIGITS_OF_PLD = 1e-6
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, IndexError)
_MAX_CHARGES = 10_000
"""Distinct events that are composed anew."""


def is_declared(spec: Any) -> bool:
    """Whether the evidence is of a declared ledger: its spec are the ledger's terms."""
    return isinstance(spec, dict) and "terms_version" in spec


class DeclaredEntries:
    """Charges the entries anew, one after the other, and compares what they state."""

    def __init__(self, spec: Any, names: Any) -> None:
        """`spec`: the terms, of any form; `names`: the subjects' by index."""
        try:
            self._terms: LedgerTerms | None = LedgerTerms.model_validate(spec)
        except ValueError:
            self._terms = None
        self._histories = Histories(list(names))
        self._wrong = Places()
        self._foreign = Places()
        self._skipped = False

    def read(self, entry: LedgerEntry) -> None:
        """Charge the next entry."""
        if self._terms is None or self._skipped:
            return
        place = f"round {entry.round}, release {entry.release}"
        try:
            charge, steps = charge_of_entry(entry)
            if len(self._histories.tallies) > _MAX_CHARGES:
                self._skipped = True
                return
            if entry.inputs != declared_inputs(self._terms, charge, steps=steps):
                self._foreign.add(place)
            named = np.empty(0, dtype=np.int32) if charge.everyone else entry.subjects
            self._histories.charge(charge, named, steps=steps)
            self._compare(entry, place)
        except _MALFORMED:
            self._foreign.add(place)

    def _compare(self, entry: LedgerEntry, place: str) -> None:
        terms = self._terms
        if entry.epsilons is None or terms is None:
            return
        if terms.adjacency is None or terms.delta is None:
            raise ValueError("an epsilon without adjacency and delta")
        rows = self._histories.of(entry.subjects)
        found = renyi_epsilons(
            rows, self._histories.charges, adjacency=terms.adjacency, delta=terms.delta
        )
        unbounded = ~np.isfinite(found) & ~np.isfinite(entry.epsilons)
        close = np.isclose(entry.epsilons, found, rtol=_DIGITS, atol=1e-12)
        if not (unbounded | close).all():
            self._wrong.add(place)

    def checks(self, evidence: Evidence, audit: LedgerAudit) -> Iterator[Check]:
        """The findings, once all entries were read."""
        if self._terms is None:
            yield check("ledger.terms", False, good="", bad="the ledger's terms cannot be read")
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
            yield from self._report(evidence, evidence.report, audit)

    def _report(
        self, evidence: Evidence, report: Mapping[str, Any], audit: LedgerAudit
    ) -> Iterator[Check]:
        terms = self._terms
        assert terms is not None
        terms_hash = canonical_hash(evidence.spec)
        found = {
            "ledger.id": evidence.experiment_id,
            "ledger.terms_hash": terms_hash,
            "integrity.ledger_hash": audit.ledger_hash,
            "integrity.chain_head": audit.head.hex(),
            "integrity.entries": audit.entries,
            "guarantee.kind": "none" if terms.mechanism == "none" else "declared",
            "declared": True,
        }
        for path, value in found.items():
            yield _agrees(report, path, value)
        yield check(
            "report.terms",
            canonical_hash(value_at(report, "terms")) == terms_hash,
            good="the report is about the stored terms",
            bad="the report's terms are not the stored ones",
        )
        if self._skipped:
            yield unchecked("report.figures", "the entries have too many distinct events")
            return
        section = privacy_section(terms, ledger_figures(terms, self._histories))
        digits = _DIGITS_OF_PLD if terms.accountant == "pld" else _DIGITS
        for name, value in section.model_dump(mode="json").items():
            yield _agrees(report, f"privacy.{name}", value, digits=digits)


def _agrees(report: Mapping[str, Any], path: str, found: Any, *, digits: float = 0.0) -> Check:
    said = value_at(report, *path.split("."))
    equal = same(said, found)
    if isinstance(said, float) and isinstance(found, float) and digits:
        equal = bool(np.isclose(said, found, rtol=digits, atol=0.0))
    if isinstance(said, list) and isinstance(found, list) and digits:
        equal = len(said) == len(found) and all(map(_near(digits), said, found))
    return check(
        f"report.{path.rpartition('.')[2]}",
        equal,
        good=f"{path} is equal to what was recomputed",
        bad=f"{path} is {shown(said)} in the report and {shown(found)} recomputed",
    )


def _near(digits: float) -> Any:
    def near(said: Any, found: Any) -> bool:
        if not isinstance(said, dict) or said.keys() != found.keys():
            return False
        return all(
            bool(np.isclose(said[name], value, rtol=digits, atol=0.0))
            if isinstance(value, float) and isinstance(said[name], float)
            else same(said[name], value)
            for name, value in found.items()
        )

    return near
