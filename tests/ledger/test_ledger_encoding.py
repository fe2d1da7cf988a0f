"""The binary encoding of ledger entries: pinned bytes, and what may and may not change them."""

import hashlib
import json
import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.ledger.columns import ledger_lines
from fedaudit.ledger.encoding import EntryEncoder, digest, encode
from fedaudit.ledger.entries import LedgerEntry, MechanismParameters
from fedaudit.ledger.rows import BundledRow, LineReader, entry_of, to_line

NAMES = ("10001", "ä", "b", "a", "")
INPUTS = MechanismParameters(
    mechanism="laplace-l2",
    n=11,
    noise_multiplier=3.0,
    radius=None,
    radius_floor=1e-6,
    clip=None,
    noise="simulation",
    guarantee="heuristic",
)
NAN = float("nan")


def an_entry(**changes: Any) -> LedgerEntry:
    fields: dict[str, Any] = {
        "round": 7,
        "release": 0,
        "subject_kind": "client",
        "observer": "server",
        "inputs": INPUTS,
        "subjects": np.array([0, 1, 3], dtype=np.int32),
        "outcomes": np.array([0, 1, 2], dtype=np.uint8),
        "radii": np.array([0.5, NAN, NAN]),
        "releases": np.array([2, 4, 0], dtype=np.int32),
        "clusters": np.array([1, -1, -1], dtype=np.int16),
    }
    return LedgerEntry(**{**fields, **changes})


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def subject(name: str, outcome: int, *numbers: float, releases: int) -> bytes:
    key = hashlib.sha256(name.encode()).digest()
    # The quiet NaN of the specification, whatever NaN Python holds.
    floats = b"".join(
        bytes.fromhex("000000000000f87f") if math.isnan(number) else struct.pack("<d", number)
        for number in numbers
    )
    return key + bytes([outcome]) + floats + struct.pack("<I", releases)


def test_the_bytes_are_those_of_the_specification():
    absent = bytes.fromhex("000000000000f87f")
    expected = b"".join(
        (
            b"fedaudit-ledger",
            struct.pack("<HQQ", 1, 7, 0),
            text("client"),
            text("server"),
            b"\x00",
            text("laplace-l2"),
            struct.pack("<Qd", 11, 3.0),
            absent,
            struct.pack("<d", 1e-6),
            absent,
            text("simulation"),
            text("heuristic"),
            struct.pack("<I", 3),
            subject("10001", 0, 0.5, 11 / (3.0 * 0.5), 11 / 3, releases=2),
            subject("a", 2, NAN, NAN, 0.0, releases=0),
            subject("ä", 1, NAN, NAN, 0.0, releases=4),
        )
    )
    assert encode(an_entry(), NAMES) == expected
    assert digest(an_entry(), NAMES).hex() == PINNED


PINNED = "d355533bf95c9623fb385c2cd7010ed59ead5cde43ab24edc55f19aea97a8acf"
"""The digest of `an_entry`; another value means another encoding, hence another version."""


def test_without_a_mechanism_nothing_bounds_what_leaked():
    inputs = MechanismParameters("none", 2, None, None, None, None, "simulation", "none")
    entry = an_entry(inputs=inputs, radii=np.full(3, NAN))
    assert encode(entry, NAMES).endswith(subject("ä", 1, NAN, NAN, NAN, releases=4))


EPSILON_INPUTS = MechanismParameters(
    mechanism="gaussian-local",
    n=11,
    noise_multiplier=2.0,
    radius=None,
    radius_floor=None,
    clip=0.5,
    noise="release",
    guarantee="formal",
    event='{"kind":"gaussian","noise_multiplier":2.0}',
    delta=1e-5,
    adjacency="replace-one",
    accountant="rdp",
)


def an_epsilon_entry(**changes: Any) -> LedgerEntry:
    fields = {
        "inputs": EPSILON_INPUTS,
        "radii": np.full(3, NAN),
        "epsilons": np.array([5.5, 7.25, 0.0]),
    }
    return an_entry(**{**fields, **changes})


def test_epsilons_with_a_delta_have_a_version_of_their_own():
    expected = b"".join(
        (
            b"fedaudit-ledger",
            struct.pack("<HQQ", 2, 7, 0),
            text("client"),
            text("server"),
            b"\x00",
            text("gaussian-local"),
            struct.pack("<Qdd", 11, 2.0, 0.5),
            text("release"),
            text("formal"),
            text('{"kind":"gaussian","noise_multiplier":2.0}'),
            struct.pack("<d", 1e-5),
            text("replace-one"),
            text("rdp"),
            struct.pack("<I", 3),
            subject("10001", 0, 5.5, releases=2),
            subject("a", 2, 0.0, releases=0),
            subject("ä", 1, 7.25, releases=4),
        )
    )
    assert encode(an_epsilon_entry(), NAMES) == expected
    assert digest(an_epsilon_entry(), NAMES).hex() == PINNED_EPSILON


