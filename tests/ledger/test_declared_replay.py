"""Charging the entries of a ledger anew gives the tallies that its rounds made."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.ledger.columns import EntryColumns, columns_of_rows
from fedaudit.ledger.declared import ChargedEntries, Replay, declared_entries, state_hash
from fedaudit.ledger.encoding import EntryEncoder, genesis, links_of
from fedaudit.privacy.declared.histories import Histories, charge_of
from fedaudit.spec.declared_ledgers import EVERYONE, DeclaredRound, LedgerTerms

_ID, _SECRET = "a ledger", bytes(32)
_NAMES = ("a", "b", "c", "d")
_ENCODER = EntryEncoder([EVERYONE, *_NAMES])
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
) -> EntryColumns:
    """The entries of a round of which the last client failed."""
    one = DeclaredRound.model_validate(
        {"round": number, "event": event, "participants": names[:-1], "failures": names[-1:]}
    )
    charge, steps = charge_of(_TERMS, one.event), one.event.steps
    participants = histories.enter([] if charge.everyone else one.participants)
    failures = histories.enter([] if charge.everyone else one.failures)
    histories.charge(charge, np.concatenate([participants, failures]), steps=steps)
    return declared_entries(
        _TERMS,
        histories,
        charge,
        round_=number,
        steps=steps,
        participants=participants,
        failures=failures,
        releases=releases,
    )


@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(_ROUND, min_size=1, max_size=8), data=st.data())
def test_entries_say_what_every_round_charged(rounds, data):
    histories = Histories([EVERYONE, *_NAMES])
    releases = np.zeros(1 + len(_NAMES), dtype=np.int32)
    states, heads, rows = [_state(histories)], [genesis(_ID)], []
    for number, (event, names) in enumerate(rounds, start=1):
        made = _entered(histories, releases, number, event, names)
        digests, declaration = _ENCODER.digests(made), bytes([number]) * 32
        links = links_of(made, digests, before=heads[-1], declaration=declaration)
        rows.append(list(made.rows(digests, links, declaration=declaration)))
        heads.append(links[-1])
        states.append(_state(histories))
    begin = data.draw(st.integers(0, len(rounds)))
    replay = Replay(_TERMS, _ID)
    replay.name(histories.names)
    for number, made in enumerate(rows):
        if number == begin:
            # As for who goes on from here with a copy.
            later = ChargedEntries(_TERMS, replay.charged.histories.copy(), last_round=begin)
        replay.read(made)
        if number >= begin:
            for some in columns_of_rows(made):
                later.read(some)
        assert _state(replay.charged.histories) == states[number + 1]
        assert replay.audit.head == heads[number + 1]
    assert replay.audit.entries == sum(map(len, rows))
    assert list(replay.rounds) == list(range(1, len(rounds) + 1))
    if begin < len(rounds):
        assert _state(later.histories) == states[-1]


def _state(histories: Histories) -> str:
    return state_hash((), (), histories.tallies.values(), _SECRET)


def test_an_entry_of_other_terms_is_refused() -> None:
    releases = np.zeros(1 + len(_NAMES), dtype=np.int32)
    made = _entered(Histories([EVERYONE, *_NAMES]), releases, 1, _EVENTS[0], ["a", "b"])
    replay = Replay(_TERMS.model_copy(update={"delta": 1e-6}), _ID)
    replay.name([EVERYONE, *_NAMES])
    with pytest.raises(ValueError, match="round 1, release 0 is not of the ledger's terms"):
        replay.read(list(made.rows(_ENCODER.digests(made), [bytes(32)] * 2)))


def test_a_row_that_forms_no_entry_is_refused() -> None:
    histories = Histories([EVERYONE, *_NAMES])
    made = _entered(histories, np.zeros(5, np.int32), 1, _EVENTS[0], ["a", "b"])
    [row, *_] = made.rows(_ENCODER.digests(made), [bytes(32)] * len(made))
    replay = Replay(_TERMS, _ID)
    replay.name(histories.names)
    with pytest.raises(ValueError, match="forms no entry"):
        replay.read([replace(row, subjects=np.full_like(row.subjects, 9))])
