"""The binary encoding of ledger entries: pinned bytes, and what may and may not change them."""

import hashlib
import hmac
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.ledger.columns import ledger_columns
from fedaudit.ledger.encoding import EntryEncoder, genesis, ledger_hash, salt_hash
from fedaudit.ledger.rows import LineReader, to_line
from fedaudit.privacy.accounting.privacy_events import (
    Component,
    MechanismParameters,
    layer_components,
)
from fedaudit.stored import LedgerRow
from tests.ledger.single_entry import (
    EPSILON_INPUTS,
    INPUTS,
    LAYERED_INPUTS,
    NAN,
    RADII,
    SingleEntry,
    a_layered_entry,
    an_entry,
    an_epsilon_entry,
    digest_of,
    link,
)

NAMES = ("10001", "ä", "b", "a", "")
SALT = bytes(range(32))
ABSENT = bytes.fromhex("000000000000f87f")
"""The quiet NaN of the specification, whatever NaN Python holds."""


def encode(entry: SingleEntry, names: Sequence[str]) -> bytes:
    [encoded] = EntryEncoder(names).encode(entry.columns)
    return encoded


def digest(entry: SingleEntry, names: Sequence[str]) -> bytes:
    return digest_of(EntryEncoder(names), entry)


def ledger_lines(entry: SingleEntry, subject: int | None = None) -> list[dict[str, Any]]:
    return list(ledger_columns([entry.columns], NAMES, subject=subject).lines())


def a_row(entry: SingleEntry) -> LedgerRow:
    own = digest(entry, NAMES)
    return entry.row(digest=own, link=link(genesis("x"), own, entry.clusters))


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def floats(*numbers: float) -> bytes:
    return b"".join(ABSENT if math.isnan(one) else struct.pack("<d", one) for one in numbers)


def subject(name: str, outcome: int, *figures: bytes) -> bytes:
    return hashlib.sha256(name.encode()).digest() + bytes([outcome]) + b"".join(figures)


def counted(releases: int) -> bytes:
    return struct.pack("<I", releases)


METRIC = (
    *(text("laplace-l2"), struct.pack("<Qd", 11, 3.0), floats(NAN, 1e-6, NAN)),
    *(text("simulation"), text("heuristic")),
)
ENTRIES = {
    "d355533bf95c9623fb385c2cd7010ed59ead5cde43ab24edc55f19aea97a8acf": (
        *(an_entry(), 1, *METRIC, counted(3)),
        subject("10001", 0, floats(0.5, 11 / (3.0 * 0.5), 11 / 3), counted(2)),
        subject("a", 2, floats(NAN, NAN, 0.0), counted(0)),
        subject("ä", 1, floats(NAN, NAN, 0.0), counted(4)),
    ),
    "afbb580cf6bab943b22a1deb9ce5d1d5adb2e5194fb669be8f2e68108ed68d0b": (
        *(an_epsilon_entry(), 2, text("gaussian-local"), struct.pack("<Qdd", 11, 2.0, 0.5)),
        *(text("release"), text("formal"), text('{"kind":"gaussian","noise_multiplier":2.0}')),
        *(floats(1e-5), text("replace-one"), text("rdp"), counted(3)),
        subject("10001", 0, floats(5.5), counted(2)),
        subject("a", 2, floats(0.0), counted(0)),
        subject("ä", 1, floats(7.25), counted(4)),
    ),
    "08aa4717da49e2affef4019009d5fc5c2e1e55feed857112af375aeffd3649ef": (
        *(a_layered_entry(), 3, *METRIC, counted(2)),
        *(text("layer-1"), struct.pack("<Q", 8), text("layer-2"), struct.pack("<Q", 3)),
        counted(3),
        subject("10001", 0, counted(2), floats(0.5, 8 / 1.5, 8 / 3, 0.25, 3 / 0.75, 3 / 3)),
        subject("a", 2, counted(0), floats(NAN, NAN, 0.0, NAN, NAN, 0.0)),
        subject("ä", 1, counted(4), floats(NAN, NAN, 0.0, NAN, NAN, 0.0)),
    ),
}
"""By its digest an entry of each version, and its parts. Another digest means another encoding,
hence another version."""