PINNED_EPSILON = "afbb580cf6bab943b22a1deb9ce5d1d5adb2e5194fb669be8f2e68108ed68d0b"
"""The digest of `an_epsilon_entry`, as PINNED."""


@pytest.mark.parametrize(
    "change",
    [
        {"epsilons": np.array([5.5, np.nextafter(7.25, 8), 0.0])},
        {"releases": np.array([3, 4, 0], dtype=np.int32)},
        *(
            {"inputs": replace(EPSILON_INPUTS, **{name: value})}
            for name, value in {
                "noise_multiplier": 2.5,
                "clip": None,
                "event": '{"kind":"gaussian","noise_multiplier":2.5}',
                "delta": 1e-6,
                "adjacency": "add-or-remove-one",
                "accountant": "pld",
            }.items()
        ),
    ],
    ids=", ".join,
)
def test_every_change_of_an_epsilon_changes_the_digest(change):
    assert digest(an_epsilon_entry(**change), NAMES) != digest(an_epsilon_entry(), NAMES)


def test_epsilons_go_with_an_event_and_only_with_one():
    with pytest.raises(ValueError, match="epsilons go with an event"):
        an_entry(epsilons=np.zeros(3))
    with pytest.raises(ValueError, match="epsilons go with an event"):
        an_epsilon_entry(epsilons=None)
    with pytest.raises(ValueError, match="epsilons has 2 values for 3 subjects"):
        an_epsilon_entry(epsilons=np.zeros(2))


def test_the_lines_of_an_epsilon_entry():
    first, refused, withheld = ledger_lines(an_epsilon_entry(), NAMES)
    assert (first["epsilon"], first["delta"], first["adjacency"]) == (5.5, 1e-5, "replace-one")
    assert (refused["outcome"], refused["epsilon"]) == ("refused", 7.25)
    assert (withheld["outcome"], withheld["epsilon"]) == ("withheld", 0.0)
    for line in (first, refused, withheld):
        assert line["leakage"] is line["leakage_total"] is line["radius"] is None
        assert "another figure" in line["reason"]
    assert "would have passed the client's budget" in refused["reason"]
    assert "was not finite" in withheld["reason"]
    [only] = ledger_lines(an_epsilon_entry(), NAMES, subject=1)
    assert only == refused


def test_a_line_of_a_bundle_gives_the_same_row_again():
    for entry in (an_entry(), an_epsilon_entry()):
        columns = {
            name: getattr(entry, name)
            for name in BundledRow.__dataclass_fields__
            if name not in ("inputs", "digest", "link", "declaration")
        }
        inputs = entry.inputs.as_dict()
        row = BundledRow(**columns, inputs=inputs, digest=digest(entry, NAMES), link=bytes(32))
        read = LineReader().row(to_line(row))
        assert digest(entry_of(read), NAMES) == row.digest
        assert to_line(read) == to_line(row)


@pytest.mark.parametrize("mechanism", ["laplace", "café", "\x7f", 'a "quoted"\n\\'])
@pytest.mark.parametrize(
    "number", [0.0, -0.0, 0.1, 100.0, 1e-4, 9.9e-5, 1e-7, 1e15, 9.9e15, 1e16, 1e22, np.inf, np.nan]
)
def test_lines_are_what_python_writes_whoever_writes_them(number: float, mechanism: str):
    row = BundledRow(
        round=1,
        release=0,
        subject_kind="client",
        observer="server",
        interrupted=False,
        inputs={**an_entry().inputs.as_dict(), "mechanism": mechanism, "radius_floor": 1e-6},
        subjects=np.arange(2, dtype=np.int32),
        outcomes=np.zeros(2, np.int16),
        radii=np.array([number, 0.5]),
        releases=np.ones(2, np.int32),
        clusters=np.full(2, -1, np.int16),
        epsilons=None,
        digest=bytes(32),
        link=bytes(32),
    )
    line = to_line(row)
    value = json.loads(line)
    assert json.dumps(value, separators=(",", ":")).encode() + b"\n" == line
    assert value["radii"] == [number if np.isfinite(number) else None, 0.5]
    assert to_line(LineReader().row(line)) == line
    # The shortest digits in another form are another line.
    other = orjson.dumps(value) + b"\n"
    if other != line:
        with pytest.raises(ValueError, match="form in which ledger lines are written"):
            LineReader().row(other)


