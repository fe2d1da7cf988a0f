"""Ledger entries of several components: pinned bytes, lines, rows, and what may not change."""

import hashlib
import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.chain import genesis, link
from fedaudit.ledger.columns import ledger_lines
from fedaudit.ledger.encoding import digest, encode
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.ledger.rows import BundledRow, LineReader, entry_of, to_line
from fedaudit.privacy.accounting.mechanism_parameters import (
    Component,
    MechanismParameters,
    layer_components,
)

NAMES = ("10001", "ä", "b", "a")
INPUTS = MechanismParameters(
    mechanism="laplace-l2",
    n=11,
    noise_multiplier=3.0,
    radius=None,
    radius_floor=1e-6,
    clip=None,
    noise="simulation",
    guarantee="heuristic",
    components=layer_components((8, 3)),
)
NAN = float("nan")
ABSENT = bytes.fromhex("000000000000f87f")


def an_entry(**changes: Any) -> LedgerEntry:
    fields: dict[str, Any] = {
        "round": 7,
        "release": 0,
        "subject_kind": "client",
        "observer": "server",
        "inputs": INPUTS,
        "subjects": np.array([0, 1, 3], dtype=np.int32),
        "outcomes": np.array([0, 1, 2], dtype=np.uint8),
        "radii": np.array([[0.5, 0.25], [NAN, NAN], [NAN, NAN]]),
        "releases": np.array([2, 4, 0], dtype=np.int32),
        "clusters": np.array([1, -1, -1], dtype=np.int16),
    }
    return LedgerEntry(**{**fields, **changes})


def a_row(entry: LedgerEntry, **changes: Any) -> BundledRow:
    """As it is stored: the radii of a subject side by side."""
    columns = {
        name: getattr(entry, name)
        for name in BundledRow.__dataclass_fields__
        if name not in ("inputs", "radii", "digest", "link", "declaration")
    }
    own = digest(entry, NAMES)
    stored = {
        "inputs": entry.inputs.as_dict(),
        "radii": entry.radii.ravel(),
        "digest": own,
        "link": link(genesis("x"), own, entry.clusters),
    }
    return BundledRow(**{**columns, **stored, **changes})


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def subject(name: str, outcome: int, releases: int, *figures: float | None) -> bytes:
    numbers = b"".join(ABSENT if one is None else struct.pack("<d", one) for one in figures)
    key = hashlib.sha256(name.encode()).digest()
    return key + bytes([outcome]) + struct.pack("<I", releases) + numbers


def test_the_bytes_are_those_of_the_specification() -> None:
    expected = b"".join(
        (
            b"fedaudit-ledger",
            struct.pack("<HQQ", 3, 7, 0),
            text("client"),
            text("server"),
            b"\x00",
            text("laplace-l2"),
            struct.pack("<Qd", 11, 3.0),
            ABSENT,
            struct.pack("<d", 1e-6),
            ABSENT,
            text("simulation"),
            text("heuristic"),
            struct.pack("<I", 2),
            text("layer-1") + struct.pack("<Q", 8),
            text("layer-2") + struct.pack("<Q", 3),
            struct.pack("<I", 3),
            subject("10001", 0, 2, 0.5, 8 / 1.5, 8 / 3, 0.25, 3 / 0.75, 3 / 3),
            subject("a", 2, 0, None, None, 0.0, None, None, 0.0),
            subject("ä", 1, 4, None, None, 0.0, None, None, 0.0),
        )
    )
    assert encode(an_entry(), NAMES) == expected
    assert digest(an_entry(), NAMES).hex() == PINNED


PINNED = "08aa4717da49e2affef4019009d5fc5c2e1e55feed857112af375aeffd3649ef"
"""The digest of `an_entry`; another value means another encoding, hence another version."""

RADII = np.array([[0.5, 0.25], [NAN, NAN], [NAN, NAN]])
CHANGES: list[dict[str, Any]] = [
    {"radii": RADII[:, ::-1].copy()},
    {"radii": np.nextafter(RADII, 1)},
    {"outcomes": np.array([0, 2, 2], dtype=np.uint8)},
    {"releases": np.array([3, 4, 0], dtype=np.int32)},
    {"interrupted": True},
    {"inputs": replace(INPUTS, components=(Component("a", 8), Component("layer-2", 3)))},
    {"inputs": replace(INPUTS, components=layer_components((7, 4)))},
    {"inputs": replace(INPUTS, clip=1.0)},
]


@pytest.mark.parametrize("change", CHANGES, ids=", ".join)
def test_every_change_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(an_entry(**change), NAMES) != digest(an_entry(), NAMES)


def test_a_whole_vector_is_no_single_component() -> None:
    """The same figures, but a mechanism that was asked for differently."""
    whole = an_entry(inputs=replace(INPUTS, components=None), radii=RADII[:, 0])
    single = an_entry(
        inputs=replace(INPUTS, components=layer_components((11,))), radii=RADII[:, :1]
    )
    assert encode(whole, NAMES)[15:17] == b"\x01\x00"
    assert encode(single, NAMES)[15:17] == b"\x03\x00"