@pytest.mark.parametrize("pinned", ENTRIES)
def test_the_bytes_are_those_of_the_specification(pinned: str):
    entry, version, *parts = ENTRIES[pinned]
    begin = (b"fedaudit-ledger", struct.pack("<HQQ", version, 7, 0), text("client"))
    encoded = b"".join((*begin, text("server"), b"\x00", *parts))
    assert encode(entry, NAMES) == encoded
    assert digest(entry, NAMES).hex() == pinned
    salted = digest_of(EntryEncoder(NAMES, salt=SALT), entry)
    assert salted == hmac.new(SALT, encoded, hashlib.sha256).digest()


def test_without_a_mechanism_nothing_bounds_what_leaked():
    inputs = MechanismParameters("none", 2, None, None, None, None, "simulation", "none")
    entry = an_entry(inputs=inputs, radii=np.full(3, NAN))
    assert encode(entry, NAMES).endswith(subject("ä", 1, floats(NAN, NAN, NAN), counted(4)))


def test_a_whole_vector_is_no_single_component():
    """The same figures, but a mechanism that was asked for differently."""
    single = replace(INPUTS, components=layer_components((11,)))
    assert encode(an_entry(), NAMES)[15:17] == b"\x01\x00"
    assert encode(an_entry(inputs=single, radii=RADII[:, :1]), NAMES)[15:17] == b"\x03\x00"


def _inputs(before: MechanismParameters, **changes: Any) -> list[dict[str, Any]]:
    return [{"inputs": replace(before, **{name: value})} for name, value in changes.items()]


COUNTS: list[dict[str, Any]] = [
    {"interrupted": True},
    {"outcomes": np.array([0, 2, 2], dtype=np.uint8)},
    {"releases": np.array([3, 4, 0], dtype=np.int32)},
]
CHANGES = [
    *(
        (an_entry, change)
        for change in (
            {"round": 8},
            {"release": 1},
            {"subject_kind": "population"},
            {"observer": "final_model"},
            {"subjects": np.array([0, 1, 2], dtype=np.int32)},
            {"radii": np.array([np.nextafter(0.5, 1), NAN, NAN])},
            *COUNTS,
            *_inputs(INPUTS, mechanism="gaussian-local", n=12, noise_multiplier=3.5, radius=1.0),
            *_inputs(INPUTS, radius_floor=1e-5, clip=1.0, noise="release", guarantee="formal"),
        )
    ),
    *(
        (an_epsilon_entry, change)
        for change in (
            {"epsilons": np.array([5.5, np.nextafter(7.25, 8), 0.0])},
            *COUNTS,
            *_inputs(EPSILON_INPUTS, noise_multiplier=2.5, clip=None, delta=1e-6),
            *_inputs(EPSILON_INPUTS, adjacency="add-or-remove-one", accountant="pld"),
            *_inputs(EPSILON_INPUTS, event='{"kind":"gaussian","noise_multiplier":2.5}'),
        )
    ),
    *(
        (a_layered_entry, change)
        for change in (
            {"radii": RADII[:, ::-1].copy()},
            {"radii": np.nextafter(RADII, 1)},
            *COUNTS,
            *_inputs(INPUTS, components=(Component("a", 8), Component("layer-2", 3))),
            *_inputs(INPUTS, components=layer_components((7, 4))),
            *_inputs(LAYERED_INPUTS, clip=1.0),
        )
    ),
]


@pytest.mark.parametrize(("entry", "change"), CHANGES)
def test_every_change_of_a_figure_changes_the_digest(entry, change):
    assert digest(entry(**change), NAMES) != digest(entry(), NAMES)


def test_figures_go_with_the_parameters_that_they_are_figures_of():
    for made, match in (
        (lambda: an_entry(epsilons=np.zeros(3)).columns, "epsilons go with an event"),
        (lambda: an_epsilon_entry(epsilons=None).columns, "epsilons go with an event"),
        (lambda: an_epsilon_entry(epsilons=np.zeros(2)).columns, "epsilons has not 3 values"),
        (lambda: an_entry(radii=np.array([0.5])).columns, "radii has not 3 values"),
        (lambda: a_layered_entry(radii=RADII[:, :1]).columns, "radii has not 6 values"),
        (lambda: a_layered_entry(inputs=INPUTS).columns, "radii has not 3 values"),
        (lambda: replace(INPUTS, components=layer_components((8, 4))), "do not add up to 11"),
        (lambda: replace(EPSILON_INPUTS, components=layer_components((8, 3))), "only metric"),
    ):
        with pytest.raises(ValueError, match=match):
            made()


