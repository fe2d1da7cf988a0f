"""Stage sampling: who takes part, how often, and that neither depends on data."""

from dataclasses import replace
from typing import assert_never

import numpy as np

from fedaudit.attacks.replay.neighbour_pair import Replayed, drawn_block
from fedaudit.attacks.replay.noise_laws import binomial, binomial_spread, correlation, turns
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.watched_run import Floats
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import CounterSource
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.client_coins import drawn_clients
from fedaudit.training.base.record_sources import record_use_of, training_records
from fedaudit.training.base.splits import split_cells

_PROBED_ROUNDS = 1000
_PROBED_FROM = 1 << 20
_SAME_CLIENTS = "the same clients, since coins do not depend on data"


def check_sampling(replayed: Replayed, findings: Findings) -> None:
    """Cohorts and batches are drawn as the spec says, and alike for both neighbours."""
    if replayed.role == "local-steps":
        _check_silos(replayed, findings)
        _check_records(replayed, findings)
        _check_removed_record(replayed, findings)
        return
    training = split_cells([replayed.base.cell]).training[0]
    for round_ in replayed.rounds:
        at, runs = findings.at("sampling", round_), (replayed.base, replayed.neighbour)
        cohort, other = (run.passed.cohorts.get(round_) for run in runs)
        if cohort is None or other is None:
            continue
        again = len(cohort) - len(np.unique(cohort))
        others = int((~np.isin(cohort, training)).sum())
        at.expect(
            "a client once in a cohort",
            again == 0 and others == 0,
            allowed="each at most once, of those who train",
            measured=f"{again} again, {others} who do not train",
        )
        same = np.array_equal(cohort, other)
        at.expect("the neighbour's cohort", same, allowed=_SAME_CLIENTS, measured="other clients")
    _check_cohort_law(replayed, findings)


def _check_cohort_law(replayed: Replayed, findings: Findings) -> None:
    """Of many more rounds than were played."""
    cell = replayed.base.cell
    cohort, clients = cell.spec.training.cohort, split_cells([cell]).training[0]
    block = drawn_block(cell, first=_PROBED_FROM, rounds=_PROBED_ROUNDS)
    drawn = np.ones(block.cohort.shape, np.bool_) if block.drawn is None else block.drawn
    counts = np.bincount(block.cohort[drawn], minlength=cell.federation.clients)[clients]
    sizes = drawn[:, 0].sum(-1)
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
            pvalue = binomial(int(counts.sum()), counts.size * _PROBED_ROUNDS, rate)
            findings.test("sampling", "rate of the clients' coins", pvalue)
            pvalue = binomial_spread(sizes, len(clients), rate)
            findings.test("sampling", "sizes of cohorts", pvalue)
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
    rate, source = cohort.rate, CounterSource(cell.spec.seed)
    clients = training_records(cell.spec, cell.federation).clients
    drawn = [
        len(drawn_clients(source, round_=round_, clients=clients, rate=rate))
        for round_ in range(_PROBED_FROM, _PROBED_FROM + _PROBED_ROUNDS)
    ]
    counts = np.array(drawn, dtype=np.int64)
    taking_part = 0
    for round_ in replayed.rounds:
        at = findings.at("sampling", round_)
        own, other = (
            [part.silos.tolist() for part in run.passed.steps[round_]]
            for run in (replayed.base, replayed.neighbour)
        )
        everyone = [silo for part in own for silo in part]
        again = len(everyone) - len(set(everyone))
        taking_part += len(everyone)
        at.expect(
            "a client once in a cohort",
            again == 0,
            allowed="each at most once",
            measured=f"{again} again",
        )
        if round_ in replayed.together:
            at.expect(
                "the neighbour's cohort",
                own == other,
                allowed=_SAME_CLIENTS,
                measured="other clients",
            )
    for number, rounds in (
        (int(counts.sum()), _PROBED_ROUNDS),
        (taking_part, replayed.base.rounds),
    ):
        pvalue = binomial(number, len(clients) * rounds, rate)
        findings.test("sampling", "rate of the clients' coins", pvalue)
    findings.test("sampling", "sizes of cohorts", binomial_spread(counts, len(clients), rate))


def _check_records(replayed: Replayed, findings: Findings) -> None:
    """Every record enters every step by a coin of the rate that it is charged for."""
    plan = _plan(replayed)
    records = training_records(replayed.spec, replayed.base.cell.federation)
    first = np.cumsum(records.counts) - records.counts
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
                client = int(np.searchsorted(records.clients, silo))
                own = slice(int(first[client]), int(first[client] + records.counts[client]))
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


def _plan(replayed: Replayed) -> RecordPlan:
    spending = replayed.base.ledger_context.plan
    if spending is not None and spending.records is not None:
        return spending.records.use.plan
    use = record_use_of(replayed.spec, replayed.base.cell.federation)
    assert use is not None
    return use.plan


def _check_removed_record(replayed: Replayed, findings: Findings) -> None:
    """A record that is not there at all changes no other record's rate or place.

    Baselines take as known how many there are, and are not checked.
    """
    privacy, cell = replayed.spec.privacy, replayed.base.cell
    if not isinstance(privacy, RecordPersonalised) or privacy.baseline is not None:
        return
    federation = cell.federation
    records = training_records(cell.spec, federation)
    row = int(records.place[replayed.pair.record or 0])
    if federation.counts[federation.client_of[row]] < 2:  # a client has a row at least
        return
    before = _chances(cell)
    after = _chances(replace(cell, federation=_without_row(federation, row)))
    before.pop(_key(federation, row))
    moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    findings.at("sampling").expect(
        "rates of the other records",
        not moved,
        allowed="the same records train, at the same rates",
        measured=f"{len(moved)} of {len(before)} are moved",
    )


def _without_row(federation: Federation, row: int) -> Federation:
    """The federation less one row, of a client that has others."""
    kept = np.arange(federation.rows) != row
    features, numbers = federation.features, federation.row_numbers
    budgets, keys = federation.record_budgets, federation.record_keys
    return replace(
        federation,
        features=replace(features, values=features.values[kept])
        if isinstance(features, ClientRows)
        else features[kept],
        target=federation.target[kept],
        raw_target=federation.raw_target[kept],
        first=federation.first - (federation.first > row),
        attributes=tuple(one.of_rows(kept) for one in federation.attributes),
        record_budgets=None if budgets is None else budgets[kept],
        row_numbers=None if numbers is None else numbers[kept],
        record_keys=None if keys is None else keys[kept],
    )


def _chances(cell: Cell) -> dict[int, tuple[float, int]]:
    """By key of a record that trains: its rate, and for how many rounds it stays."""
    records = training_records(cell.spec, cell.federation)
    use = record_use_of(cell.spec, cell.federation)
    assert use is not None
    return {
        _key(cell.federation, int(row)): (float(rate), int(rounds))
        for row, rate, rounds in zip(records.place, use.plan.rates, use.plan.rounds, strict=True)
    }


def _key(federation: Federation, row: int) -> int:
    assert federation.record_keys is not None  # `neighbour_pair` gives every record one
    return int(federation.record_keys[row])
