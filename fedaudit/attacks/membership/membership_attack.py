"""The attack `membership`: scores of rows, their rates, and what the run's claim allows.

A row is evaluated under the hypothesis that its client would choose: the one with the smallest loss
on the client's *other* rows, members and non-members alike, so the row does not influence the
choice. A client with one row has no others, and its row is evaluated under the hypothesis that fits
it best, which is what such a client chooses in training.

LiRA: how much likelier a row's statistic is among shadow runs that trained on it (Carlini et al.,
"Membership inference attacks from first principles", 2022, algorithm 1). Statistics are taken for
normal, by row, with and without it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints
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
from fedaudit.attacks.membership.shadow_design import AttackedRows, choose_rows, draw_shadows
from fedaudit.federations.federation import Federation
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.randomness import Source
from fedaudit.reports.sections.attacks import (
    ClaimedRate,
    ClaimSection,
    MembershipSection,
    RateAtFpr,
)
from fedaudit.reports.sections.part import with_reasons
from fedaudit.reproducible import one_thread, prepared_device
from fedaudit.spec.attacks import MembershipSpec
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.cell import Cell, cells_at_once, stands_alone
from fedaudit.training.base.record_steps import features_and_target
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_round import build_loss
from fedaudit.training.stacked.stack_state import CellState

STACK_BYTES = 1 << 32
"""About what shadow runs that are trained together may take, by an estimate for runs that validate
every held-out client at once: 256 runs of the hospital task take a tenth of it."""
_ROUNDS = 4
"""Rounds between two reports of progress."""
_FLOOR = 1e-6
"""A row's variance is at least so much of the average one: a few equal statistics are no proof."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations of the attacked rows; both [rows]. Not finite where a model has overflowed."""

    loss: Floats
    """The row's loss, as training has it."""
    statistic: Floats
    """For classes the logit of the true class's probability, log(p / (1 - p)) (Carlini et al. 2022,
    section V-A); for a number the residual, prediction less target."""


class RowObserver:
    """Evaluates the attacked rows under one model after the other."""

    def __init__(self, cell: Cell, rows: AttackedRows, device: torch.device) -> None:
        federation = cell.federation
        self._network = ClientNetwork(cell.shape, device)
        self._loss = build_loss(cell)
        clients = np.unique(rows.client)
        # All rows of these clients: the others choose the hypothesis.
        place = federation.rows_of(clients)
        self._features, self._target = features_and_target(federation, place, device)
        counts = federation.counts[clients]
        self._first = np.cumsum(counts) - counts
        self._own = np.searchsorted(place, rows.place)
        self._client = np.searchsorted(clients, rows.client)
        self._alone = counts[self._client] == 1

    def observe(self, hypotheses: Floats32) -> Observations:
        """Observe a model of hypotheses [k, n]."""
        with one_thread(), torch.no_grad():
            found = [self._of_hypothesis(theta) for theta in torch.from_numpy(hypotheses)]
        losses, statistics = (np.stack(part) for part in zip(*found, strict=True))
        chosen = self._chosen(losses)[None]
        return Observations(
            loss=np.take_along_axis(losses[:, self._own], chosen, axis=0)[0],
            statistic=np.take_along_axis(statistics, chosen, axis=0)[0],
        )

    def _chosen(self, losses: Floats) -> Ints:
        """The hypothesis of each attacked row, from the losses of all rows [k, rows]."""
        own = losses[:, self._own]
        if len(losses) == 1:
            return np.zeros(own.shape[1], dtype=np.int64)
        with np.errstate(invalid="ignore", over="ignore"):
            totals = np.add.reduceat(losses, self._first, axis=1)[:, self._client]
            others = np.where(self._alone, own, totals - own)
        return np.asarray(np.nan_to_num(others, nan=np.inf, posinf=np.inf).argmin(0))

    def _of_hypothesis(self, theta: Tensor) -> tuple[Floats, Floats]:
        """Losses of all rows, and statistics of the attacked ones."""
        self._network.load(theta.to(self._features.device))
        losses, statistics = [], []
        for start in range(0, len(self._target), self._network.rows_at_once):
            part = slice(start, start + self._network.rows_at_once)
            outputs, target = self._network.outputs(self._features[part]), self._target[part]
            losses.append(self._loss.values(outputs, target).double().cpu())
            statistics.append(_statistic(outputs.double(), target, self._loss.classes).cpu())
        return torch.cat(losses).numpy(), torch.cat(statistics).numpy()[self._own]


