"""What the report of a declared ledger is made from and verified against, with its gaps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.gaps import REMEDY_OF_SPEC, Figure, gaps, scored_rows
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.declared import Declared, Reserved
from fedaudit.privacy.declared.canary_evidence import CanaryEvidence
from fedaudit.privacy.declared.figures import Drawn, contradictions
from fedaudit.privacy.declared.histories import Histories
from fedaudit.reports.sections.fairness import (
    FairnessSection,
    MetricSection,
    absent,
    group_sections,
    rate_columns,
)
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.spec.metrics import COUNTS, SCORE_METRICS

Tallies = Mapping[str, Mapping[str, Mapping[str, int]]]

_NO_CLIENTS = "the counts are declared of all clients together, so no client can be drawn anew"
_NO_SCORES = "only counts are declared"
_NO_ACCURACY = "declared counts show whether an outcome was favourable, not whether it was right"
_REMEDY = "to get one, declare counts in which small groups are joined"
_SIZES_CONFIDENTIAL = "sizes of groups are confidential, also where the trainer declares them"


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredMaterial:
    """A ledger and its rounds, in order."""

    ledger_id: str
    terms: LedgerTerms
    histories: Histories
    drawn: Drawn
    """Who was named in rounds that charge everyone; no report or bundle shows them."""
    rounds: Sequence[Declared]
    reservations: Sequence[Reserved]
    first_declaration: int | None
    """The first round of which the chain holds what was declared beside its entries."""
    least_group_size: int
    """What the service and the federation's policy allow at this moment, whatever the terms say."""
    federation_units: int
    """Records or clients of the federation that the terms name; 0 where they are not known."""
    made_at: datetime
    ledger_hash: str
    chain_head: str
    entries: int
    witness: str | None = None
    """Witness of the checkpoint that is signed with the report; None without a signature."""
    key_id: str | None = None

    @property
    def minimum_group_size(self) -> int:
        """Groups with fewer rows are suppressed: the larger of the terms' minimum and of what is
        allowed now."""
        return max(self.terms.minimum_group_size, self.least_group_size)

    @property
    def contradicted(self) -> list[str]:
        """Where what was declared contradicts itself."""
        return contradictions(self.terms, self.histories, self.drawn, self.federation_units)

    @property
    def canaries(self) -> CanaryEvidence | None:
        """What canaries show up to the last round that has any."""
        stored = next((one.canaries for one in reversed(self.rounds) if one.canaries), None)
        return None if stored is None else CanaryEvidence.of(stored)

    @property
    def groups_round(self) -> Declared | None:
        """The newest round that declared counts of groups."""
        return next((one for one in reversed(self.rounds) if one.groups), None)

    @property
    def groups(self) -> Tallies:
        """The counts of that round, by attribute and group."""
        found: Tallies = {} if self.groups_round is None else self.groups_round.groups
        return found

    @property
    def unanswered_reservations(self) -> int:
        """Rounds that were reserved, and neither declared nor released."""
        last = self.rounds[-1].round if self.rounds else 0
        return sum(
            one.replaced
            + bool(one.state == "open" and (one.expires_at <= self.made_at or one.round < last))
            for one in self.reservations
        )


@dataclass(frozen=True, kw_only=True)
class DeclaredEvidence:
    """The report of a declared ledger, with what verification has read of everything else."""

    evidence: Evidence
    report: Mapping[str, Any]
    audit: LedgerAudit
    terms: LedgerTerms
    histories: Histories | None
    """What the entries charged; None where they have too many distinct events."""
    rounds: Sequence[int]
    """The numbers of the rounds that have entries."""
    asked: tuple[int, int] | None
    """Participations and failures in them; None where entries hide who took part."""


def declared_fairness(material: DeclaredMaterial) -> list[FairnessSection]:
    """A section for each attribute; small groups are suppressed, and others with them where a small
    one would follow from the rest of the same attribute."""
    rule = DisclosureRule(material.minimum_group_size)
    return [_section(name, groups, rule) for name, groups in sorted(material.groups.items())]


def decides_nothing(groups: Tallies) -> bool | None:
    """Whether the declared counts come from a model that is no better than one answer for all; None
    without counts."""
    if not groups:
        return None
    tp, fp, tn, fn = _counts(groups[min(groups)]).sum(axis=0).tolist()
    constant = max(tp + fn, tn + fp)
    return bool(tp + tn <= constant or tp + fp == 0 or tn + fn == 0)


def _section(
    attribute: str, groups: Mapping[str, Mapping[str, int]], rule: DisclosureRule
) -> FairnessSection:
    counts = _counts(groups)
    disclosure = rule.decide(scored_rows(counts))
    metrics = {
        one.metric: MetricSection(
            value=one.value,
            reason=one.reason and one.reason.replace(REMEDY_OF_SPEC, _REMEDY),
            interval=None,
            interval_reason=_NO_SCORES if one.metric in SCORE_METRICS else _NO_CLIENTS,
        )
        for one in (
            *gaps(counts, disclosure)[0],
            *(Figure(name, None, _NO_SCORES) for name in SCORE_METRICS),
        )
    }
    columns = {
        **rate_columns(counts, has_favourable_outcome=True),
        **absent(("accuracy",), len(counts), _NO_ACCURACY),
        **absent(("loss", "auc"), len(counts), _NO_SCORES),
    }
    return FairnessSection(
        attribute=attribute,
        favourable="as the trainer counts it",
        reference_group=None,
        groups=group_sections(sorted(groups), columns, disclosure, no_sizes=_SIZES_CONFIDENTIAL),
        metrics=metrics,
        cross_check_reason="the rows are elsewhere, so nothing was computed twice",
    )


def _counts(groups: Mapping[str, Mapping[str, int]]) -> Ints:
    return np.array([[groups[name][count] for count in COUNTS] for name in sorted(groups)])


_MAX_GAPS = 100


def gaps_of(numbers: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """First and last of each run of numbers that is missing, the first 100 runs, and how many
    numbers are missing in all."""
    steps = pairwise([0, *numbers])
    gaps = [(before + 1, number - 1) for before, number in steps if number > before + 1]
    return gaps[:_MAX_GAPS], sum(last - first + 1 for first, last in gaps)
