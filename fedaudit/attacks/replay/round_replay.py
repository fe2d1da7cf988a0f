"""The stages sampling (who takes part, how often, and that neither depends on data), clip, sum and
release."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import torch
from scipy import stats

from fedaudit.arrays import Floats, Ints
from fedaudit.attacks.replay.neighbours import Replayed, drawn_block
from fedaudit.attacks.replay.noise_laws import binomial, binomial_spread, correlation, turns
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.watched_run import UploadsPassed, WatchedRun, same, wide
from fedaudit.federations.record_keys import record_keys
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.spec.privacy import GaussianDistance, RecordPersonalised
from fedaudit.spec.training import AllocationCohort, FixedCohort, PoissonCohort
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.record_steps import server_moves
from fedaudit.training.base.records import record_use_of, training_records

_PROBED_ROUNDS = 1000
_PROBED_FROM = 1 << 20


def check_sampling(replayed: Replayed, findings: Findings) -> None:
    """Cohorts and batches are drawn as the spec says, and alike for both neighbours."""
    by_record, cell = replayed.role == "local-steps", replayed.base.cell
    training = split_cells([cell]).training[0]
    every, taking_part = cell.spec.training.block, 0
    entered: dict[int, set[int]] = {}
    for round_ in replayed.rounds:
        at, runs = findings.at("sampling", round_), (replayed.base, replayed.neighbour)
        cohort, other = (
            run.silos(round_) if by_record else run.passed.cohorts.get(round_) for run in runs
        )
        if cohort is None or other is None:
            continue
        taking_part += len(cohort)
        again = len(cohort) - len(np.unique(cohort))
        others = int((~np.isin(cohort, training)).sum())
        at.expect(
            "a client once in a cohort",
            again == 0 and others == 0,
            allowed="each at most once, of those who train",
            measured=f"{again} again, {others} who do not train",
        )
        if every > 1:
            earlier = entered.setdefault((round_ - 1) // every, set())
            at.expect(
                "a client once in a block",
                earlier.isdisjoint(cohort.tolist()),
                allowed=f"each in one round of {every}",
                measured="again in a later one",
            )
            earlier.update(cohort.tolist())
        if not by_record or round_ in replayed.together:
            at.expect(
                "the neighbour's cohort",
                np.array_equal(cohort, other),
                allowed="the same clients, since coins do not depend on data",
                measured="other clients",
            )
    if not by_record:
        _check_cohort_law(replayed, findings)
        return
    _check_silos(replayed, training, taking_part, findings)
    _check_records(replayed, findings)
    _check_removed_record(replayed, findings)


def _check_cohort_law(replayed: Replayed, findings: Findings) -> None:
    """Check the law of cohorts in many more rounds than were played."""
    cell = replayed.base.cell
    cohort, clients = cell.spec.training.drawn_cohort, split_cells([cell]).training[0]
    probed = max(_PROBED_ROUNDS, 3 * cell.spec.training.block)
    block = drawn_block(cell, first=_PROBED_FROM, rounds=probed)
    drawn = np.ones(block.cohort.shape, np.bool_) if block.drawn is None else block.drawn
    counts = np.bincount(block.cohort[drawn], minlength=cell.federation.clients)[clients]
    sizes = drawn[:, 0].sum(-1)
    taking_part = np.zeros((probed, cell.federation.clients))
    np.put_along_axis(taking_part, block.cohort[:, 0], drawn[:, 0] * 1.0, axis=-1)
    taking_part = taking_part[:, clients]
    match cohort:
        case FixedCohort():
            rate = min(1.0, cohort.clients / len(clients))
            findings.at("sampling").expect(
                "size of a cohort",
                bool((sizes == min(cohort.clients, len(clients))).all()),
                allowed=cohort.clients,
                measured=f"{sizes.min()} to {sizes.max()}",
            )
        case PoissonCohort():
            rate = cohort.rate
            _check_coins(sizes, clients=len(clients), rate=rate, findings=findings)
        case AllocationCohort():
            _check_allocation(taking_part, every=cohort.every, findings=findings)
            return
        case _:
            assert_never(cohort)
    findings.test("sampling", "cohorts in turn", turns(taking_part - rate))
    for count in (int(counts.min()), int(counts.max())):
        pvalue = min(1.0, binomial(count, probed, rate) * len(clients))
        findings.test("sampling", "every client as often", pvalue)


def _check_allocation(taking_part: Floats, *, every: int, findings: Findings) -> None:
    """Every client enters exactly one round of a block, each as often, whatever it entered before
    and others enter. `taking_part` [rounds, clients], 0 or 1; the first round need not begin a
    block."""
    first = -(_PROBED_FROM - 1) % every
    whole = (len(taking_part) - first) // every
    by_block = taking_part[first : first + whole * every].reshape(whole, every, -1)
    times = by_block.sum(axis=1)
    findings.at("sampling").expect(
        "rounds of a client in a block",
        bool((times == 1).all()),
        allowed="exactly one",
        measured=f"{times.min():g} to {times.max():g}",
    )
    chosen = by_block.argmax(axis=1)  # [blocks, clients]
    counts = np.bincount(chosen.ravel(), minlength=every)
    pvalue = float(stats.chisquare(counts).pvalue)
    findings.test("sampling", "every round of a block as often", pvalue)
    for name, left, right in (
        ("a client's rounds in turn", chosen[:-1], chosen[1:]),
        ("rounds of two clients", chosen[:, :-1], chosen[:, 1:]),
    ):
        if left.size:
            same = int((left == right).sum())
            findings.test("sampling", name, binomial(same, left.size, 1 / every))


def _check_coins(sizes: Ints, *, clients: int, rate: float, findings: Findings) -> None:
    """So many of the clients' coins fell in each round, [rounds]."""
    pvalue = binomial(int(sizes.sum()), clients * len(sizes), rate)
    findings.test("sampling", "rate of the clients' coins", pvalue)
    findings.test("sampling", "sizes of cohorts", binomial_spread(sizes, clients, rate))


