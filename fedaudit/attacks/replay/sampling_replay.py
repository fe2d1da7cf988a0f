"""Stage sampling: who takes part, how often, and that data have no say in it."""

from typing import assert_never

import numpy as np

from fedaudit.attacks.replay.noise_law import binomial, binomial_spread, correlation, turns
from fedaudit.attacks.replay.passed_through import Floats
from fedaudit.attacks.replay.removed_record import check_removed_record
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import CounterSource
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.cell import split_cells
from fedaudit.training.base.cohort import draw_block, drawn_clients
from fedaudit.training.base.records import record_use_of, training_records
from fedaudit.training.stacked.stack_round import build_draws

_PROBED_ROUNDS = 1000
_PROBED_FROM = 1 << 20


def check_sampling(replayed: Replayed, findings: Findings) -> None:
    """Cohorts and batches are drawn as the spec says, and alike for both neighbours."""
    if replayed.role == "local-steps":
        _check_silos(replayed, findings)
        _check_records(replayed, findings)
        check_removed_record(replayed, findings)
        return
    training = split_cells([replayed.base.cell]).training[0]
    for round_ in range(1, replayed.base.rounds + 1):
        cohort, other = (run.passed.cohort(round_) for run in (replayed.base, replayed.neighbour))
        if cohort is None or other is None:
            continue
        again = len(cohort) - len(np.unique(cohort))
        findings.expect(
            "sampling",
            "a client once in a cohort",
            holds=again == 0 and bool(np.isin(cohort, training).all()),
            round_=round_,
            allowed="each at most once, of those who train",
            measured=f"{again} again, {int((~np.isin(cohort, training)).sum())} who do not train",
        )
        findings.expect(
            "sampling",
            "the neighbour's cohort",
            holds=np.array_equal(cohort, other),
            round_=round_,
            allowed="the same clients, since coins do not look at data",
            measured="other clients",
        )
    _check_cohort_law(replayed, findings)


def _check_cohort_law(replayed: Replayed, findings: Findings) -> None:
    """Of many more rounds than were played."""
    cell = replayed.base.cell
    splits, cohort = split_cells([cell]), cell.spec.training.cohort
    clients = splits.training[0]
    block = draw_block(
        build_draws([cell]),
        first_rounds=np.array([_PROBED_FROM]),
        rounds=_PROBED_ROUNDS,
        training=splits.training,
        cohort=cohort,
        validation=splits.validation,
        validation_size=None,
    )
    drawn = np.ones(block.cohort.shape, np.bool_) if block.drawn is None else block.drawn
    counts = np.bincount(block.cohort[drawn], minlength=cell.federation.clients)[clients]
    sizes = drawn[:, 0].sum(-1)
    match cohort:
        case FixedCohort():
            rate = min(1.0, cohort.clients / len(clients))
            findings.expect(
                "sampling",
                "size of a cohort",
                holds=bool((sizes == min(cohort.clients, len(clients))).all()),
                round_=None,
                allowed=cohort.clients,
                measured=f"{sizes.min()} to {sizes.max()}",
            )
        case PoissonCohort():
            rate = cohort.rate
            findings.test(
                "sampling",
                "rate of the clients' coins",
                binomial(int(counts.sum()), counts.size * _PROBED_ROUNDS, rate),
            )
            findings.test(
                "sampling", "sizes of cohorts", binomial_spread(sizes, len(clients), rate)
            )
        case _:
            assert_never(cohort)
    taking_part = np.zeros((_PROBED_ROUNDS, cell.federation.clients))
    np.put_along_axis(taking_part, block.cohort[:, 0], drawn[:, 0] * 1.0, axis=-1)
    findings.test("sampling", "cohorts in turn", turns(taking_part[:, clients] - rate))
    for count in (int(counts.min()), int(counts.max())):
        pvalue = min(1.0, binomial(count, _PROBED_ROUNDS, rate) * len(clients))
        findings.test("sampling", "every client as often", pvalue)


