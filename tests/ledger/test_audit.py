"""Reading a stored ledger: what no digest covers may not stand in a row either."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedaudit.ledger.audit import LedgerAudit, Places
from fedaudit.ledger.columns import misfits
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.ledger.rows import LineReader, UnreadableRow, to_line
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, layer_components
from fedaudit.stored import LedgerRow
from tests.ledger.single_entry import SingleEntry, columns_of, digest_of, link

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


def row_of(inputs: MechanismParameters = INPUTS) -> LedgerRow:
    """The only row of a ledger in which a delta is spent."""
    row = LedgerRow(
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
    digest = digest_of(EntryEncoder(NAMES), row)
    return replace(row, digest=digest, link=link(genesis(ID), digest, row.clusters))


def altered(row: LedgerRow) -> int:
    """How many rows do not have what their digests say."""
    audit = LedgerAudit(ID, NAMES, watch=())
    audit.read([row])
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
    digest = digest_of(EntryEncoder(NAMES), row)
    row = replace(row, digest=digest)
    assert altered(row) == 0
    assert altered(replace(row, inputs={**row.inputs, **stray})) == 1


def chain(rounds: int = 4) -> list[LedgerRow]:
    """A ledger of some rounds, in the second of which the second client was refused."""
    rows, head, releases = [], genesis(ID), np.zeros(2, dtype=np.int32)
    for number in range(1, rounds + 1):
        outcomes = np.array([0, 1 if number == 2 else 0], np.int16)
        releases = releases + (outcomes == 0).astype(np.int32)
        row = replace(row_of(), round=number, outcomes=outcomes, releases=releases)
        rows.append(sealed(row, head))
        head = rows[-1].link
    return rows


def sealed(row: LedgerRow, head: bytes) -> LedgerRow:
    """The row with the digest and link that belong to it."""
    digest = digest_of(EntryEncoder(NAMES), row)
    return replace(row, digest=digest, link=link(head, digest, row.clusters))


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


def test_counts_run_for_each_observer() -> None:
    first = chain(1)[0]
    other = sealed(replace(first, observer="third-party"), first.link)
    assert audited([first, other]).miscounted.count == 0


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
        {"subjects": np.array([0, 2], np.int32)},
        {"subjects": np.array([1, 1], np.int32)},
        {"subjects": np.array([1, 0], np.int32)},
        {"subjects": np.array([0], np.int32)},
        {"radii": np.array([np.nan, 0.5])},
        {"radii": np.full(3, np.nan)},
        {"releases": np.array([7, 7], np.int32)},
        {"clusters": np.array([1, 0], np.int16)},
        {"epsilons": None},
        {"inputs": {**INPUTS.as_dict(), "n": 12}},
        {"inputs": {**INPUTS.as_dict(), "unknown": 1}},
        {"inputs": {**INPUTS.as_dict(), "radius": 0.5}},
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
    everybody = {
        "subject_kind": "validation_client",
        **{
            name: getattr(rows[0], name)[:1]
            for name in ("subjects", "outcomes", "releases", "clusters")
        },
    }
    forged = replace(rows[0], **everybody, radii=rows[0].radii[:1], epsilons=np.ones(1))
    assert audited([forged, *rows[1:]]).altered.count == 1


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a"), (3, "a; b; c"), (4, "a; b; c and 1 more")]
)
def test_three_places_are_named_and_the_others_counted(count: int, text: str) -> None:
    places = Places()
    for place in "abcdefgh"[:count]:
        places.add(place)
    assert (places.count, str(places)) == (count, text)


@pytest.mark.parametrize("text", ["AB", "abc", "zz", "ab cd", " ab", 7])
@pytest.mark.parametrize("name", ["digest", "link"])
def test_a_hash_is_written_in_one_form(name: str, text: object) -> None:
    value = {**json.loads(to_line(row_of())), name: text}
    with pytest.raises(ValueError, match="form in which ledger lines are written"):
        LineReader().row(json.dumps(value, separators=(",", ":")).encode() + b"\n")
    assert LineReader().row(to_line(row_of())).digest == row_of().digest


def test_a_round_in_which_nobody_released_is_an_entry() -> None:
    row = replace(row_of(), outcomes=np.array([2, 1], np.int16))
    assert columns_of(row).outcomes.tolist() == [2, 1]
    for wrong in (3, 9, -1):
        with pytest.raises(ValueError, match="between 0 and 2"):
            columns_of(replace(row, outcomes=np.array([wrong, 1], np.int16)))


def declared(declaration: bytes | None) -> LedgerRow:
    """A row whose link holds what was declared beside it."""
    row = replace(row_of(), declaration=declaration)
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
    row = row_of()
    for head in (row.link, bytes(32)):
        audit = audited([replace(row, declaration=declaration, link=head)])
        assert not audit.consistent


NAN = np.nan


def entry(radii, *, outcomes=(0, 1), interrupted=False, **settings):
    """Of two clients, the second refused, with noise for each of two layers."""
    inputs = {
        "mechanism": "laplace-l2",
        "n": 3,
        "noise_multiplier": 5.0,
        "radius": None,
        "radius_floor": 0.1,
        "clip": 2.0,
        "noise": "release",
        "guarantee": "heuristic",
        "components": layer_components((2, 1)),
        **settings,
    }
    return SingleEntry(
        round=1,
        release=0,
        subject_kind="client",
        observer="server",
        inputs=MechanismParameters(**inputs),
        subjects=np.array([0, 1], np.int32),
        outcomes=np.array(outcomes, np.uint8),
        radii=np.array(radii, np.float64),
        releases=np.array([1, 0], np.int32),
        clusters=np.array([0, -1], np.int16),
        interrupted=interrupted,
    )


FIXED = {"radius": 0.5, "radius_floor": None, "guarantee": "formal"}
NONE = {
    "mechanism": "none",
    "noise_multiplier": None,
    "radius_floor": None,
    "clip": None,
    "guarantee": "none",
    "components": None,
}


@pytest.mark.parametrize(
    ("radii", "settings"),
    [
        ([[0.1, 2.0], [NAN, NAN]], {}),
        ([[0.1, 99.0], [NAN, NAN]], {"clip": None}),
        ([[1e-7 * (1 + 5e-10), 0.0], [NAN, NAN]], {"clip": 1e-7, "radius_floor": None}),
        ([[0.5, 0.5], [NAN, NAN]], FIXED),
        ([[NAN, NAN], [NAN, NAN]], {"interrupted": True}),
        ([0.7, NAN], {"components": None}),
        ([NAN, NAN], NONE),
    ],
)
def test_what_a_mechanism_gives_fits(radii, settings):
    assert not misfits(entry(radii, **settings).columns)


@pytest.mark.parametrize(
    ("radii", "settings"),
    [
        ([[0.1, 0.09], [NAN, NAN]], {}),
        ([[0.1, 2.1], [NAN, NAN]], {}),
        ([[0.1, 2 + 4e-9], [NAN, NAN]], {}),
        ([[0.1, NAN], [NAN, NAN]], {}),
        ([[0.1, np.inf], [NAN, NAN]], {"clip": None}),
        ([[0.1, 0.1], [NAN, 0.1]], {}),
        ([[0.5, 0.4], [NAN, NAN]], FIXED),
        ([[0.1, 0.1], [NAN, NAN]], {"interrupted": True}),
        ([NAN, NAN], {"components": None}),
        ([0.5, NAN], NONE),
    ],
)
def test_what_it_cannot_give_does_not(radii, settings):
    assert misfits(entry(radii, **settings).columns) == [0]
