"""Reading a stored ledger: what no digest covers may not stand in a row either."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.audit import LedgerAudit, Places
from fedaudit.ledger.columns import misfits
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.ledger.rows import LineReader, UnreadableRow, to_line
from fedaudit.stored import LedgerRow
from tests.ledger.single_entry import (
    LAYERED_INPUTS,
    NAN,
    SingleEntry,
    a_layered_entry,
    an_entry,
    an_epsilon_entry,
    digest_of,
    link,
)

ID = "01890000-0000-7000-8000-000000000000"
NAMES = ("a", "b", "c", "d")
BOTH: dict[str, Any] = {
    "subjects": np.array([0, 1], np.int32),
    "outcomes": np.array([0, 0], np.int16),
    "radii": np.full(2, NAN),
    "releases": np.array([1, 1], np.int32),
    "clusters": np.array([0, 0], np.int16),
    "epsilons": np.array([0.5, 0.5]),
}
"""Two clients that release in a round in which a delta is spent."""


def sealed(entry: SingleEntry | LedgerRow, head: bytes = b"") -> LedgerRow:
    """The row of a ledger with the digest and link that belong to it."""
    row = entry.row() if isinstance(entry, SingleEntry) else entry
    digest = digest_of(EntryEncoder(NAMES), row)
    return replace(row, digest=digest, link=link(head or genesis(ID), digest, row.clusters))


ROW = sealed(an_epsilon_entry(round=1, **BOTH))


def altered(row: LedgerRow) -> int:
    """How many rows do not have what their digests say."""
    return audited([row]).altered.count


SIZED = [{"name": "layer-1", "n": 8}, {"name": "layer-2", "n": 3}]


@pytest.mark.parametrize(
    ("entry", "strays"),
    [
        # Each encoding leaves out what its kind of entry has not, where it would go unseen.
        (an_epsilon_entry(), [{"radius": 0.25}, {"radius_floor": 1e-6}]),
        (an_entry(), [{"delta": 1e-5}, {"adjacency": "none"}, {"accountant": "rdp"}]),
        (
            a_layered_entry(),
            [
                {"components": components}
                for components in (
                    *(None, [], {}, "layer-1", SIZED[:1], SIZED[::-1]),
                    [*SIZED, {"name": "layer-3", "n": 0}],
                    [SIZED[0], {"name": "layer-1", "n": 3}],
                    [SIZED[0], {"name": "layer-2", "n": 3.0}],
                    [SIZED[0], {"name": "layer-2", "n": True}],
                    [SIZED[0], {"name": 2, "n": 3}],
                    [SIZED[0], {"name": "layer-2"}],
                    [SIZED[0], {"name": "layer-2", "n": 3, "m": 1}],
                    [SIZED[0], 3],
                    [{"name": "layer-1", "n": 14}, {"name": "layer-2", "n": -3}],
                )
            ],
        ),
    ],
    ids=["epsilon", "metric", "layers"],
)
def test_altered_inputs_are_found_and_stop_nothing(entry, strays):
    row = sealed(entry)
    assert altered(row) == 0
    for stray in strays:
        assert altered(replace(row, inputs={**row.inputs, **stray})) == 1, stray


def test_altered_radii_are_found() -> None:
    row = sealed(a_layered_entry())
    for radii in (row.radii[:-1], row.radii[::-1], row.radii[:3], np.append(row.radii, NAN)):
        assert altered(replace(row, radii=radii)) == 1
    assert altered(replace(ROW, radii=np.array([NAN, 0.25]))) == 1


def chain(rounds: int = 4) -> list[LedgerRow]:
    """A ledger of some rounds, in the second of which the second client was refused."""
    rows, head, releases = [], genesis(ID), np.zeros(2, dtype=np.int32)
    for number in range(1, rounds + 1):
        outcomes = np.array([0, 1 if number == 2 else 0], np.int16)
        releases = releases + (outcomes == 0).astype(np.int32)
        row = replace(ROW, round=number, outcomes=outcomes, releases=releases)
        rows.append(sealed(row, head))
        head = rows[-1].link
    return rows


def audited(rows: list[LedgerRow | UnreadableRow], *watch: int) -> LedgerAudit:
    audit = LedgerAudit(ID, NAMES, watch=watch)
    audit.read(rows)
    return audit


def test_an_intact_ledger_is_consistent_and_its_heads_are_its_links() -> None:
    rows = chain()
    audit = audited([*rows], 0, 2, 3)
    assert audit.consistent
    assert audit.unchained is None
    assert (audit.entries, audit.last_round) == (4, 4)
    assert audit.heads == {0: genesis(ID), 2: rows[1].link, 3: rows[2].link}
    assert audit.head == rows[3].link
    assert str(audit.altered) == ""


def test_only_the_first_break_of_the_chain_is_named() -> None:
    rows = chain()
    rows[1] = replace(rows[1], link=bytes(32))
    rows[3] = replace(rows[3], link=bytes(32))
    audit = audited([*rows])
    assert not audit.consistent
    assert audit.unchained == "round 2, release 0 (client against server)"
    # Later links follow from the right head, not from the stored one.
    assert audit.altered.count == 0


def test_rows_out_of_order_and_twice_are_disordered() -> None:
    first, second, *_ = chain()
    head = first.link
    for last in (replace(second, round=1, observer="final_model"), replace(second, round=1)):
        audit = audited([first, sealed(last, head)])
        assert audit.disordered.count == 1
        assert not audit.consistent
    assert audited([first, sealed(second, head)]).disordered.count == 0


@pytest.mark.parametrize("releases", [(2, 2), (1, 1)], ids=["too many", "too few"])
def test_counts_that_do_not_follow_from_the_releases_are_named(releases: tuple[int, int]) -> None:
    first, second, *_ = chain()
    wrong = sealed(replace(second, releases=np.array(releases, np.int32)), first.link)
    audit = audited([first, wrong])
    assert audit.miscounted.count == 1
    assert audit.altered.count == 0
    assert audit.unchained is None
    assert not audit.consistent


def test_a_row_that_cannot_be_read_breaks_the_chain_once() -> None:
    rows: list[LedgerRow | UnreadableRow] = [*chain()]
    rows[1] = UnreadableRow("line 2", "is not JSON")
    audit = audited(rows)
    assert str(audit.unreadable) == "line 2: is not JSON"
    assert audit.unchained == "line 2"
    assert audit.entries == 4
    assert not audit.consistent


def _found(audit: LedgerAudit) -> tuple[object, ...]:
    faults = (audit.unreadable, audit.altered, audit.miscounted, audit.disordered)
    heads = (audit.heads, audit.head, audit.ledger_hash, audit.erased_hash)
    return (*map(str, faults), audit.unchained, audit.entries, audit.last_round, *heads)


@pytest.mark.parametrize("erased", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"outcomes": np.array([0, 3], np.int16)},
        {"subjects": np.array([0, 4], np.int32)},
        {"subjects": np.array([1, 1], np.int32)},
        {"subjects": np.array([1, 0], np.int32)},
        {"subjects": np.array([0], np.int32)},
        {"radii": np.array([np.nan, 0.5])},
        {"radii": np.full(3, np.nan)},
        {"releases": np.array([7, 7], np.int32)},
        {"clusters": np.array([1, 0], np.int16)},
        {"epsilons": None},
        {"inputs": {**ROW.inputs, "n": 12}},
        {"inputs": {**ROW.inputs, "unknown": 1}},
        {"inputs": {**ROW.inputs, "radius": 0.5}},
        {"observer": "report"},
        {"subject_kind": "validation_client"},
        {"interrupted": True},
        {"round": -1},
        {"round": 1},
        {"digest": b""},
        {"link": bytes(32)},
        {"declaration": b"short"},
        {"declaration": bytes(32)},
    ],
    ids=lambda change: next(iter(change), "nothing"),
)
def test_rows_together_show_what_they_show_one_by_one(change, erased):
    """An altered row hides nothing of its neighbours, with which it is read in one piece."""
    rows: list[LedgerRow | UnreadableRow] = [*chain(9)]
    for altered_row in (rows, [*rows[:6], UnreadableRow("there", "is gone"), *rows[6:]]):
        altered_row[4] = replace(altered_row[4], **change)  # type: ignore[type-var]
        together, apart = (LedgerAudit(ID, NAMES, watch=(3, 5, 9), erased=erased) for _ in range(2))
        keys = [key for found in together.read(altered_row) for key in found.keys]
        alone = [key for row in altered_row for found in apart.read([row]) for key in found.keys]
        assert _found(together) == _found(apart)
        assert keys == alone
        if not erased:  # with names gone the signed statement decides on figures
            assert together.consistent == (not change and len(altered_row) == 9)


def test_a_subject_of_a_kind_that_stands_for_all_is_counted_beside_others() -> None:
    """Nothing but a forger mixes them against one observer, and verification says so."""
    rows = chain(3)
    one = {name: numbers[:1] for name, numbers in BOTH.items()}
    forged = replace(rows[0], subject_kind="validation_client", **one)
    assert audited([forged, *rows[1:]]).altered.count == 1


def test_three_places_are_named_and_the_others_counted() -> None:
    places, said = Places(), [""]
    for place in "abcd":
        places.add(place)
        said.append(str(places))
    assert said == ["", "a", "a; b", "a; b; c", "a; b; c and 1 more"]
    assert places.count == 4


@pytest.mark.parametrize("text", ["AB", "abc", "zz", "ab cd", " ab", 7])
@pytest.mark.parametrize("name", ["digest", "link"])
def test_a_hash_is_written_in_one_form(name: str, text: object) -> None:
    value = {**json.loads(to_line(ROW)), name: text}
    with pytest.raises(ValueError, match="form in which ledger lines are written"):
        LineReader().row(json.dumps(value, separators=(",", ":")).encode() + b"\n")
    assert LineReader().row(to_line(ROW)).digest == ROW.digest


def declared(declaration: bytes | None) -> LedgerRow:
    """A row whose link holds what was declared beside it."""
    row = replace(ROW, declaration=declaration)
    found = link(genesis(ID), row.digest, row.clusters, declaration=declaration)
    return replace(row, link=found)


def test_what_was_declared_beside_an_entry_stands_in_its_line_and_its_link() -> None:
    row = declared(bytes(range(32)))
    line = to_line(row)
    assert line.endswith(b'"declaration":"' + bytes(range(32)).hex().encode() + b'"}\n')
    assert to_line(LineReader().row(line)) == line
    assert audited([LineReader().row(line)]).consistent
    assert b"declaration" not in to_line(declared(None))
    for other in (None, bytes(32)):
        assert audited([replace(row, declaration=other)]).unchained is not None


@pytest.mark.parametrize("declaration", [b"", bytes(31), bytes(33)])
def test_a_declaration_of_another_length_is_none(declaration: bytes) -> None:
    for head in (ROW.link, bytes(32)):
        assert not audited([replace(ROW, declaration=declaration, link=head)]).consistent


LAYERED = replace(LAYERED_INPUTS, radius_floor=0.1, clip=2.0, noise="release")
FIXED = {"radius": 0.5, "radius_floor": None, "guarantee": "formal"}
WHOLE = {"components": None}
NONE = {
    **{"mechanism": "none", "noise_multiplier": None, "radius_floor": None},
    **{"clip": None, "guarantee": "none", "components": None},
}
REFUSED = [NAN, NAN]


@pytest.mark.parametrize(
    ("radii", "settings", "fits"),
    [
        ([[0.1, 2.0], REFUSED], {}, True),
        ([[0.1, 99.0], REFUSED], {"clip": None}, True),
        ([[1e-7 * (1 + 5e-10), 0.0], REFUSED], {"clip": 1e-7, "radius_floor": None}, True),
        ([[0.5, 0.5], REFUSED], FIXED, True),
        ([REFUSED, REFUSED], {"interrupted": True}, True),
        ([0.7, NAN], WHOLE, True),
        ([NAN, NAN], NONE, True),
        ([[0.1, 0.09], REFUSED], {}, False),
        ([[0.1, 2.1], REFUSED], {}, False),
        ([[0.1, 2 + 4e-9], REFUSED], {}, False),
        ([[0.1, NAN], REFUSED], {}, False),
        ([[0.1, np.inf], REFUSED], {"clip": None}, False),
        ([[0.1, 0.1], [NAN, 0.1]], {}, False),
        ([[0.5, 0.4], REFUSED], FIXED, False),
        ([[0.1, 0.1], REFUSED], {"interrupted": True}, False),
        ([NAN, NAN], WHOLE, False),
        ([0.5, NAN], NONE, False),
    ],
)
def test_radii_fit_what_a_mechanism_gives(radii, settings, fits):
    """Of two clients, the second refused."""
    changes = dict(settings)
    interrupted = changes.pop("interrupted", False)
    entry = an_entry(
        **{**BOTH, "outcomes": np.array([0, 1], np.uint8), "radii": np.array(radii)},
        inputs=replace(LAYERED, **changes),
        interrupted=interrupted,
    )
    assert misfits(replace(entry, epsilons=None).columns) == ([] if fits else [0])