def _check_silos(replayed: Replayed, clients: Ints, taking_part: int, findings: Findings) -> None:
    """Clients of records toss coins of the rate that is charged."""
    cell = replayed.base.cell
    rate = client_rate(cell.spec.training.cohort)
    drawn = drawn_block(cell, first=_PROBED_FROM, rounds=_PROBED_ROUNDS).drawn
    assert drawn is not None
    _check_coins(drawn[:, 0].sum(-1), clients=len(clients), rate=rate, findings=findings)
    pvalue = binomial(taking_part, len(clients) * replayed.base.rounds, rate)
    findings.test("sampling", "rate of the clients' coins", pvalue)


def _check_records(replayed: Replayed, findings: Findings) -> None:
    """Every record enters every step by a coin of the rate that it is charged for."""
    plan = replayed.record_plan
    tally: dict[float, tuple[int, int]] = {}
    in_turn: list[Floats] = []
    for round_ in replayed.rounds:
        at, others = findings.at("sampling", round_), replayed.neighbour.passed.steps
        for part, other in zip(
            replayed.base.passed.steps[round_], others.get(round_, []), strict=False
        ):
            off_rate = np.array(part.taken) - part.inclusion
            in_turn.append((off_rate[:-1] * off_rate[1:]).ravel())
            at.expect(
                "the neighbour's records",
                all(map(np.array_equal, part.taken, other.taken)),
                allowed="the same coins for every record",
                measured="other coins",
            )
            for place, silo in enumerate(part.silos.tolist()):
                own = replayed.records_of(silo)
                charged = np.where(round_ <= plan.rounds[own], plan.rates[own], 0.0)
                chance, padding = np.split(part.inclusion[place], [len(charged)])
                worst = int(np.abs(chance - charged).argmax()) if len(charged) else None
                at.expect(
                    "chance of a record",
                    bool((chance <= charged).all()) and not padding.any(),
                    allowed=0.0 if worst is None else float(charged[worst]),
                    measured="padding is drawn" if worst is None else float(chance[worst]),
                )
                for rate in np.unique(charged).tolist():
                    mine = np.flatnonzero(charged == rate)
                    taken = sum(int(step[place, mine].sum()) for step in part.taken)
                    before = tally.get(rate, (0, 0))
                    tally[rate] = before[0] + taken, before[1] + len(mine) * len(part.taken)
    if in_turn:
        products = np.concatenate(in_turn)
        findings.test("sampling", "batches in turn", correlation(products, np.ones(len(products))))
    for rate, (taken, trials) in sorted(tally.items()):
        findings.test("sampling", f"coins of records at {rate:.4g}", binomial(taken, trials, rate))