def _statistic(outputs: Tensor, target: Tensor, classes: int) -> Tensor:
    """The statistic of `Observations`, from float64 outputs [out, rows] and targets [rows]; from
    outputs, since a probability would have been rounded to 1."""
    if classes == 0:
        return outputs[0] - target
    if classes == 2:
        return torch.where(target > 0, outputs[0], -outputs[0])
    own = target.long()[None]
    others = outputs.scatter(0, own, -torch.inf)
    return outputs.gather(0, own)[0] - others.logsumexp(0)


def observe_shadows(
    cells: Sequence[Cell], rows: AttackedRows, *, device: str, progress: Callable[[float], None]
) -> Floats:
    """Trains the cells, as one stack if memory allows, and evaluates the rows under each.

    Returns the statistic of each row, [shadows, rows]. `progress` gets the share that is done.
    """
    observer = RowObserver(cells[0], rows, prepared_device(device))
    statistic = np.zeros((len(cells), len(rows)))
    together = 1 if stands_alone(cells[0]) else cells_at_once(cells[0], memory_bytes=STACK_BYTES)
    for first in range(0, len(cells), together):
        part = cells[first : first + together]

        def report(done: float, first: int = first, part: Sequence[Cell] = part) -> None:
            progress((first + len(part) * done) / len(cells))

        for place, hypotheses in enumerate(_train(part, device=device, progress=report)):
            statistic[first + place] = observer.observe(hypotheses).statistic
            report(0.9 + 0.1 * (place + 1) / len(part))
    return statistic


def _train(
    cells: Sequence[Cell], *, device: str, progress: Callable[[float], None]
) -> list[Floats32]:
    """The hypotheses [k, n] of each cell at its best round; it is nine tenths of the progress."""
    trainer = Stack(list(cells), device=device)
    rounds, played = len(cells) * cells[0].spec.training.rounds, 0
    while active := trainer.active:
        trainer.advance(_ROUNDS)
        # Cells that have stopped early count as done.
        played += _ROUNDS * len(active)
        progress(0.9 * min(1.0, played / rounds))
    # The scores that take most of a result's time are left out.
    states = [CellState.decode(trainer.checkpoint(place)) for place in range(len(cells))]
    return [state.best_hypotheses for state in states]


def likelihood_ratios(target: Floats, *, shadows: Floats, trained: Bools) -> Floats:
    """The score of each row, larger for likelier members: the logarithm of the ratio of densities
    with the row and without it, [rows].

    `target` [rows]: statistics under the attacked run, and `shadows` [shadows, rows] under the
    shadow runs, of which those that `trained` [shadows, rows] says trained on the row.
    """
    with_it = _log_density(target, shadows, trained)
    return with_it - _log_density(target, shadows, ~trained)


def _log_density(target: Floats, statistic: Floats, of: Bools) -> Floats:
    """Log density, less a constant, of normal laws, one for each row, fitted to those statistics
    [shadows, rows] that `of`, of that shape, selects."""
    counted = of & np.isfinite(statistic)
    count = counted.sum(0)
    mean = np.where(counted, statistic, 0.0).sum(0) / np.maximum(count, 1)
    squares = (np.where(counted, statistic - mean, 0.0) ** 2).sum(0)
    free = np.maximum(count - 1, 0)
    common = float(squares.sum() / max(int(free.sum()), 1))
    # If all are equal, any number will do.
    least = max(_FLOOR * common, _TINY)
    deviation = np.sqrt(np.maximum(squares / np.maximum(free, 1), least))
    found: Floats = -0.5 * ((target - mean) / deviation) ** 2 - np.log(deviation)
    return found


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
    cell = attacked.run.cell
    source = source_of(cell)
    rows = choose_rows(cell, source, models=spec.shadows or 1)
    seen, ratios = observe(attacked, rows, source, shadows=spec.shadows, progress=progress)
    scores = finite_scores(-seen.loss if ratios is None else ratios)
    found = found_members(scores, rows)
    progress(0.95)
    section = _section(spec, attacked, rows, scores, found)
    files = _files(attacked.run.federation, rows, scores, seen, found)
    progress(1.0)
    return AttackOutcome(section, files)


