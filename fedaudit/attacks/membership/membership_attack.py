"""The attack `membership`: scores of rows, their rates, and what the run's claim allows."""

import numpy as np
import torch

from fedaudit.arrays import Floats
from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, source_of
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.membership.member_rates import (
    CONFIDENCE,
    FALSE_POSITIVE_RATES,
    Claim,
    FoundMembers,
    area_under_curve,
    claim_of,
    contradiction_of,
    found_members,
    group_exposure,
)
from fedaudit.attacks.membership.member_scores import (
    Observations,
    RowObserver,
    ShadowObservations,
    likelihood_ratios,
    observe_shadows,
)
from fedaudit.attacks.membership.shadow_design import AttackedRows, choose_rows, draw_shadows
from fedaudit.federations.federation import Federation
from fedaudit.reports.sections.attacks import (
    ClaimedRate,
    ClaimSection,
    MembershipSection,
    RateAtFpr,
)
from fedaudit.spec.attacks.membership_spec import MembershipSpec
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spreadsheet import plain_text

_TRAINED = 0.9
"""The share of the work that shadow runs are."""
UNCOVERED = (
    "These figures follow from the training data, and no guarantee covers them: keep them "
    "confidential."
)


def attack_membership(
    spec: MembershipSpec, attacked: AttackedRun, *, progress: Progress
) -> AttackOutcome:
    """Membership inference on the trained hypotheses."""
    cell, shadows = attacked.run.cell, None
    source = source_of(cell)
    rows = choose_rows(cell, source, models=spec.shadows or 1)
    observer = RowObserver(cell, rows, torch.device(attacked.device))
    seen = observer.observe(attacked.result.hypotheses)
    if spec.shadows is not None:
        cells, trained = draw_shadows(cell, rows, source, shadows=spec.shadows)
        shadows = observe_shadows(
            cells,
            trained,
            rows,
            device=attacked.device,
            progress=lambda done: progress(_TRAINED * done),
        )
    scores = -seen.loss if shadows is None else likelihood_ratios(seen.statistic, shadows)
    # A row without a score comes last.
    lowest, most = np.finfo(np.float64).min, np.finfo(np.float64).max
    scores = np.nan_to_num(scores, nan=lowest, posinf=most, neginf=lowest)
    found = found_members(scores, rows)
    progress(0.95)
    section = _section(spec, attacked, rows, scores, found, shadows=shadows)
    files = _files(attacked.run.federation, rows, scores, seen, found)
    progress(1.0)
    return AttackOutcome(section, files)


def _section(
    spec: MembershipSpec,
    attacked: AttackedRun,
    rows: AttackedRows,
    scores: Floats,
    found: list[FoundMembers],
    *,
    shadows: ShadowObservations | None,
) -> MembershipSection:
    auc, claim = area_under_curve(scores, rows.member), claim_of(attacked)
    alarm, weighed = None, None
    if not isinstance(claim, str):
        against = contradiction_of(claim, scores, rows)
        weighed = attacked.weigh(against.e_value, "run")
        alarm = weighed.alarm(claim=against.claim, evidence=against.evidence)
    fewest = (None, None) if shadows is None else shadows.fewest
    rates = [one.rate for one in found]
    at_1pct = next(one for one in rates if one.fpr == 0.01)
    return MembershipSection(
        kind="membership",
        status="done",
        reason=None,
        statement=_statement(spec, attacked.run.spec, auc, rates, claim, alarmed=alarm is not None),
        capabilities=_capabilities(spec, attacked.run.spec),
        alarm=alarm,
        **({} if weighed is None else weighed.fields()),
        method=spec.method,
        variant=None if shadows is None else "online",
        variance=None if shadows is None else "per-record",
        shadows=spec.shadows,
        fewest_with=fewest[0],
        fewest_without=fewest[1],
        members=int(rows.member.sum()),
        non_members=int((~rows.member).sum()),
        auc=auc,
        tpr_at_fpr=rates,
        membership_tpr_at_1pct=at_1pct.tpr,
        confidence=CONFIDENCE,
        others=[],
        not_normal_share=None,
        not_normal_rows=None,
        claim=None if isinstance(claim, str) else claim_section(claim),
        groups=group_exposure(attacked.run, rows, scores, found),
        reasons=_reasons(spec, at_1pct, claim),
    )


def _reasons(spec: MembershipSpec, at_1pct: RateAtFpr, claim: Claim | str) -> dict[str, str]:
    untested = "no score rests on it any more, so that it is not tested"
    reasons = dict.fromkeys(("not_normal_share", "not_normal_rows"), untested)
    if spec.shadows is None:
        why = "a threshold on the loss needs no shadow runs"
        absent = ("variant", "variance", "shadows", "fewest_with", "fewest_without")
        reasons |= dict.fromkeys(absent, why)
    if at_1pct.reason is not None:
        reasons["membership_tpr_at_1pct"] = at_1pct.reason
    if isinstance(claim, str):
        reasons["claim"] = claim
    return reasons


