"""The hash chain and the ledger hash."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.ledger.encoding import genesis, ledger_hash, link
from tests.ledger.whole_chain import first_broken_link

CLUSTERS = np.array([1, -1, 0], np.int16)
DIGESTS = [hashlib.sha256(bytes([number])).digest() for number in range(5)]


def chained(experiment_id: str) -> list[tuple[bytes, np.ndarray, bytes]]:
    previous, links = genesis(experiment_id), []
    for digest in DIGESTS:
        previous = link(previous, digest, CLUSTERS)
        links.append((digest, CLUSTERS, previous))
    return links


def test_the_first_link_is_a_known_hash():
    first = hashlib.sha256(b"fedaudit-ledger-genesis-1\x00" + b"experiment").digest()
    assert genesis("experiment") == first
    clusters = b"\x01\x00\xff\xff\x00\x00"
    second = hashlib.sha256(b"fedaudit-ledger-link-2\x00" + first + DIGESTS[0] + clusters).digest()
    assert link(first, DIGESTS[0], CLUSTERS) == second
    assert link(first, DIGESTS[0], CLUSTERS.astype(np.int64)) == second


def test_a_link_with_a_declaration_is_a_known_hash_and_no_other():
    first, declaration = genesis("experiment"), hashlib.sha256(b"declared").digest()
    clusters = b"\x01\x00\xff\xff\x00\x00"
    hashed = b"fedaudit-ledger-link-3\x00" + first + DIGESTS[0] + declaration + clusters
    found = link(first, DIGESTS[0], CLUSTERS, declaration=declaration)
    assert found == hashlib.sha256(hashed).digest()
    assert found != link(first, DIGESTS[0], CLUSTERS)
    with pytest.raises(ValueError, match="declaration has 31 bytes"):
        link(first, DIGESTS[0], CLUSTERS, declaration=declaration[1:])


def test_an_intact_chain_verifies():
    assert first_broken_link("e", chained("e")) is None
    assert first_broken_link("e", []) is None


@pytest.mark.parametrize("position", range(5))
def test_a_changed_entry_breaks_the_chain_where_it_stands(position):
    links = chained("e")
    forged = hashlib.sha256(b"forged").digest()
    digest, clusters, stored = links[position]
    for changed in ((forged, clusters, stored), (digest, clusters + 1, stored)):
        links[position] = changed
        assert first_broken_link("e", links) == position


def test_a_removed_a_swapped_and_a_foreign_entry_break_the_chain():
    links = chained("e")
    assert first_broken_link("e", links[:2] + links[3:]) == 2
    assert first_broken_link("e", [links[1], links[0], *links[2:]]) == 0
    assert first_broken_link("another", links) == 0


def test_links_and_digests_have_32_bytes():
    with pytest.raises(ValueError, match="digest has 3 bytes"):
        link(genesis("e"), b"abc", CLUSTERS)
    with pytest.raises(ValueError, match="previous has 0 bytes"):
        link(b"", DIGESTS[0], CLUSTERS)
    with pytest.raises(ValueError, match="digest has 33 bytes"):
        link(genesis("e"), DIGESTS[0] + b"a", CLUSTERS)


ROWS = [
    (round_, release, "client", "server", DIGESTS[round_ + release])
    for round_ in (1, 2, 3)
    for release in (0, 1)
]


@given(st.permutations(ROWS))
def test_the_ledger_hash_does_not_depend_on_the_order_of_rows(rows):
    assert ledger_hash(rows) == ledger_hash(ROWS)


@pytest.mark.parametrize("position", range(5))
def test_the_ledger_hash_depends_on_every_field(position):
    changed = list(ROWS[0])
    changed[position] = (9, 9, "population", "final_model", DIGESTS[4])[position]
    assert ledger_hash([tuple(changed), *ROWS[1:]]) != ledger_hash(ROWS)
    assert ledger_hash(ROWS[1:]) != ledger_hash(ROWS)


def test_two_entries_of_one_key_are_refused():
    with pytest.raises(ValueError, match="two entries share"):
        ledger_hash([ROWS[0], ROWS[0]])
