"""Stages clip and sum: what one unit adds, and how far neighbouring sums lie apart. Stage release:
what observers get follows from what has noise, and from public numbers."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

import numpy as np

from fedaudit.attacks.replay.neighbour_pair import Replayed
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.watched_run import UploadsPassed, WatchedRun, wide
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.splits import split_cells

FLOAT32 = 2.0**-23
GRID = 2.0**-11
"""The widest step of the grid of uploads, in standard deviations of the noise."""
_CHOICE = "the hypothesis that a client chose, which it reports without noise"


def check_contributions(replayed: Replayed, findings: Findings) -> None:
    """Norms within the clip that was charged, and neighbouring sums within the sensitivity."""
    if replayed.role == "server":
        _check_server(replayed, findings)
    elif replayed.role == "local-steps":
        _check_steps(replayed, findings)
    else:
        _check_uploads(replayed, findings)


def _check_uploads(replayed: Replayed, findings: Findings) -> None:
    clip = replayed.charged.clip
    for round_ in replayed.rounds:
        at = findings.at("clip", round_)
        for part in replayed.base.passed.uploads[round_]:
            if clip is not None and part.bare is not None:
                norms = np.linalg.norm(wide(part.bare) - wide(part.start), axis=-1)
                over = (norms > clip + upload_slack(replayed, part)) & part.finite.numpy()
                findings.looked("norm of an update", len(norms))
                for norm in norms[over]:
                    at.add("norm of an update", allowed=clip, measured=norm)
    for round_ in replayed.together:
        at, others = findings.at("sum", round_), replayed.neighbour.passed.uploads[round_]
        for (clients, own), other in zip(replayed.uploads(round_), others, strict=True):
            unit = clients == replayed.pair.client
            sent, again = wide(own.uploads), wide(other.uploads)
            same = ((sent == again) | (np.isnan(sent) & np.isnan(again))).all(-1)
            findings.looked("uploads of the others", int((~unit).sum()))
            for moved in np.linalg.norm(sent - again, axis=-1)[~unit & ~same]:
                at.add("uploads of the others", allowed=0.0, measured=float(moved))
            if clip is not None and unit.any():
                left = wide(own.uploads if own.bare is None else own.bare) - wide(own.start)
                right = wide(other.uploads if other.bare is None else other.bare)
                apart = np.linalg.norm(left - (right - wide(other.start)), axis=-1)[unit].max()
                at.at_most(
                    "distance of the unit's updates",
                    float(apart),
                    replayed.sensitivity * clip,
                    slack=2 * upload_slack(replayed, own),
                )


def upload_slack(replayed: Replayed, part: UploadsPassed) -> float:
    """How far an upload may lie from what noise was added to: it is rounded to its grid, and to
    float32, once it has its noise."""
    charged, sent = replayed.charged, wide(part.uploads)
    largest = float(np.abs(sent[np.isfinite(sent)]).max(initial=0.0))
    # The largest standard deviation of a component of the noise, as it is charged.
    deviation, multiplier = 0.0, charged.noise_multiplier
    if multiplier is not None and charged.cost_kind == "epsilon":
        deviation = multiplier * (charged.clip or 0.0)
    elif multiplier is not None:
        radius = charged.radius
        if radius is None:
            radius = 0.0 if part.radii is None else float(part.radii.nan_to_num(0.0).max())
        smallest = min(charged.noised_sizes)
        deviation = multiplier * radius / smallest * math.sqrt(smallest + 1)
    return math.sqrt(sent.shape[-1]) * (FLOAT32 * largest + GRID * deviation)


def _check_server(replayed: Replayed, findings: Findings) -> None:
    for round_ in replayed.rounds:
        at, own = findings.at("clip", round_), replayed.base.passed.sums[round_]
        allowed = replayed.clip(round_)
        assert allowed is not None
        for used, clipped in zip(own.clips, own.clipped, strict=True):
            norms = np.linalg.norm(wide(clipped), axis=-1)
            findings.looked("norm of a clipped update", len(norms))
            if norms.max(initial=0.0) > allowed:
                largest = float(norms.max())
                at.add("norm of a clipped update", allowed=allowed, measured=largest)
            clips = wide(used)
            holds, most = bool((clips == allowed).all()), float(clips.max(initial=0.0))
            at.expect("the clip of the round", holds, allowed=allowed, measured=most)
    for round_ in replayed.together:
        own, other = replayed.base.passed.sums[round_], replayed.neighbour.passed.sums[round_]
        at, allowed = findings.at("sum", round_), replayed.clip(round_)
        if own.sums is None or other.sums is None or allowed is None:
            continue
        apart = float(np.linalg.norm(wide(own.sums) - wide(other.sums)))
        at.at_most("distance of neighbouring sums", apart, allowed * replayed.sensitivity)
        if None not in (own.within, own.taking_part, other.within, other.taking_part):
            counts = [(one.within or 0) - (one.taking_part or 0) / 2 for one in (own, other)]
            moved = abs(counts[0] - counts[1])
            at.at_most("distance of neighbouring counts", moved, replayed.sensitivity / 2)


def _check_steps(replayed: Replayed, findings: Findings) -> None:
    allowed = replayed.charged.clip
    if allowed is None:
        return
    for round_ in replayed.rounds:
        at = findings.at("clip", round_)
        for part in replayed.base.passed.steps[round_]:
            largest = max((float(norms.max(initial=0.0)) for norms in part.single_norms), default=0)
            findings.looked("norm of a record's gradient", sum(map(len, part.single_norms)))
            if largest > allowed:
                at.add("norm of a record's gradient", allowed=allowed, measured=largest)
            holds, most = set(part.clips) <= {allowed}, max(part.clips, default=allowed)
            at.expect("the clip of a step", holds, allowed=allowed, measured=most)
    for round_ in replayed.together:
        at, base = findings.at("sum", round_), replayed.base.passed.steps[round_]
        for own, other in zip(base, replayed.neighbour.passed.steps[round_], strict=True):
            unit = own.silos == replayed.pair.client
            for left, right in zip(own.sums, other.sums, strict=True):
                apart = np.linalg.norm(wide(left) - wide(right), axis=-1)
                most, others = (float(one.max(initial=0.0)) for one in (apart, apart[~unit]))
                findings.looked("distance of neighbouring sums", len(apart))
                if most > allowed:
                    at.add("distance of neighbouring sums", allowed=allowed, measured=most)
                if others > 0:
                    at.add("sums of the other clients", allowed=0.0, measured=others)


# -- release --------------------------------------------------------------------------------------


def check_release(replayed: Replayed, findings: Findings) -> tuple[str, ...]:
    """The names of what follows data without noise and is documented to."""
    known: list[str] = []
    base = replayed.base
    if replayed.role == "server":
        _check_divisor_of_sums(replayed, findings)
    if replayed.role == "local-steps":
        _check_divisor_of_gradients(replayed, findings)
    findings.at("release", base.best_round).expect(
        "kept hypotheses",
        np.array_equal(base.kept, base.hypotheses[base.best_round], equal_nan=True),
        allowed="the hypotheses after the round that is named the best",
        measured="other hypotheses",
    )
    chooses = replayed.spec.training.reports_choices and replayed.spec.training.hypotheses > 1
    if replayed.role == "clients" and chooses:
        # What is reported differs, and the round follows it.
        known.append(_CHOICE)
    else:
        _check_transcript(replayed, findings)
    return (*known, *_check_held_out(replayed, findings))


def public_divisor(replayed: Replayed) -> float:
    """What the sum for a hypothesis is divided by: clients of a round on average over k."""
    training = replayed.spec.training
    cohort = training.cohort
    match cohort:
        case FixedCohort():
            expected = float(cohort.clients)
        case PoissonCohort():
            expected = cohort.rate * split_cells([replayed.base.cell]).training.shape[1]
        case _:
            assert_never(cohort)
    return expected / training.hypotheses


def _check_divisor_of_sums(replayed: Replayed, findings: Findings) -> None:
    """Sums are divided by a public number, and the next hypotheses are what came of that."""
    base, divisor = replayed.base, public_divisor(replayed)
    for round_ in replayed.rounds:
        at, own = findings.at("release", round_), base.passed.sums[round_]
        if own.released is None or own.sums is None:
            continue
        at.expect(
            "hypotheses of the next round",
            np.array_equal(wide(own.released), base.hypotheses[round_], equal_nan=True),
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
        slack = math.sqrt(apart.size) * (4 * FLOAT32 * largest * divisor + 2 * GRID * deviation)
        at.expect(
            "divisor of sums",
            bool(np.linalg.norm(released - apart) <= slack),
            allowed=f"a distance of {np.linalg.norm(apart):.6g} over {divisor:.6g}",
            measured=f"a distance of {np.linalg.norm(released) / divisor:.6g}",
        )


def _check_divisor_of_gradients(replayed: Replayed, findings: Findings) -> None:
    """Sums of gradients are divided by the batch size of the spec, or else by the noise."""
    local, plan = replayed.spec.training.local, replayed.base.ledger_context.plan
    if local.batch_size is not None:
        public = float(local.batch_size)
    elif plan is None or plan.records is None or plan.records.use.plan.runs is None:
        public = 1.0
    else:
        public = max(1.0, plan.records.use.plan.runs[0].noise_multiplier)
    for round_ in replayed.rounds:
        for part in replayed.base.passed.steps[round_]:
            findings.at("release", round_).equal("divisor of gradients", part.normaliser, public)


def _check_transcript(replayed: Replayed, findings: Findings) -> None:
    """Given the same releases, all that is observed is the same for both neighbours.

    For uploads for which the ledger charges nobody, the neighbour's run sent others, which must
    change nothing.
    """
    base, other = replayed.base, replayed.neighbour
    same = "the same from the same releases"
    for round_ in replayed.together:
        at = findings.at("release", round_)
        silent = bool(base.passed.silent.get(round_, np.zeros(0, dtype=np.bool_)).any())
        at.expect(
            "uploads of clients that are not charged" if silent else "hypotheses of the next round",
            np.array_equal(base.hypotheses[round_], other.hypotheses[round_], equal_nan=True)
            and base.clips[round_] == other.clips[round_],
            allowed=same,
            measured="other hypotheses, or another clip",
        )
        for name in _differing(base, other, round_):
            at.add(name, allowed=same, measured="follows the neighbour without noise")
        findings.looked("published figures", len(base.published[round_ - 1]))
    findings.at("release").equal("the end of the run", other.rounds, base.rounds)


def _check_held_out(replayed: Replayed, findings: Findings) -> list[str]:
    """What depends on a unit that is held out: nothing of training, and of figures only what is
    documented to have no noise."""
    base, other = replayed.base, replayed.held_out
    named: dict[str, None] = {}
    protected = replayed.spec.fairness.noise is not None
    for round_ in range(1, min(base.rounds, other.rounds) + 1):
        at = findings.at("release", round_)
        at.expect(
            "training without those held out",
            _trained_alike(base, other, round_),
            allowed="the same updates, whoever is held out",
            measured="other updates",
        )
        for name in _differing(base, other, round_):
            if protected:
                at.add(
                    name,
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
    """The names of what is published of a round, or is in its ledger, and differs."""
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