def _check_removed_record(replayed: Replayed, findings: Findings) -> None:
    """A record that is not there at all changes no other record's rate or place.

    Baselines take as known how many there are, and are not checked.
    """
    privacy, cell = replayed.spec.privacy, replayed.base.cell
    if not isinstance(privacy, RecordPersonalised) or privacy.baseline is not None:
        return
    federation = cell.federation
    record = replayed.pair.record or 0
    row = int(training_records(cell.spec, federation).place[record])
    if federation.counts[federation.client_of[row]] < 2:  # a client has a row at least
        return
    before = _chances(cell)
    del before[record]
    others = federation.of_rows(np.flatnonzero(np.arange(federation.rows) != row))
    one, other = Counter(before), Counter(_chances(replace(cell, federation=others)))
    moved = max((one - other).total(), (other - one).total())
    findings.at("sampling").expect(
        "rates of the other records",
        not moved,
        allowed="the same records train, at the same rates",
        measured=f"{moved} of {len(before)} are moved",
    )


def _chances(cell: Cell) -> list[tuple[int, float, int]]:
    """Key, rate, and rounds for which it stays, of each record that trains."""
    place = training_records(cell.spec, cell.federation).place
    use = record_use_of(cell.spec, cell.federation)
    assert use is not None
    keys = record_keys(cell.federation)[place].tolist()
    return list(zip(keys, use.rates.tolist(), use.rounds.tolist(), strict=True))


FLOAT32 = 2.0**-23
GRID = 2.0**-11
"""The widest step of the grid of uploads, in standard deviations of the noise."""
_SCALE = "the largest distance between two clients' models, which the noise is divided by"
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
            if clip is not None:
                norms = np.linalg.norm(replayed.bare(part) - wide(part.start), axis=-1)
                norms = np.where(part.finite.numpy(), norms, 0.0)
                slack = upload_slack(replayed, part)
                at.none_above("norm of an update", norms, clip, slack=slack)
    for round_ in replayed.together:
        at, others = findings.at("sum", round_), replayed.neighbour.passed.uploads[round_]
        for (clients, own), other in zip(replayed.uploads(round_), others, strict=True):
            unit = clients == replayed.pair.client
            sent, again = wide(own.uploads), wide(other.uploads)
            alike = ((sent == again) | (np.isnan(sent) & np.isnan(again))).all(-1)
            moved = np.where(alike, 0.0, np.linalg.norm(sent - again, axis=-1))
            at.none_above("uploads of the others", moved[~unit], 0.0)
            if clip is not None and unit.any():
                left, right = (replayed.bare(one) - wide(one.start) for one in (own, other))
                apart = np.linalg.norm(left - right, axis=-1)[unit]
                most, slack = replayed.sensitivity * clip, 2 * upload_slack(replayed, own)
                at.none_above("distance of the unit's updates", apart, most, slack=slack)


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
            at.none_above("norm of a clipped update", norms, allowed)
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
            norms = np.concatenate([np.zeros(0), *part.single_norms])
            at.none_above("norm of a record's gradient", norms, allowed)
            holds, most = set(part.clips) <= {allowed}, max(part.clips, default=allowed)
            at.expect("the clip of a step", holds, allowed=allowed, measured=most)
    for round_ in replayed.together:
        at, base = findings.at("sum", round_), replayed.base.passed.steps[round_]
        for own, other in zip(base, replayed.neighbour.passed.steps[round_], strict=True):
            unit = own.silos == replayed.pair.client
            for left, right in zip(own.sums, other.sums, strict=True):
                apart = np.linalg.norm(wide(left) - wide(right), axis=-1)
                at.none_above("distance of neighbouring sums", apart, allowed)
                at.none_above("sums of the other clients", apart[~unit], 0.0)


# -- release --------------------------------------------------------------------------------------


