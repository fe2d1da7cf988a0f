"""Stage release: what observers get follows from what has its noise, and from public numbers."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedaudit.attacks.replay.bounded_contributions import wide
from fedaudit.attacks.replay.noise_of_sums import public_divisor
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.watched_run import WatchedRun

_FLOAT32 = 2.0**-23
_GRID = 2.0**-11
_CHOICE = "the hypothesis that a client chose, which it reports without noise"


def check_release(replayed: Replayed, findings: Findings) -> tuple[str, ...]:
    """The names of what follows data without noise, and is known to."""
    known: list[str] = []
    if replayed.role == "server":
        _check_server(replayed, findings)
    if replayed.role == "local-steps":
        _check_normaliser(replayed, findings)
    _check_kept(replayed.base, findings)
    chooses = replayed.spec.training.reports_choices and replayed.spec.training.hypotheses > 1
    if replayed.role == "clients" and chooses:
        known.append(_CHOICE)
    _check_transcript(replayed, findings, chooses=bool(known))
    known += _check_held_out(replayed, findings)
    return tuple(known)


def _check_kept(base: WatchedRun, findings: Findings) -> None:
    """What a result holds are the hypotheses of the round that it names."""
    findings.expect(
        "release",
        "kept hypotheses",
        holds=np.array_equal(base.kept, base.hypotheses[base.best_round], equal_nan=True),
        round_=base.best_round,
        allowed="the hypotheses after the round that is named the best",
        measured="other hypotheses",
    )


def _check_server(replayed: Replayed, findings: Findings) -> None:
    """Sums are divided by a public number, and the next hypotheses are what came of that."""
    base, divisor = replayed.base, public_divisor(replayed)
    for round_ in range(1, base.rounds + 1):
        own = base.passed.sums[round_]
        if own.released is None or own.sums is None:
            continue
        findings.expect(
            "release",
            "hypotheses of the next round",
            holds=np.array_equal(wide(own.released), base.hypotheses[round_], equal_nan=True),
            round_=round_,
            allowed="the sum with its noise over a public number",
            measured="other hypotheses",
        )
        other = replayed.neighbour.passed.sums[round_] if round_ in replayed.together else None
        if other is None or other.released is None or other.sums is None:
            continue
        released = (wide(own.released) - wide(other.released)) * divisor
        apart = wide(own.sums) - wide(other.sums)
        largest = float(np.abs(wide(own.released)).max())
        deviation = (replayed.charged.noise_multiplier or 0.0) * (replayed.clip(round_) or 0.0)
        slack = math.sqrt(apart.size) * (4 * _FLOAT32 * largest * divisor + 2 * _GRID * deviation)
        findings.expect(
            "release",
            "divisor of sums",
            holds=bool(np.linalg.norm(released - apart) <= slack),
            round_=round_,
            allowed=f"a distance of {np.linalg.norm(apart):.6g} over {divisor:.6g}",
            measured=f"a distance of {np.linalg.norm(released) / divisor:.6g}",
        )


def _check_normaliser(replayed: Replayed, findings: Findings) -> None:
    """Sums of gradients are divided by the batch size of the spec, or else by the noise."""
    local, plan = replayed.spec.training.local, replayed.base.ledger_context.plan
    if local.batch_size is not None:
        public = float(local.batch_size)
    elif plan is None or plan.records is None or plan.records.use.plan.runs is None:
        public = 1.0
    else:
        public = max(1.0, plan.records.use.plan.runs[0].noise_multiplier)
    for round_ in range(1, replayed.base.rounds + 1):
        for part in replayed.base.passed.steps[round_]:
            findings.expect(
                "release",
                "divisor of gradients",
                holds=part.normaliser == public,
                round_=round_,
                allowed=public,
                measured=part.normaliser,
            )


def _check_transcript(replayed: Replayed, findings: Findings, *, chooses: bool) -> None:
    """Given the same releases, everything that is seen is the same for both neighbours.

    Of uploads for which the ledger charges nobody, the neighbour's run sent others: nobody may
    have taken them in.
    """
    base, other = replayed.base, replayed.neighbour
    for round_ in replayed.together:
        if chooses:
            # What is reported differs, and the round follows it.
            continue
        silent = bool(base.passed.silent.get(round_, np.zeros(0, dtype=np.bool_)).any())
        findings.expect(
            "release",
            "uploads of clients that are not charged" if silent else "hypotheses of the next round",
            holds=np.array_equal(base.hypotheses[round_], other.hypotheses[round_], equal_nan=True)
            and base.clips[round_] == other.clips[round_],
            round_=round_,
            allowed="the same from the same releases",
            measured="other hypotheses, or another clip",
        )
        for name in _differing(base, other, round_):
            findings.add(
                "release",
                name,
                round_=round_,
                allowed="the same from the same releases",
                measured="follows the neighbour without noise",
            )
        findings.looked("published figures", len(base.published[round_ - 1]))
    if not chooses:
        findings.expect(
            "release",
            "the end of the run",
            holds=base.rounds == other.rounds,
            round_=None,
            allowed=base.rounds,
            measured=other.rounds,
        )


def _check_held_out(replayed: Replayed, findings: Findings) -> list[str]:
    """What follows somebody who is held out: nothing of training, and of figures only what is known
    to have no noise."""
    base, other = replayed.base, replayed.held_out
    named: dict[str, None] = {}
    protected = replayed.spec.fairness.noise is not None
    for round_ in range(1, min(base.rounds, other.rounds) + 1):
        findings.expect(
            "release",
            "training without those held out",
            holds=_trained_alike(base, other, round_),
            round_=round_,
            allowed="the same updates, whoever is held out",
            measured="other updates",
        )
        for name in _differing(base, other, round_):
            if protected:
                findings.add(
                    "release",
                    name,
                    round_=round_,
                    allowed="nothing of those held out but counts with noise",
                    measured="follows somebody held out without noise",
                )
            else:
                named[f"{name}, of those held out"] = None
    return list(named)


def _trained_alike(base: WatchedRun, other: WatchedRun, round_: int) -> bool:
    for own, again in zip(base.passed.uploads[round_], other.passed.uploads[round_], strict=True):
        if not np.array_equal(wide(own.updated), wide(again.updated), equal_nan=True):
            return False
    sums = base.passed.sums[round_].sums, other.passed.sums[round_].sums
    if sums[0] is not None and sums[1] is not None:
        return np.array_equal(wide(sums[0]), wide(sums[1]))
    steps = zip(base.passed.steps[round_], other.passed.steps[round_], strict=True)
    return all(
        np.array_equal(wide(left), wide(right))
        for own, again in steps
        for left, right in zip(own.sums, again.sums, strict=True)
    )


def _differing(base: WatchedRun, other: WatchedRun, round_: int) -> Iterator[str]:
    """The names of what is published of a round, or stands in its ledger, and differs."""
    own, again = base.published[round_ - 1], other.published[round_ - 1]
    for name, value in own.items():
        if not _same(value, again.get(name)):
            yield name
    lines = [
        [line for line in run.ledger_lines if line["round"] == round_] for run in (base, other)
    ]
    if len(lines[0]) != len(lines[1]):
        yield "lines of the ledger"
        return
    for left, right in zip(*lines, strict=True):
        for name, value in left.items():
            if not _same(value, right.get(name)):
                yield f"{name} of the ledger"


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
