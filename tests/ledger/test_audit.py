"""Reading a stored ledger: what no digest covers may not stand in a row either."""

from dataclasses import replace

import numpy as np
import pytest

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.chain import genesis, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import MechanismParameters
from fedaudit.ledger.rows import BundledRow, entry_of

ID = "01890000-0000-7000-8000-000000000000"
NAMES = ("a", "b")
INPUTS = MechanismParameters(
    mechanism="gaussian-central",
    n=11,
    noise_multiplier=2.0,
    radius=None,
    radius_floor=None,
    clip=1.0,
    noise="simulation",
    guarantee="formal",
    event="{}",
    delta=1e-5,
    adjacency="add-or-remove-one",
    accountant="rdp",
)


def row_of(inputs: MechanismParameters = INPUTS) -> BundledRow:
    """The only row of a ledger in which a delta is spent."""
    row = BundledRow(
        round=1,
        release=0,
        subject_kind="client",
        observer="server",
        interrupted=False,
        inputs=inputs.as_dict(),
        subjects=np.array([0, 1], np.int32),
        outcomes=np.array([0, 0], np.int16),
        radii=np.full(2, np.nan),
        releases=np.array([1, 1], np.int32),
        clusters=np.array([0, 0], np.int16),
        epsilons=np.array([0.5, 0.5]),
        digest=b"",
        link=b"",
    )
    digest = EntryEncoder(NAMES).digest(entry_of(row))
    return replace(row, digest=digest, link=link(genesis(ID), digest, row.clusters))


def altered(row: BundledRow) -> int:
    """How many rows do not have what their digests say."""
    audit = LedgerAudit(ID, NAMES, watch=())
    audit.read(row)
    return audit.altered.count


def test_an_epsilon_entry_has_no_radii() -> None:
    """Its encoding leaves them out, so that a radius written into it would go unseen."""
    row = row_of()
    assert altered(row) == 0
    assert altered(replace(row, radii=np.array([np.nan, 0.25]))) == 1
    for stray in ({"radius": 0.25}, {"radius_floor": 1e-6}):
        assert altered(replace(row, inputs={**row.inputs, **stray})) == 1


@pytest.mark.parametrize("stray", [{"delta": 1e-5}, {"adjacency": "none"}, {"accountant": "rdp"}])
def test_a_metric_entry_has_no_delta(stray: dict[str, object]) -> None:
    inputs = replace(INPUTS, event=None, delta=None, adjacency=None, accountant=None)
    row = replace(row_of(), inputs=inputs.as_dict(), epsilons=None)
    digest = EntryEncoder(NAMES).digest(entry_of(row))
    row = replace(row, digest=digest)
    assert altered(row) == 0
    assert altered(replace(row, inputs={**row.inputs, **stray})) == 1
