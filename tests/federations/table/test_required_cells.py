"""Rows without a client or a target, which a spec may leave out."""

from pathlib import Path
from typing import Any

import pytest

from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import Load, Refuse
from tests.federations.registering import profile_in, refused, registration
from tests.spec.documents import TABLE, changed

GAPS = "hospital,x,cost\na,1,5\n,2,6\nb,3,\nb,4,8\n,5,\na,6,9\n"
DROPS = {"federation.missing_client": "drop-row", "federation.missing_target": "drop-row"}
NOTES = (
    "rows without a target, left out: 2",
    "rows without a client, left out: 1",
)


def test_such_rows_are_left_out_and_counted_once(load: Load, tmp_path: Path) -> None:
    found = load(DROPS, data=GAPS)
    assert found.rows == 3
    assert found.client_names == ("a", "b")
    assert found.notes == NOTES
    assert found.row_numbers is not None
    assert found.row_numbers.tolist() == [1, 6, 4]
    (tmp_path / "data.csv").write_text(GAPS)
    rules = {"missing_client": "drop-row", "missing_target": "drop-row"}
    profile = profile_in(tmp_path, registration(rules))
    assert (profile["rows"], profile["clients"]) == (3, 2)
    assert profile["notes"] == list(NOTES)


@pytest.mark.parametrize(
    ("rules", "where", "field"),
    [
        ({"missing_target": "drop-row"}, "/federation/client_key", "missing_client: drop-row"),
        ({"missing_client": "drop-row"}, "/federation/target", "missing_target: drop-row"),
    ],
)
def test_a_gap_without_a_rule_is_an_error_that_names_the_rule(
    refuse: Refuse, tmp_path: Path, rules: dict[str, Any], where: str, field: str
) -> None:
    faults = refuse({f"federation.{name}": rule for name, rule in rules.items()}, data=GAPS)
    assert field in faults[where]
    (tmp_path / "data.csv").write_text(GAPS)
    assert field in refused(tmp_path, registration(rules))[where]


def test_a_table_of_nothing_but_gaps_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    nothing = "hospital,x,cost\n,1,5\na,2,\n"
    assert "every row lacks" in refuse(DROPS, data=nothing)["/federation/target"]
    (tmp_path / "data.csv").write_text(nothing)
    rules = {"missing_client": "drop-row", "missing_target": "drop-row"}
    assert "every row lacks" in refused(tmp_path, registration(rules))["/federation/target"]


def test_the_default_rules_change_no_hash() -> None:
    plain = parse_spec(TABLE)
    said = changed(TABLE, {"federation.missing_client": "reject"})
    assert spec_hash(parse_spec(said)) == spec_hash(plain)
    dropping = changed(TABLE, {"federation.missing_client": "drop-row"})
    assert spec_hash(parse_spec(dropping)) != spec_hash(plain)
