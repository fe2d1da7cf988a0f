"""Stage sampling, of records: one that is not there at all moves nobody else's rate or place."""

from dataclasses import replace

import numpy as np

from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of, training_records


def check_removed_record(replayed: Replayed, findings: Findings) -> None:
    """Plans of the data with a record and without it. Baselines take as known how many there are,
    and are not looked at."""
    privacy, cell = replayed.spec.privacy, replayed.base.cell
    if not isinstance(privacy, RecordPersonalised) or privacy.baseline is not None:
        return
    records = training_records(cell.spec, cell.federation)
    row = int(records.place[replayed.pair.record or 0])
    if cell.federation.counts[cell.federation.client_of[row]] < 2:  # a client has a row at least
        return
    before = _chances(cell)
    after = _chances(replace(cell, federation=without_row(cell.federation, row)))
    before.pop(_key(cell.federation, row))
    moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    findings.expect(
        "sampling",
        "rates of the other records",
        holds=not moved,
        round_=None,
        allowed="the same records train, at the same rates",
        measured=f"{len(moved)} of {len(before)} are moved",
    )


def without_row(federation: Federation, row: int) -> Federation:
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
