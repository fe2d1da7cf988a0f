"""Nothing that departs from a registration, a policy or a floor is let through, or explained by
data."""

from functools import cache

import pytest

from tests.spec.departures import Table, recorded, tables

_KINDS = tuple(recorded())
_found = cache(tables)


def test_every_kind_of_pair_is_recorded() -> None:
    assert tuple(_found()) == _KINDS


@pytest.mark.parametrize("kind", _KINDS)
def test_every_departure_is_refused_as_recorded(kind: str) -> None:
    found: Table = _found()[kind]
    expected = recorded()[kind]
    assert {name: len(row) for name, row in found.items()} == {
        name: len(row) for name, row in expected.items()
    }
    differing = [
        (name, place, was, one)
        for name, row in found.items()
        for place, (one, was) in enumerate(zip(row, expected[name], strict=True))
        if one != was
    ]
    assert differing[:3] == []


@pytest.mark.parametrize("kind", _KINDS)
def test_the_table_refuses_and_admits(kind: str) -> None:
    outcomes = [one for row in _found()[kind].values() for one in row]
    assert [] in outcomes
    assert any(outcomes)


def test_no_departure_quotes_data() -> None:
    faults = [
        fault
        for table in _found().values()
        for row in table.values()
        for outcome in row
        for fault in outcome
    ]
    assert {of_spec for _, _, of_spec in faults} == {True}
