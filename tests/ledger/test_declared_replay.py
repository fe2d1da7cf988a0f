"""Charging the entries of a ledger anew gives the tallies that its rounds made."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.ledger.columns import entry_of
from fedaudit.ledger.declared import ChargedEntries, Replay, declared_entries, state_hash
from fedaudit.ledger.encoding import EntryEncoder, genesis, link
from fedaudit.ledger.rows import row_of
from fedaudit.privacy.declared.histories import Histories, charge_of
from fedaudit.spec.declared_ledgers import EVERYONE, DeclaredRound, LedgerTerms
from fedaudit.stored import LedgerRow

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
) -> list[LedgerRow]:
    """The rows of a round of which the last client failed; not chained yet."""
    one = DeclaredRound.model_validate(
        {"round": number, "event": event, "participants": names[:-1], "failures": names[-1:]}
    )
    charge, steps = charge_of(_TERMS, one.event), one.event.steps
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
    return [
        row_of(
            entry,
            digest=EntryEncoder([EVERYONE, *_NAMES]).digest(entry),
            link=b"",
            declaration=bytes([number]) * 32,
        )
        for entry in entries
    ]


@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(_ROUND, min_size=1, max_size=8), data=st.data())
def test_entries_say_what_every_round_charged(rounds, data):
    histories = Histories([EVERYONE, *_NAMES])
    releases, head = np.zeros(1 + len(_NAMES), dtype=np.int32), genesis(_ID)
    states, heads, rows = [_state(histories)], [head], []
    for number, (event, names) in enumerate(rounds, start=1):
        made = _entered(histories, releases, number, event, names)
        for row in made:
            head = link(head, row.digest, row.clusters, declaration=row.declaration)
        rows.append(made)
        heads.append(head)
        states.append(_state(histories))
    begin = data.draw(st.integers(0, len(rounds)))
    replay = Replay(_TERMS, _ID)
    replay.name(histories.names)
    for number, made in enumerate(rows):
        if number == begin:
            # As for who goes on from here with a copy.
            later = ChargedEntries(_TERMS, replay.charged.histories.copy(), last_round=begin)
        for row in made:
            replay.read(row)
            if number >= begin:
                later.read(entry_of(row))
        assert _state(replay.charged.histories) == states[number + 1]
        assert replay.head == heads[number + 1]
    assert replay.entries == sum(map(len, rows))
    assert list(replay.rounds) == list(range(1, len(rounds) + 1))
    if begin < len(rounds):
        assert _state(later.histories) == states[-1]


def _state(histories: Histories) -> str:
    return state_hash((), (), histories.tallies.values(), _SECRET)


def test_an_entry_of_other_terms_is_refused() -> None:
    releases = np.zeros(1 + len(_NAMES), dtype=np.int32)
    [row, *_] = _entered(Histories([EVERYONE, *_NAMES]), releases, 1, _EVENTS[0], ["a", "b"])
    replay = Replay(_TERMS.model_copy(update={"delta": 1e-6}), _ID)
    replay.name([EVERYONE, *_NAMES])
    with pytest.raises(ValueError, match="round 1, release 0 is not of the ledger's terms"):
        replay.read(row)
