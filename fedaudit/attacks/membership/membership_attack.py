"""The attack `membership`: scores of rows, their rates, and what the run's claim allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.membership.attacked_rows import AttackedRows, choose_rows
from fedaudit.attacks.membership.claimed_rates import Claim, claim_of
from fedaudit.attacks.membership.found_members import (
    FALSE_POSITIVE_RATES,
    FoundMembers,
    area_under_curve,
    finite_scores,
    found_members,
)
from fedaudit.attacks.membership.group_exposure import group_exposure
from fedaudit.attacks.membership.likelihood_ratios import TESTED_ROWS, likelihood_ratios, not_normal
from fedaudit.attacks.membership.membership_alarm import contradiction_of
from fedaudit.attacks.membership.membership_files import membership_files
from fedaudit.attacks.membership.membership_words import capabilities, statement
from fedaudit.attacks.membership.relative_likelihoods import relative_likelihoods
from fedaudit.attacks.membership.requirements_of_membership import least_shadows_each
from fedaudit.attacks.membership.row_observations import Observations, RowObserver
from fedaudit.attacks.membership.shadow_design import draw_shadows
from fedaudit.attacks.membership.shadow_runs import ShadowObservations, observe_shadows
from fedaudit.randomness import CounterSource, EntropySource, Source
from fedaudit.reports.sections.attacks import (
    ClaimedRate,
    ClaimSection,
    ConfidenceLimits,
    MembershipRates,
    MembershipSection,
    RateAtFpr,
)
from fedaudit.spec.attacks.membership_spec import MembershipSpec, ScoreVariance, ShadowVariant
from fedaudit.training.base.cell import draws_in_secret

CONFIDENCE = 0.95
"""Of intervals."""
_TRAINED = 0.9
"""The share of the work that shadow runs are."""

Way = tuple[ShadowVariant | None, ScoreVariance | None]
_WAYS: tuple[Way, ...] = (
    ("online", "per-record"),
    ("online", "global"),
    ("offline", "per-record"),
    ("offline", "global"),
)
"""All likelihood ratios."""


@dataclass(frozen=True)
class MembershipAttack(Attack):
    """Membership inference on the trained hypotheses."""

    spec: MembershipSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """See `Attack`."""
        cell, spec = attacked.run.cell, self.spec
        source = EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)
        rows = choose_rows(cell, source, models=spec.shadows or 1)
        observer = RowObserver(cell, rows, torch.device(attacked.device))
        seen = observer.observe(attacked.result.hypotheses)
        shadows = self._shadows(attacked, rows, source, progress=progress)
        scores = self._scores(seen, shadows, residuals=not cell.federation.classes)
        own = scores[self._way]
        found = found_members(own, rows, confidence=CONFIDENCE)
        progress(0.95)
        section = self._section(attacked, rows, scores, found, shadows)
        files = membership_files(
            attacked.run.federation,
            rows,
            {"score": own, "loss": seen.loss, "statistic": seen.statistic},
            found,
        )
        progress(1.0)
        return AttackOutcome(section, files)

    @property
    def _way(self) -> Way:
        """How the scores that count are made."""
        if self.spec.method == "likelihood-ratio":
            return self.spec.variant, self.spec.variance
        return None, None

    def _shadows(
        self, attacked: AttackedRun, rows: AttackedRows, source: Source, *, progress: Progress
    ) -> ShadowObservations | None:
        if self.spec.shadows is None:
            return None
        cells, trained = draw_shadows(
            attacked.run.cell,
            rows,
            source,
            shadows=self.spec.shadows,
            least=least_shadows_each(self.spec),
        )
        return observe_shadows(
            cells,
            trained,
            rows,
            device=attacked.device,
            progress=lambda done: progress(_TRAINED * done),
        )

    def _scores(
        self, seen: Observations, shadows: ShadowObservations | None, *, residuals: bool
    ) -> Mapping[Way, NDArray[np.float64]]:
        """The scores [rows] of every way to make them; larger for likelier members."""
        match self.spec.method:
            case "threshold":
                return {(None, None): finite_scores(-seen.loss)}
            case "relative":
                assert shadows is not None
                found = relative_likelihoods(seen.statistic, shadows, residuals=residuals)
                return {(None, None): finite_scores(found)}
            case "likelihood-ratio":
                assert shadows is not None
                return {
                    (variant, variance): finite_scores(
                        likelihood_ratios(
                            seen.statistic,
                            shadows,
                            residuals=residuals,
                            variant=variant,
                            variance=variance,
                        )
                    )
                    for variant, variance in _WAYS
                    if variant is not None and variance is not None
                }
            case _:
                assert_never(self.spec.method)

    def _section(
        self,
        attacked: AttackedRun,
        rows: AttackedRows,
        scores: Mapping[Way, NDArray[np.float64]],
        found: list[FoundMembers],
        shadows: ShadowObservations | None,
    ) -> MembershipSection:
        spec, own = self.spec, scores[self._way]
        auc, claim = area_under_curve(own, rows.member), claim_of(attacked)
        alarm, weighed = None, None
        if not isinstance(claim, str):
            against = contradiction_of(claim, own, rows)
            weighed = attacked.weigh(against.e_value, "run")
            alarm = weighed.alarm(claim=against.claim, evidence=against.evidence)
        fewest = (None, None) if shadows is None else shadows.fewest
        variant, variance = self._way
        tested = self._tested(rows, shadows)
        reasons = _reasons(spec, found, claim)
        return MembershipSection(
            kind="membership",
            status="done",
            reason=None,
            statement=statement(
                spec,
                attacked.run.spec,
                auc=auc,
                found=found,
                claim=claim,
                alarmed=alarm is not None,
            ),
            capabilities=capabilities(spec, attacked.run.spec),
            alarm=alarm,
            **({} if weighed is None else weighed.fields()),
            method=spec.method,
            variant=variant,
            variance=variance,
            shadows=spec.shadows,
            fewest_with=fewest[0],
            fewest_without=fewest[1],
            members=int(rows.member.sum()),
            non_members=int((~rows.member).sum()),
            auc=auc,
            tpr_at_fpr=_rates(found),
            membership_tpr_at_1pct=_at_1pct(found).tpr,
            confidence=CONFIDENCE,
            others=[
                MembershipRates(
                    variant=way[0],
                    variance=way[1],
                    auc=area_under_curve(values, rows.member),
                    tpr_at_fpr=_rates(found_members(values, rows, confidence=CONFIDENCE)),
                )
                for way, values in scores.items()
                if way != self._way
            ],
            not_normal_share=None if tested is None else float(tested.mean()),
            not_normal_rows=None if tested is None else len(tested),
            claim=None if isinstance(claim, str) else _claim_section(claim),
            groups=group_exposure(attacked.run, rows, own, found, confidence=CONFIDENCE),
            reasons=reasons,
        )

    def _tested(
        self, rows: AttackedRows, shadows: ShadowObservations | None
    ) -> NDArray[np.bool_] | None:
        """Whether statistics are not normal, of rows evenly spaced over those attacked."""
        if shadows is None or self.spec.method != "likelihood-ratio":
            return None
        count = min(TESTED_ROWS, len(rows))
        return not_normal(shadows, np.linspace(0, len(rows) - 1, count).astype(np.int64))


def _at_1pct(found: list[FoundMembers]) -> FoundMembers:
    return next(one for one in found if one.fpr == 0.01)


def _rates(found: list[FoundMembers]) -> list[RateAtFpr]:
    return [
        RateAtFpr(
            fpr=one.fpr,
            tpr=one.tpr,
            interval=None
            if one.limits is None
            else ConfidenceLimits(low=one.limits.low, high=one.limits.high),
            reason=one.reason,
        )
        for one in found
    ]


def _reasons(spec: MembershipSpec, found: list[FoundMembers], claim: Claim | str) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if spec.method != "likelihood-ratio":
        why = f"the method {spec.method} has none"
        reasons |= dict.fromkeys(
            ("variant", "variance", "not_normal_share", "not_normal_rows"), why
        )
    if spec.shadows is None:
        why = "a threshold on the loss needs no shadow runs"
        reasons |= dict.fromkeys(("shadows", "fewest_with", "fewest_without"), why)
    missing = _at_1pct(found).reason
    if missing is not None:
        reasons["membership_tpr_at_1pct"] = missing
    if isinstance(claim, str):
        reasons["claim"] = claim
    return reasons


def _claim_section(claim: Claim) -> ClaimSection:
    one = claim.claimed
    return ClaimSection(
        epsilon=claim.epsilon,
        delta=claim.delta,
        claimed_epsilon=one.value,
        claimed_delta=one.delta,
        unit=claim.unit,
        adjacency=one.adjacency,
        observer=one.observer,
        steps=claim.steps,
        rates=[ClaimedRate(fpr=rate, tpr_max=claim.tpr_max(rate)) for rate in FALSE_POSITIVE_RATES],
    )