def test_the_lines_of_an_epsilon_entry():
    first, refused, withheld = ledger_lines(an_epsilon_entry())
    assert (first["epsilon"], first["delta"], first["adjacency"]) == (5.5, 1e-5, "replace-one")
    assert (refused["outcome"], refused["epsilon"]) == ("refused", 7.25)
    assert (withheld["outcome"], withheld["epsilon"]) == ("withheld", 0.0)
    for line in (first, refused, withheld):
        assert line["leakage"] is line["leakage_total"] is line["radius"] is None
        assert "another figure" in line["reason"]
    assert "would have passed the client's budget" in refused["reason"]
    assert "was not finite" in withheld["reason"]
    [only] = ledger_lines(an_epsilon_entry(), subject=1)
    assert only == refused


def test_a_line_for_each_subject_and_component():
    lines = ledger_lines(a_layered_entry())
    assert [(line["subject"], line["component"], line["outcome"]) for line in lines] == [
        (name, f"layer-{layer}", outcome)
        for name, outcome in (("10001", "released"), ("ä", "refused"), ("a", "withheld"))
        for layer in (1, 2)
    ]
    first, second, *others = lines
    figures = ("radius", "epsilon", "leakage", "leakage_total")
    assert [first[name] for name in figures] == [0.5, 8 / 1.5, 8 / 3, 2 * 8 / 3]
    assert [second[name] for name in figures] == [0.25, 3 / 0.75, 1.0, 2.0]
    for line in others:
        assert line["radius"] is line["epsilon"] is line["leakage"] is None
        assert line["reason"]
    assert [line["leakage_total"] for line in others] == [4 * 8 / 3, 4 * 3 / 3, 0.0, 0.0]
    assert ledger_lines(a_layered_entry(), subject=1) == others[:2]
    assert ledger_lines(a_layered_entry(), subject=2) == []
    # A release that was lost with its worker has no radii and costs all the same.
    lost = {"outcomes": np.zeros(3, np.uint8), "radii": np.full((3, 2), NAN), "interrupted": True}
    for line in ledger_lines(a_layered_entry(**lost)):
        assert line["radius"] is None
        assert line["leakage"] > 0
        assert "lost with its worker" in line["reason"]


def test_lines_without_components_are_written_as_they_always_were():
    line = json.loads(to_line(a_row(an_entry())))
    assert list(line["inputs"])[-1] == "accountant"
    line["inputs"]["components"] = None
    with pytest.raises(ValueError, match="not in the form"):
        LineReader().row(json.dumps(line, separators=(",", ":")).encode() + b"\n")


@pytest.mark.parametrize("inputs", [INPUTS, LAYERED_INPUTS])
def test_inputs_are_kept_as_values_of_json(inputs):
    kept = json.loads(json.dumps(inputs.as_dict()))
    assert kept == inputs.as_dict()
    assert MechanismParameters.from_dict(kept) == inputs
    # As versions before components stored them.
    kept.pop("components", None)
    assert MechanismParameters.from_dict(kept) == INPUTS


@pytest.mark.parametrize("mechanism", ["laplace", "café", "\x7f", 'a "quoted"\n\\'])
@pytest.mark.parametrize(
    "number", [0.0, -0.0, 0.1, 100.0, 1e-4, 9.9e-5, 1e-7, 1e15, 9.9e15, 1e16, 1e22, np.inf, np.nan]
)
def test_lines_are_what_python_writes_whoever_writes_them(number: float, mechanism: str):
    row = a_row(an_entry(radii=np.array([number, 0.5, NAN])))
    row = replace(row, inputs={**row.inputs, "mechanism": mechanism})
    line = to_line(row)
    value = json.loads(line)
    assert json.dumps(value, separators=(",", ":")).encode() + b"\n" == line
    assert value["radii"] == [number if np.isfinite(number) else None, 0.5, None]
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
    first, second = (encoder.encode(one.columns) for one in zeros)
    assert [*first, *second] == [encode(one, NAMES) for one in zeros]
    assert first != second


