"""Assemble the report of a declared ledger."""

from typing import Any

from fedaudit.privacy.declared.figures import (
    LedgerFigures,
    conditions,
    contradictions,
    ledger_figures,
)
from fedaudit.reports.checks import canonical_hash
from fedaudit.reports.declared.declared_document import (
    DeclaredPrivacy,
    DeclaredReport,
    DeclaredUtility,
    LedgerSection,
)
from fedaudit.reports.declared.declared_fairness import decides_nothing, declared_fairness
from fedaudit.reports.declared.declared_words import limits, observers_of, statement, verdict
from fedaudit.reports.declared.ledger_material import DeclaredMaterial, gaps_of, minimum_group_size
from fedaudit.reports.sections.epsilon import EpsilonSection
from fedaudit.reports.sections.guarantee import GuaranteeSection
from fedaudit.reports.sections.integrity import Integrity
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.spec.gates import PLAIN_FIGURES

_UNSIGNED = "waits for the service's signature, or the service has no key"
_NOT_DECLARED = "a declared ledger has no such figure"
_NO_COUNTS = "no counts of groups were declared, so nothing shows what the model decides"
_CONSTANT = "by the declared counts the model is no better than one answer for everybody"
_MAX_GAPS = 100


def declared_report(material: DeclaredMaterial) -> dict[str, Any]:
    """The report (version 1) as JSON-able values, not signed yet."""
    terms = material.terms
    figures = ledger_figures(terms, material.histories)
    stated = terms.model_dump(mode="json")
    sections: dict[str, Any] = {
        "ledger": _ledger(material, canonical_hash(stated) or "").model_dump(mode="json"),
        "guarantee": _guarantee(material).model_dump(mode="json"),
        "privacy": privacy_section(terms, figures).model_dump(mode="json"),
        "utility": _utility(material).model_dump(mode="json"),
        "fairness": [
            one.model_dump(mode="json")
            for one in declared_fairness(
                material.groups, minimum_group_size=minimum_group_size(material)
            )
        ],
        "fairness_round": material.groups_round,
        "contradictions": contradictions(terms, material.histories, material.drawn),
        "terms": stated,
        "limits": limits(material),
        "integrity": _integrity(material).model_dump(mode="json"),
    }
    sections["verdict"] = verdict(material, sections)
    document: dict[str, Any] = DeclaredReport.model_validate(sections).model_dump(mode="json")
    return document


def privacy_section(terms: LedgerTerms, figures: LedgerFigures) -> DeclaredPrivacy:
    """What the rounds spent."""
    known = figures.epsilon_max is not None and terms.delta and terms.adjacency
    return DeclaredPrivacy(
        epsilon_max=figures.epsilon_max,
        epsilon=[
            EpsilonSection(
                observer=terms.observer,
                delta=terms.delta or 0.0,
                adjacency=terms.adjacency or "",
                accountant=figures.accountant or "rdp",
                value=figures.epsilon_max or 0.0,
            )
        ]
        if known
        else [],
        leakage_max=figures.leakage_max,
        leakage_median=figures.leakage_median,
        log_ratio_max=figures.log_ratio_max,
        participations_max=figures.participations_max,
        budget=None if terms.budget is None else terms.budget.model_dump(),
        over_budget=figures.over_budget,
        reasons=figures.reasons,
    )


def _ledger(material: DeclaredMaterial, terms_hash: str) -> LedgerSection:
    gaps, missing = gaps_of([one.round for one in material.rounds])
    times = [one.declared_at for one in material.rounds]
    return LedgerSection(
        id=material.ledger_id,
        name=material.terms.name,
        terms_hash=terms_hash,
        rounds=len(material.rounds),
        last_round=material.rounds[-1].round if material.rounds else 0,
        gaps=gaps[:_MAX_GAPS],
        missing_rounds=missing,
        participations=sum(one.participants for one in material.rounds),
        failures=sum(one.failures for one in material.rounds),
        unreserved_rounds=sum(not one.reserved for one in material.rounds),
        refused_rounds=sum(one.refused for one in material.rounds),
        unanswered_reservations=material.unanswered_reservations,
        first_declared_at=times[0] if times else None,
        last_declared_at=times[-1] if times else None,
        minimum_group_size=minimum_group_size(material),
        witness=material.witness,
    )


def _guarantee(material: DeclaredMaterial) -> GuaranteeSection:
    terms = material.terms
    reasons = {}
    if not terms.counts_epsilon:
        why = f"the cost of {terms.mechanism} is not counted as an epsilon with a delta"
        reasons = {"adjacency": why, "delta": why}
    none = terms.mechanism == "none"
    return GuaranteeSection(
        kind="none" if none else "declared",
        label="none" if none else "declared",
        # Whether the noise was secret is nothing that anybody here knows.
        in_force=None,
        conditions=conditions(terms, material.histories),
        mechanism=terms.mechanism,
        unit=terms.unit,
        adjacency=terms.adjacency if terms.counts_epsilon else None,
        delta=terms.delta if terms.counts_epsilon else None,
        observers=list(observers_of(material)),
        statement=statement(material),
        reasons=reasons,
    )


def _utility(material: DeclaredMaterial) -> DeclaredUtility:
    found = decides_nothing(material.groups)
    reasons: dict[str, str] = {
        name: _NOT_DECLARED for name, row in PLAIN_FIGURES.items() if row.section == "utility"
    }
    if found is None:
        reasons["degenerate"] = _NO_COUNTS
    elif found:
        reasons["degenerate"] = _CONSTANT
    return DeclaredUtility(degenerate=found, reasons=reasons)


def _integrity(material: DeclaredMaterial) -> Integrity:
    missing = ("signature", "key_id") if material.key_id is None else ("signature",)
    return Integrity(
        ledger_hash=material.ledger_hash,
        chain_head=material.chain_head,
        entries=material.entries,
        signature=None,
        key_id=material.key_id,
        reasons=dict.fromkeys(missing, _UNSIGNED),
    )
