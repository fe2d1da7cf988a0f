"""Charging entries anew from any point on gives the tallies of that point."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.ledger.declared import Replay, RoundsSoFar, declared_entries
from fedaudit.ledger.encoding import EntryEncoder, genesis, link
from fedaudit.ledger.rows import BundledRow
from fedaudit.privacy.declared.histories import Histories, Tally, charge_of, steps_of
from fedaudit.spec.declared_ledgers import EVERYONE, DeclaredRound, LedgerTerms

_ID, _SECRET = "a ledger", bytes(32)
_NAMES = ("a", "b", "c", "d")
_TERMS = LedgerTerms.model_validate(
    {
        "name": "a training",
        "mechanism": "gaussian-central",
        "delta": 1e-5,
        "accountant": "rdp",
        "adjacency": "add-or-remove-one",
        "observer": "final_model",
        "unit": "client",
        "population": 10,
    }
)
_EVENTS: list[dict[str, Any]] = [
    {"kind": "gaussian", "noise_multiplier": 4.0},
    {"kind": "gaussian", "noise_multiplier": 5.0, "steps": 3},
    {"kind": "poisson-gaussian", "rate": 0.5, "noise_multiplier": 4.0, "steps": 2},
    {"kind": "none"},
]
_ROUND = st.tuples(
    st.sampled_from(_EVENTS), st.lists(st.sampled_from(_NAMES), min_size=1, unique=True)
)


def _entered(
    histories: Histories, releases: np.ndarray, number: int, event: dict[str, Any], names: list[str]
) -> list[BundledRow]:
    """The rows of a round of which the last client failed; not chained yet."""
    one = DeclaredRound.model_validate(
        {"round": number, "event": event, "participants": names[:-1], "failures": names[-1:]}
    )
    charge, steps = charge_of(_TERMS, one.event), steps_of(one.event)
    participants = histories.enter([] if charge.everyone else one.participants)
    failures = histories.enter([] if charge.everyone else one.failures)
    histories.charge(charge, np.concatenate([participants, failures]), steps=steps)
    entries = declared_entries(
        _TERMS,
        histories,
        charge,
        round_=number,
        steps=steps,
        participants=participants,
        failures=failures,
        releases=releases,
    )
    columns = set(BundledRow.__dataclass_fields__) - {"inputs", "digest", "link", "declaration"}
    return [
        BundledRow(
            **{name: getattr(entry, name) for name in columns},
            inputs=entry.inputs.as_dict(),
            digest=EntryEncoder([EVERYONE, *_NAMES]).digest(entry),
            link=b"",
            declaration=bytes([number]) * 32,
        )
        for entry in entries
    ]


def _state(tallies: list[Tally]) -> str:
    return RoundsSoFar(_SECRET).state_hash(tallies)


@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(_ROUND, min_size=1, max_size=8), data=st.data())
def test_what_is_stored_less_what_was_charged_is_what_was_there(rounds, data):
    histories = Histories([EVERYONE, *_NAMES])
    releases, head = np.zeros(1 + len(_NAMES), dtype=np.int32), genesis(_ID)
    states, heads, rows = [_state([])], [head], []
    for number, (event, names) in enumerate(rounds, start=1):
        made = _entered(histories, releases, number, event, names)
        for row in made:
            head = link(head, row.digest, row.clusters, declaration=row.declaration)
        rows.append(made)
        heads.append(head)
        states.append(_state(list(histories.tallies.values())))
    begin = data.draw(st.integers(0, len(rounds)))
    known = sum(len(made) for made in rows[:begin])
    replay = Replay(_TERMS, histories.names, head=heads[begin], entries=known)
    for row in (row for made in rows[begin:] for row in made):
        replay.read(row)
    assert replay.head == head
    assert replay.entries == sum(map(len, rows))
    assert list(replay.rounds) == list(range(begin + 1, len(rounds) + 1))
    assert _state(replay.before(histories)) == states[begin]


def test_a_tally_that_is_too_small_or_missing_is_no_past() -> None:
    histories = Histories([EVERYONE, *_NAMES])
    releases = np.zeros(1 + len(_NAMES), dtype=np.int32)
    rows = _entered(histories, releases, 1, _EVENTS[1], ["a", "b"])
    replay = Replay(_TERMS, histories.names, head=genesis(_ID), entries=0)
    for row in rows:
        replay.read(row)
    assert replay.before(histories) == []
    [tally] = histories.tallies.values()
    fewer = Histories(histories.names, [Tally(tally.charge, 1, tally.counts - (tally.counts > 0))])
    with pytest.raises(ValueError, match="not what entries charged"):
        replay.before(fewer)
    more = Histories(histories.names, [Tally(tally.charge, 1, tally.counts + 1)])
    with pytest.raises(ValueError, match="not what entries charged"):
        replay.before(more)
    with pytest.raises(ValueError, match="no tally counts"):
        replay.before(Histories(histories.names))