def observe(
    attacked: AttackedRun,
    rows: AttackedRows,
    source: Source,
    *,
    shadows: int | None,
    progress: Progress,
) -> tuple[Observations, Floats | None]:
    """What is seen of the rows under the attacked run, and their likelihood ratios over so many
    shadow runs; None for none."""
    cell = attacked.run.cell
    observer = RowObserver(cell, rows, torch.device(attacked.device))
    seen = observer.observe(attacked.result.hypotheses)
    if shadows is None:
        return seen, None
    cells, trained = draw_shadows(cell, rows, source, shadows=shadows)
    statistic = observe_shadows(
        cells, rows, device=attacked.device, progress=lambda done: progress(_TRAINED * done)
    )
    return seen, likelihood_ratios(seen.statistic, shadows=statistic, trained=trained)


def finite_scores(scores: Floats) -> Floats:
    """The scores; without one a row comes last."""
    lowest, most = np.finfo(np.float64).min, np.finfo(np.float64).max
    return np.nan_to_num(scores, nan=lowest, posinf=most, neginf=lowest)


def beside_claim(
    claim: Claim | str, attacked: AttackedRun, scores: Floats, rows: AttackedRows, **figures: Any
) -> dict[str, Any]:
    """Fields of a section: the claim, what scores [rows] weigh against it, and the alarm, with
    `figures`, or why they are missing."""
    if isinstance(claim, str):
        return {"alarm": None, **with_reasons({**figures, "claim": claim})}
    weighed = attacked.weigh(**contradiction_of(claim, scores, rows))
    one = claim.claimed
    section = ClaimSection(
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
    return {**with_reasons({**figures, "claim": section}), **weighed}


def _section(
    spec: MembershipSpec,
    attacked: AttackedRun,
    rows: AttackedRows,
    scores: Floats,
    found: list[FoundMembers],
) -> MembershipSection:
    auc, claim = area_under_curve(scores, rows.member), claim_of(attacked)
    rates = [one.rate for one in found]
    at_1pct = next(one for one in rates if one.fpr == 0.01)
    beside = beside_claim(
        claim,
        attacked,
        scores,
        rows,
        shadows=spec.shadows or "a threshold on the loss needs no shadow runs",
        membership_tpr_at_1pct=at_1pct.reason or at_1pct.tpr,
    )
    alarmed = beside["alarm"] is not None
    return MembershipSection(
        status="done",
        reason=None,
        statement=_statement(spec, attacked.run.spec, auc, rates, claim, alarmed=alarmed),
        capabilities=_capabilities(spec, attacked.run.spec),
        **beside,
        method=spec.method,
        members=int(rows.member.sum()),
        non_members=int((~rows.member).sum()),
        auc=auc,
        tpr_at_fpr=rates,
        confidence=CONFIDENCE,
        groups=group_exposure(attacked.run, rows, scores, found),
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
    others = (
        "Has the other rows of the row's client, and evaluates a row under the hypothesis that "
        "fits those best; the row itself does not influence it, unless its client has no other."
    )
    return [
        "Has the trained hypotheses, of the round that the run keeps, and nothing of the rounds "
        "themselves.",
        "Has every row in question, with its target, and does not know whether it was trained on.",
        *[others] * (attacked.training.hypotheses > 1),
        "Takes rows with the smallest losses for members."
        if spec.shadows is None
        else f"Knows the spec but for its seed, and trains {spec.shadows} shadow runs by it on "
        "random halves of all clients' data.",
        "Does not know the seed of the run: with it an attacker knows the split, and has nothing "
        "to guess.",
    ]


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
        "Rows were taken for members by their loss alone (Yeom et al. 2018)."
        if spec.shadows is None
        else "Rows were taken for members by a likelihood ratio, online and with a variance for "
        f"each record, over {spec.shadows} shadow runs (LiRA, Carlini et al. 2022).",
        f"A member scored above a non-member in {auc:.1%} of pairs (AUC), where guessing gives "
        "50 %.",
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
    sentences.append(claimed_rates(claim, rates, alarmed=alarmed))
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


def claimed_rates(claim: Claim | str, rates: list[RateAtFpr], *, alarmed: bool) -> str:
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