def check_release(replayed: Replayed, findings: Findings) -> tuple[str, ...]:
    """The names of what follows data without noise and is documented to."""
    known: list[str] = []
    base = replayed.base
    if replayed.role == "server":
        _check_divisor_of_sums(replayed, findings)
        known += [_SCALE] * isinstance(replayed.spec.privacy, GaussianDistance)
    if replayed.role == "local-steps":
        _check_divisor_of_gradients(replayed, findings)
    result = base.result
    findings.at("release", result.best_round).expect(
        "kept hypotheses",
        same(result.hypotheses, base.states[result.best_round].hypotheses),
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
    cohort = training.drawn_cohort
    match cohort:
        case FixedCohort():
            expected = float(cohort.clients)
        case PoissonCohort():
            expected = cohort.rate * split_cells([replayed.base.cell]).training.shape[1]
        case AllocationCohort():
            expected = split_cells([replayed.base.cell]).training.shape[1] / cohort.every
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
        expected, moves = own.released, server_moves(base.cell.spec.training)
        if moves is not None and own.theta is not None:
            moments, every = base.states[round_ - 1].moments, torch.ones(len(expected)).bool()
            expected, _ = moves(own.theta, expected, torch.as_tensor(moments), moved=every)
        at.expect(
            "hypotheses of the next round",
            np.array_equal(wide(expected), base.hypotheses[round_], equal_nan=True),
            allowed="the sum with its noise over a public number, and what the server makes of it",
            measured="other hypotheses",
        )
        other = replayed.neighbour.passed.sums[round_] if round_ in replayed.together else None
        if isinstance(replayed.spec.privacy, GaussianDistance):
            continue  # of neighbours the noise differs, too; `check_noise` finds another divisor
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
    local, runs = replayed.spec.training.local, replayed.record_plan.runs
    public = float(local.batch_size or max(1.0, runs[0].noise_multiplier if runs else 1.0))
    for round_ in replayed.rounds:
        for part in replayed.base.passed.steps[round_]:
            findings.at("release", round_).equal("divisor of gradients", part.normaliser, public)


def _check_transcript(replayed: Replayed, findings: Findings) -> None:
    """Given the same releases, all that is observed is the same for both neighbours.

    For uploads for which the ledger charges no one, the neighbour's run sent others, which must
    change nothing.
    """
    base, other = replayed.base, replayed.neighbour
    allowed = "the same from the same releases"
    for round_ in replayed.together:
        at = findings.at("release", round_)
        left, right = (vars(run.states[round_]) for run in (base, other))
        silent = bool(base.passed.silent.get(round_, np.zeros(0, dtype=np.bool_)).any())
        at.expect(
            "uploads of clients that are not charged" if silent else "hypotheses of the next round",
            all(same(left[name], right[name]) for name in ("hypotheses", "clip", "moments")),
            allowed=allowed,
            measured="other hypotheses, or another clip",
        )
        for name in _differing(base, other, round_):
            at.add(name, allowed=allowed, measured="follows the neighbour without noise")
        findings.looked("published figures", len(base.published[round_ - 1]))
    findings.at("release").equal("the end of the run", other.rounds, base.rounds)


def _check_held_out(replayed: Replayed, findings: Findings) -> list[str]:
    """What depends on a unit that is held out: nothing of training, and of figures only what is
    documented to have no noise."""
    base, other = replayed.base, replayed.held_out
    named: dict[str, None] = {}
    protected = replayed.spec.fairness.noise is not None
    if replayed.spec.scores_training_clients and replayed.spec.privacy.protects:
        last = max(int(one.round[0]) for one in base.columns if len(one.validated))
        own, again = base.result, other.result
        findings.at("release").expect(
            "released hypotheses without those held out",
            own.best_round == again.best_round == last
            and np.array_equal(own.hypotheses, again.hypotheses),
            allowed=f"those of round {last}, whatever is held out",
            measured=f"those of rounds {own.best_round} and {again.best_round}",
        )
        findings.at("release").equal("rounds without those held out", other.rounds, base.rounds)
    for round_ in range(1, min(base.rounds, other.rounds) + 1):
        at = findings.at("release", round_)
        at.expect(
            "training without those held out",
            same(_trained(base, round_), _trained(other, round_)),
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


def _trained(run: WatchedRun, round_: int) -> list[Any]:
    """What training made of those who train in a round."""
    passed = run.passed
    return [
        [part.updated for part in passed.uploads[round_]],
        passed.sums[round_].sums,
        [part.sums for part in passed.steps[round_]],
    ]


def _observed(run: WatchedRun, round_: int) -> dict[str, Any]:
    """What is published of a round, and is in its ledger, keyed by its name."""
    lines = [line for line in run.ledger_lines if line["round"] == round_]
    names = lines[0] if lines else ()
    columns = {f"{name} of the ledger": [line[name] for line in lines] for name in names}
    return {**run.published[round_ - 1], **columns}


def _differing(base: WatchedRun, other: WatchedRun, round_: int) -> list[str]:
    """The names of what is observed of a round and differs."""
    own, again = _observed(base, round_), _observed(other, round_)
    return [name for name in own | again if not same(own.get(name), again.get(name))]