def claim_section(claim: Claim) -> ClaimSection:
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


def _files(
    federation: Federation,
    rows: AttackedRows,
    scores: Floats,
    seen: Observations,
    found: list[FoundMembers],
) -> dict[str, bytes]:
    """`scores.csv`, a line for each row, and `clients.csv`, a line for each client."""
    number = rows.place - federation.first[rows.client] + 1
    by_row = (
        {
            "client": plain_text(federation.client_names[rows.client[place]]),
            "row": int(number[place]),
            "member": int(rows.member[place]),
            "score": float(scores[place]),
            "loss": float(seen.loss[place]),
            "statistic": float(seen.statistic[place]),
        }
        for place in range(len(rows))
    )
    by_client = (
        {
            "client": plain_text(federation.client_names[client]),
            "rows": int(own.sum()),
            "members": int(rows.member[own].sum()),
            "score_mean": float(scores[own].mean()),
            **{
                f"taken_for_members_at_{one.rate.fpr:g}": int((scores[own] >= one.threshold).sum())
                for one in found
                if one.threshold is not None
            },
        }
        for client in np.unique(rows.client).tolist()
        for own in [rows.client == client]
    )
    return {"scores.csv": csv_table(by_row), "clients.csv": csv_table(by_client)}


def _capabilities(spec: MembershipSpec, attacked: ExperimentSpec) -> list[str]:
    found = [
        "Has the trained hypotheses, of the round that the run keeps, and nothing of the rounds "
        "themselves.",
        "Has every row in question, with its target, and does not know whether it was trained on.",
    ]
    if attacked.training.hypotheses > 1:
        found.append(
            "Has the other rows of the row's client, and evaluates a row under the hypothesis that "
            "fits those best; the row itself does not influence it, unless its client has no other."
        )
    found.append(
        "Takes rows with the smallest losses for members."
        if spec.shadows is None
        else f"Knows the spec but for its seed, and trains {spec.shadows} shadow runs by it on "
        "random halves of all clients' data."
    )
    found.append(
        "Does not know the seed of the run: with it an attacker knows the split, and has nothing "
        "to guess."
    )
    return found


def _statement(
    spec: MembershipSpec,
    attacked: ExperimentSpec,
    auc: float,
    rates: list[RateAtFpr],
    claim: Claim | str,
    *,
    alarmed: bool,
) -> str:
    sentences = [
        f"{_tried(spec)} A member scored above a non-member in {auc:.1%} of pairs (AUC), where "
        "guessing gives 50 %."
    ]
    for rate in rates:
        if rate.tpr is not None and rate.interval is not None:
            sentences.append(
                f"With at most {rate.fpr:.1%} of the non-members taken for members, "
                f"{rate.tpr:.2%} of the members were found ({rate.interval.low:.2%} to "
                f"{rate.interval.high:.2%}); guessing finds {rate.fpr:.1%}."
            )
        elif rate.reason is not None:
            sentences.append(f"There is no rate at {rate.fpr:.1%}: {rate.reason}.")
    sentences.append(beside_claim(claim, rates, alarmed=alarmed))
    choice = (
        "; held-out rows do help to choose the round that is kept, which no claim covers, and "
        "which makes their losses a little smaller"
    )
    sentences += [
        "Members and non-members differ by the split alone, which draws them at random, so nothing "
        f"but training distinguishes them{choice if attacked.chooses_by_losses else ''}.",
        "A better attack may find more, so a small rate is no guarantee.",
    ]
    if spec.shadows is not None:
        sentences.append(
            "The shadow runs used the run's spec and code with fresh noise, never the noise that "
            "the run drew; they changed no figure of the run and were charged to no budget."
        )
    if attacked.privacy.noise == "release":
        sentences.append(UNCOVERED)
    return " ".join(sentences)


def beside_claim(claim: Claim | str, rates: list[RateAtFpr], *, alarmed: bool) -> str:
    """What the claim of a run allows at these rates, and whether the measurement exceeds it."""
    if isinstance(claim, str):
        return f"The rates are compared with no claim: {claim}."
    allowed = ", ".join(f"{claim.tpr_max(one.fpr):.2%} at {one.fpr:.1%}" for one in rates)
    steps = "" if claim.steps == 1 else f" ({claim.steps} neighbours lie between the two)"
    return f"The claim, {claim}, allows at most {allowed}{steps}. " + (
        "That the measurement exceeds it is evidence that the mechanism or its accounting is wrong."
        if alarmed
        else "The limits that one score of each client gives do not contradict it, which does "
        "not prove it."
    )


def _tried(spec: MembershipSpec) -> str:
    if spec.shadows is None:
        return "Rows were taken for members by their loss alone (Yeom et al. 2018)."
    return (
        "Rows were taken for members by a likelihood ratio, online and with a variance for each "
        f"record, over {spec.shadows} shadow runs (LiRA, Carlini et al. 2022)."
    )