def test_a_line_for_each_subject_and_component() -> None:
    lines = ledger_lines(an_entry(), NAMES)
    assert [(line["subject"], line["component"], line["outcome"]) for line in lines] == [
        (name, f"layer-{layer}", outcome)
        for name, outcome in (("10001", "released"), ("ä", "refused"), ("a", "withheld"))
        for layer in (1, 2)
    ]
    first, second, *others = lines
    figures = ("radius", "epsilon", "leakage", "leakage_total")
    assert [first[name] for name in figures] == [0.5, 8 / 1.5, 8 / 3, 2 * 8 / 3]
    assert [second[name] for name in figures] == [0.25, 3 / 0.75, 1.0, 2.0]
    assert first["leakage"] + second["leakage"] == pytest.approx(11 / 3)
    for line in others:
        assert line["radius"] is line["epsilon"] is line["leakage"] is None
        assert line["reason"]
    assert [line["leakage_total"] for line in others] == [4 * 8 / 3, 4 * 3 / 3, 0.0, 0.0]
    assert ledger_lines(an_entry(), NAMES, subject=1) == others[:2]
    assert ledger_lines(an_entry(), NAMES, subject=2) == []


def test_an_interrupted_release_has_no_radii_and_costs_all_the_same() -> None:
    entry = an_entry(
        outcomes=np.zeros(3, np.uint8), radii=np.full(INPUTS.radii_shape(3), NAN), interrupted=True
    )
    for line in ledger_lines(entry, NAMES):
        assert line["radius"] is None
        assert line["leakage"] > 0
        assert "lost with its worker" in line["reason"]


def test_a_line_of_a_bundle_gives_the_same_row_again() -> None:
    row = a_row(an_entry())
    read = LineReader().row(to_line(row))
    assert digest(entry_of(read), NAMES) == row.digest
    assert to_line(read) == to_line(row)
    assert read.radii.shape == (6,)


def test_lines_without_components_are_written_as_they_always_were() -> None:
    whole = an_entry(inputs=replace(INPUTS, components=None), radii=RADII[:, 0])
    line = json.loads(to_line(a_row(whole)))
    assert list(line["inputs"])[-1] == "accountant"
    line["inputs"]["components"] = None
    with pytest.raises(ValueError, match="not in the form"):
        LineReader().row(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def altered(row: BundledRow) -> bool:
    audit = LedgerAudit("x", NAMES, watch=())
    audit.read([row])
    return bool(audit.altered.count)


SIZED = [{"name": "layer-1", "n": 8}, {"name": "layer-2", "n": 3}]


@pytest.mark.parametrize(
    "components",
    [
        None,
        [],
        {},
        "layer-1",
        SIZED[:1],
        SIZED[::-1],
        [*SIZED, {"name": "layer-3", "n": 0}],
        [SIZED[0], {"name": "layer-1", "n": 3}],
        [SIZED[0], {"name": "layer-2", "n": 3.0}],
        [SIZED[0], {"name": "layer-2", "n": True}],
        [SIZED[0], {"name": 2, "n": 3}],
        [SIZED[0], {"name": "layer-2"}],
        [SIZED[0], {"name": "layer-2", "n": 3, "m": 1}],
        [SIZED[0], 3],
        [{"name": "layer-1", "n": 14}, {"name": "layer-2", "n": -3}],
    ],
    ids=str,
)
def test_altered_components_are_found_and_stop_nothing(components: Any) -> None:
    row = a_row(an_entry())
    assert not altered(row)
    assert altered(replace(row, inputs={**row.inputs, "components": components}))


def test_altered_radii_are_found() -> None:
    row = a_row(an_entry())
    for radii in (row.radii[:-1], row.radii[::-1], row.radii[:3], np.append(row.radii, NAN)):
        assert altered(replace(row, radii=radii))


def test_components_make_up_the_vector_of_metric_privacy() -> None:
    with pytest.raises(ValueError, match="do not add up to 11"):
        replace(INPUTS, components=layer_components((8, 4)))
    with pytest.raises(ValueError, match="only metric privacy"):
        replace(INPUTS, event="{}", delta=1e-5, adjacency="replace-one", accountant="rdp")
    with pytest.raises(ValueError, match="radii go with the components"):
        an_entry(radii=RADII[:, :1])
    with pytest.raises(ValueError, match="radii go with the components"):
        an_entry(inputs=replace(INPUTS, components=None))


def test_inputs_are_kept_as_values_of_json() -> None:
    for inputs in (INPUTS, replace(INPUTS, components=None)):
        kept = json.loads(json.dumps(inputs.as_dict()))
        assert kept == inputs.as_dict()
        assert MechanismParameters.from_dict(kept) == inputs
    # As versions before components stored them.
    older = {name: value for name, value in INPUTS.as_dict().items() if name != "components"}
    assert MechanismParameters.from_dict(older) == replace(INPUTS, components=None)