def test_an_encoder_takes_no_inputs_for_others_that_are_equal():
    """A zero has two signs, and so two encodings, whichever of them came first."""
    zeros = [replace(an_entry(), inputs=replace(INPUTS, radius_floor=zero)) for zero in (0.0, -0.0)]
    encoder = EntryEncoder(NAMES)
    assert [encoder.encode(one) for one in zeros] == [encode(one, NAMES) for one in zeros]
    assert encoder.encode(zeros[0]) != encoder.encode(zeros[1])


CHANGES: list[dict[str, Any]] = [
    {"round": 8},
    {"release": 1},
    {"subject_kind": "population"},
    {"observer": "final_model"},
    {"interrupted": True},
    {"subjects": np.array([0, 1, 2], dtype=np.int32)},
    {"outcomes": np.array([0, 2, 2], dtype=np.uint8)},
    {"radii": np.array([np.nextafter(0.5, 1), NAN, NAN])},
    {"releases": np.array([3, 4, 0], dtype=np.int32)},
    *(
        {"inputs": replace(INPUTS, **{name: value})}
        for name, value in {
            "mechanism": "gaussian-local",
            "n": 12,
            "noise_multiplier": 3.5,
            "radius": 1.0,
            "radius_floor": 1e-5,
            "clip": 1.0,
            "noise": "release",
            "guarantee": "formal",
        }.items()
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=", ".join)
def test_every_change_of_a_figure_changes_the_digest(change):
    assert digest(an_entry(**change), NAMES) != digest(an_entry(), NAMES)


def test_the_clusters_of_the_server_are_not_part_of_the_figures():
    clusters = np.array([0, 0, 0], dtype=np.int16)
    assert digest(an_entry(clusters=clusters), NAMES) == digest(an_entry(), NAMES)


def test_any_nan_is_the_same_absent_number():
    strange = np.array([0x3FE0000000000000, 0xFFF8000000000001, 0x7FF0000000000009], dtype="<u8")
    entry = an_entry(radii=strange.view("<f8"))
    assert encode(entry, NAMES) == encode(an_entry(), NAMES)


@st.composite
def renamed_entries(draw: st.DrawFn) -> tuple[LedgerEntry, list[str], list[int], list[int]]:
    names = draw(st.lists(st.text(max_size=5), min_size=1, max_size=12, unique=True))
    count = draw(st.integers(0, len(names)))
    subjects = draw(st.permutations(range(len(names))))[:count]
    radius = st.one_of(st.just(NAN), st.floats(1e-9, 1e9))
    entry = an_entry(
        subjects=np.array(subjects, dtype=np.int32),
        outcomes=np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), "u1"),
        radii=np.array(draw(st.lists(radius, min_size=count, max_size=count)), dtype=float),
        releases=np.array(
            draw(st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count)), "i4"
        ),
        clusters=np.zeros(count, dtype=np.int16),
    )
    within = draw(st.permutations(range(count)))
    places = draw(st.permutations(range(len(names))))
    return entry, names, list(within), list(places)


@given(renamed_entries())
def test_neither_the_order_of_subjects_nor_their_place_in_memory_matters(case):
    entry, names, within, places = case
    moved = list(names)
    for old, new in enumerate(places):
        moved[new] = names[old]
    order = np.array(within, dtype=np.int64)
    shuffled = replace(
        entry,
        subjects=np.array(places, dtype=np.int32)[entry.subjects[order]],
        outcomes=entry.outcomes[order],
        radii=entry.radii[order],
        releases=entry.releases[order],
        clusters=entry.clusters[order],
    )
    assert encode(shuffled, moved) == encode(entry, names)


def test_one_encoder_serves_many_entries():
    encoder = EntryEncoder(NAMES)
    for round_ in (1, 2, 1):
        entry = an_entry(round=round_)
        assert encoder.digest(entry) == digest(entry, NAMES)


@pytest.mark.filterwarnings("error")
def test_an_epsilon_too_large_for_a_number_is_encoded_as_infinite():
    entry = an_entry(radii=np.array([1e-320, 0.5, np.nan]))
    assert struct.pack("<d", np.inf) in encode(entry, NAMES)


def test_what_cannot_be_encoded_is_refused():
    with pytest.raises(ValueError, match="subject names must be distinct"):
        EntryEncoder(["a", "a"])
    with pytest.raises(ValueError, match="stands twice"):
        encode(an_entry(subjects=np.array([1, 1, 3], dtype=np.int32)), NAMES)
    for beyond in (5, 6, 1000, -1):
        with pytest.raises(ValueError, match="between 0 and 4"):
            encode(an_entry(subjects=np.array([0, 1, beyond], dtype=np.int32)), NAMES)
    with pytest.raises(ValueError, match="outcome 3 is unknown"):
        encode(an_entry(outcomes=np.array([0, 1, 3], dtype=np.uint8)), NAMES)
    with pytest.raises(ValueError, match="radii has 1 values for 3 subjects"):
        an_entry(radii=np.array([0.5]))
