"""The attack `client-inference`: one client infers from the model which others took part.

Sainz-Pardo Diaz et al., "Metric-privacy-inspired noise calibration in federated learning",
Knowledge-Based Systems 343 (2026), sections 5 and 7.4: a semi-honest client has the model that the
server sends to all, the loss of all clients together that the server announces, and some rows of
the client that it asks about. It takes a small loss on these for a sign that the client took part.
The paper compares a training with the client and one without; here clients of one training are
compared with those that were held out of it, by the coin of the split. Where there are shadow runs,
a client is scored by the likelihood ratio of its rows (LiRA) instead.
"""

import numpy as np

from fedaudit.arrays import Bools, Floats
from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, source_of
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.membership.member_rates import (
    CONFIDENCE,
    area_under_curve,
    claim_of,
    clopper_pearson,
    found_members,
)
from fedaudit.attacks.membership.membership_attack import (
    UNCOVERED,
    beside_claim,
    claimed_rates,
    finite_scores,
    observe,
)
from fedaudit.attacks.membership.shadow_design import AttackedRows, choose_rows
from fedaudit.reports.sections.attacks import Advantage, ClientInferenceSection
from fedaudit.spec.attacks import ClientInferenceSpec
from fedaudit.spreadsheet import plain_text

_DETECTED = 1.645 + 0.842
"""Standard normal quantiles of a one-sided level of 5 % and a power of 80 %."""


def attack_client_inference(
    spec: ClientInferenceSpec, attacked: AttackedRun, *, progress: Progress
) -> AttackOutcome:
    """Guesses of who took part, by the trained hypotheses."""
    cell = attacked.run.cell
    source = source_of(cell)
    rows = choose_rows(cell, source, models=spec.shadows or 1, share=spec.shadow_share)
    seen, ratios = observe(attacked, rows, source, shadows=spec.shadows, progress=progress)
    # A client's score is that of the mean of its rows, in the place of its first.
    _, first, counts = np.unique(rows.client, return_index=True, return_counts=True)
    clients = AttackedRows(rows.place[first], rows.client[first], rows.member[first])
    scores: Floats = np.add.reduceat(seen.loss if ratios is None else ratios, first) / counts
    if ratios is None:
        announced = scores[clients.member & np.isfinite(scores)]
        # Without any finite loss there is no mean, and no client is said to have taken part.
        scores = (announced.mean() if len(announced) else 0.0) - scores
    scores = finite_scores(scores)
    section = _section(spec, attacked, clients, scores)
    names = attacked.run.federation.client_names
    lines = (
        {
            "client": plain_text(names[client]),
            "took_part": int(clients.member[place]),
            "score": float(scores[place]),
        }
        for place, client in enumerate(clients.client.tolist())
    )
    progress(1.0)
    return AttackOutcome(section, {"clients.csv": csv_table(lines)})


def _advantage(scores: Floats, took_part: Bools) -> Advantage:
    """Advantage of the guess that those who score above 0 took part. Without shadow runs a score of
    0 is the mean loss of those who did; the limits take it as given and are then approximate."""
    guessed, each = scores > 0, 1 - (1 - CONFIDENCE) / 2
    shares, limits = [], []
    for side in (guessed[took_part], guessed[~took_part]):
        shares.append(float(side.mean()))
        limits.append(clopper_pearson(int(side.sum()), len(side), confidence=each))
    true, false = limits
    return Advantage(
        value=shares[0] - shares[1], low=true.low - false.high, high=true.high - false.low
    )


def _section(
    spec: ClientInferenceSpec, attacked: AttackedRun, clients: AttackedRows, scores: Floats
) -> ClientInferenceSection:
    """`clients`: a row of each, to which its score belongs."""
    took_part = clients.member
    auc, claim = area_under_curve(scores, took_part), claim_of(attacked)
    beside = beside_claim(claim, attacked, scores, clients)
    alarmed = beside["alarm"] is not None
    inside, outside = int(took_part.sum()), int((~took_part).sum())
    spread = np.sqrt((inside + outside + 1) / (12 * inside * outside))
    advantage, found = _advantage(scores, took_part), found_members(scores, clients)
    rates = [one.rate for one in found]
    detectable = min(1.0, float(0.5 + _DETECTED * spread))
    statement = (
        f"A client that had at most {spec.shadow_share:.0%} of the rows (one or more) of each of "
        f"{inside} clients, among "
        f"whom cohorts are drawn, and of {outside} held out by the coin of the split scored the "
        f"former above the latter in {auc:.1%} of pairs (AUC), where guessing gives 50 %; "
        f"{detectable:.1%} would be noticed with a chance of 80 %. Of those with a positive "
        "score it said that they took part: the share of the former less that of the latter is "
        f"{advantage.value:.1%} ({advantage.low:.1%} to {advantage.high:.1%}). "
        f"{claimed_rates(claim, rates, alarmed=alarmed)} A better attack may find more, "
        "and one that compares the models of all rounds may."
    )
    if attacked.run.spec.privacy.noise == "release":
        statement += f" {UNCOVERED}"
    return ClientInferenceSection(
        status="done",
        reason=None,
        statement=statement,
        capabilities=_capabilities(spec),
        **beside,
        shadow_share=spec.shadow_share,
        shadows=spec.shadows,
        took_part=inside,
        did_not=outside,
        auc=auc,
        detectable_auc=detectable,
        advantage=advantage,
        tpr_at_fpr=rates,
        confidence=CONFIDENCE,
    )


def _capabilities(spec: ClientInferenceSpec) -> list[str]:
    return [
        "Is a client: has the trained hypotheses, as every client is sent them.",
        f"Has at most {spec.shadow_share:.0%} of the rows of the client in question, or one, with "
        "their targets.",
        "Has the mean loss of those who took part, as the server announces it."
        if spec.shadows is None
        else f"Knows the spec but for its seed, and trains {spec.shadows} shadow runs by it on "
        "random halves of all clients' data.",
        "Does not know the seed of the run, which decides who took part.",
    ]