def test_any_nan_is_the_same_absent_number():
    strange = np.array([0x3FE0000000000000, 0xFFF8000000000001, 0x7FF0000000000009], dtype="<u8")
    entry = an_entry(radii=strange.view("<f8"))
    assert encode(entry, NAMES) == encode(an_entry(), NAMES)


@given(
    names=st.lists(st.text(max_size=5), min_size=4, max_size=9, unique=True),
    order=st.permutations(range(3)),
    turned=st.randoms(use_true_random=False),
)
def test_neither_the_order_of_subjects_nor_their_place_in_memory_matters(names, order, turned):
    moved = turned.sample(names, len(names))
    places = np.array([moved.index(name) for name in names], dtype=np.int32)
    entry = an_entry(radii=np.array([0.5, 0.25, NAN]))
    shuffled = replace(
        entry,
        subjects=places[entry.subjects[order]],
        outcomes=entry.outcomes[order],
        radii=entry.radii[order],
        releases=entry.releases[order],
        clusters=entry.clusters[order],
    )
    assert encode(shuffled, moved) == encode(entry, names)


@pytest.mark.filterwarnings("error")
def test_an_epsilon_too_large_for_a_number_is_encoded_as_infinite():
    entry = an_entry(radii=np.array([1e-320, 0.5, np.nan]))
    assert struct.pack("<d", np.inf) in encode(entry, NAMES)


def test_what_cannot_be_encoded_is_refused():
    with pytest.raises(ValueError, match="subject names must be distinct"):
        EntryEncoder(["a", "a"])
    with pytest.raises(ValueError, match="is twice"):
        encode(an_entry(subjects=np.array([1, 1, 3], dtype=np.int32)), NAMES)
    for beyond in (5, 6, 1000, -1):
        with pytest.raises(ValueError, match="between 0 and 4"):
            encode(an_entry(subjects=np.array([0, 1, beyond], dtype=np.int32)), NAMES)
    for wrong in (3, 9, -1):
        with pytest.raises(ValueError, match="outcomes must lie between 0 and 2"):
            encode(an_entry(outcomes=np.array([0, 1, wrong], dtype=np.int16)), NAMES)


CLUSTERS = np.array([1, -1, 0], np.int16)
DIGESTS = [hashlib.sha256(bytes([number])).digest() for number in range(5)]


@pytest.mark.parametrize(("version", "declaration"), [(2, None), (3, DIGESTS[1])])
def test_links_are_known_hashes(version: int, declaration: bytes | None):
    first = hashlib.sha256(b"fedaudit-ledger-genesis-1\x00" + b"experiment").digest()
    assert genesis("experiment") == first
    hashed = b"fedaudit-ledger-link-%d\x00" % version + first + DIGESTS[0] + (declaration or b"")
    expected = hashlib.sha256(hashed + b"\x01\x00\xff\xff\x00\x00").digest()
    for clusters in (CLUSTERS, CLUSTERS.astype(np.int64)):
        assert link(first, DIGESTS[0], clusters, declaration=declaration) == expected


@pytest.mark.parametrize("length", [0, 3, 31, 33])
@pytest.mark.parametrize("name", ["previous", "digest", "declaration"])
def test_what_is_linked_has_32_bytes(name: str, length: int):
    parts = {"previous": genesis("e"), "digest": DIGESTS[0], "declaration": DIGESTS[1]}
    with pytest.raises(ValueError, match=f"{name} has {length} bytes"):
        link(clusters=CLUSTERS, **(parts | {name: bytes(length)}))


ROWS = [
    (round_, release, "client", "server", DIGESTS[round_ + release])
    for round_ in (1, 2, 3)
    for release in (0, 1)
]


def test_the_hashes_of_a_ledger_and_of_a_salt_are_known_ones():
    hashed = hashlib.sha256(b"fedaudit-ledger-hash-1\x00")
    for round_, release, kind, observer, own in ROWS:
        hashed.update(struct.pack("<QQ", round_, release) + text(kind) + text(observer))
        hashed.update(counted(32) + own)
    assert ledger_hash(ROWS) == hashed.hexdigest()
    assert salt_hash(SALT) == hashlib.sha256(b"fedaudit-ledger-salt-1\x00" + SALT).hexdigest()


@given(st.permutations(ROWS))
def test_the_ledger_hash_does_not_depend_on_the_order_of_rows(rows):
    assert ledger_hash(rows) == ledger_hash(ROWS)