def _check_silos(replayed: Replayed, findings: Findings) -> None:
    """Clients of records toss coins of the rate that is charged."""
    cell = replayed.base.cell
    cohort = cell.spec.training.cohort
    assert isinstance(cohort, PoissonCohort)
    clients = training_records(cell.spec, cell.federation).clients
    source = CounterSource(cell.spec.seed)
    drawn = [
        len(drawn_clients(source, round_=round_, clients=clients, rate=cohort.rate))
        for round_ in range(_PROBED_FROM, _PROBED_FROM + _PROBED_ROUNDS)
    ]
    counts = np.array(drawn, dtype=np.int64)
    taking_part = 0
    for round_ in range(1, replayed.base.rounds + 1):
        own, other = (
            [part.silos.tolist() for part in run.passed.steps[round_]]
            for run in (replayed.base, replayed.neighbour)
        )
        taking_part += sum(map(len, own))
        everyone = [silo for part in own for silo in part]
        findings.expect(
            "sampling",
            "a client once in a cohort",
            holds=len(set(everyone)) == len(everyone),
            round_=round_,
            allowed="each at most once",
            measured=f"{len(everyone) - len(set(everyone))} again",
        )
        if round_ in replayed.together:
            findings.expect(
                "sampling",
                "the neighbour's cohort",
                holds=own == other,
                round_=round_,
                allowed="the same clients, since coins do not look at data",
                measured="other clients",
            )
    trials = len(clients) * replayed.base.rounds
    for number, of in ((int(counts.sum()), len(clients) * _PROBED_ROUNDS), (taking_part, trials)):
        findings.test("sampling", "rate of the clients' coins", binomial(number, of, cohort.rate))
    findings.test(
        "sampling", "sizes of cohorts", binomial_spread(counts, len(clients), cohort.rate)
    )


def _check_records(replayed: Replayed, findings: Findings) -> None:
    """Every record enters every step by a coin of the rate that it is charged for."""
    plan = _plan(replayed)
    records = training_records(replayed.spec, replayed.base.cell.federation)
    first = np.cumsum(records.counts) - records.counts
    tally: dict[float, tuple[int, int]] = {}
    in_turn: list[Floats] = []
    for round_ in range(1, replayed.base.rounds + 1):
        pairs = zip(
            replayed.base.passed.steps[round_],
            replayed.neighbour.passed.steps.get(round_, []),
            strict=False,
        )
        for part, other in pairs:
            off_rate = np.array(part.taken) - part.inclusion
            in_turn.append((off_rate[:-1] * off_rate[1:]).ravel())
            findings.expect(
                "sampling",
                "the neighbour's records",
                holds=all(map(np.array_equal, part.taken, other.taken)),
                round_=round_,
                allowed="the same coins for every record",
                measured="other coins",
            )
            for place, silo in enumerate(part.silos.tolist()):
                at = int(np.searchsorted(records.clients, silo))
                own = slice(int(first[at]), int(first[at] + records.counts[at]))
                charged = np.where(round_ <= plan.rounds[own], plan.rates[own], 0.0)
                chance = part.inclusion[place, : len(charged)]
                off = np.abs(chance - charged)
                findings.expect(
                    "sampling",
                    "chance of a record",
                    holds=bool((chance <= charged).all())
                    and not part.inclusion[place, len(charged) :].any(),
                    round_=round_,
                    allowed=float(charged[off.argmax()]) if len(charged) else 0.0,
                    measured=float(chance[off.argmax()]) if len(charged) else "padding is drawn",
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


def _plan(replayed: Replayed) -> RecordPlan:
    spending = replayed.base.ledger_context.plan
    if spending is not None and spending.records is not None:
        return spending.records.use.plan
    use = record_use_of(replayed.spec, replayed.base.cell.federation)
    assert use is not None
    return use.plan
