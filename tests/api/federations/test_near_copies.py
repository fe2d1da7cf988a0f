"""A file that has mostly the rows of another one has a budget of its own, and a warning says so."""

from typing import Any

from sqlalchemy import select

from models.tables.federations import Federation, RowSketch
from tests.api.service import Api
from tests.api.uploads import REGISTRATION, spec_of, upload
from tests.workers.serving import worker_of
from workers.run_unit import run_unit

ROWS = [f"c{row % 60},{'a' if row % 2 else 'b'},{row},{7 * row % 101}" for row in range(3000)]
KEYS = ("federations:read", "federations:write", "experiments:read", "experiments:write")
REGISTERED = {**REGISTRATION, "federation": {**REGISTRATION["federation"], "features": ["age"]}}


def table(rows: list[str], header: str = "client,group,age,income") -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def register(api: Api, content: bytes, **options: Any) -> dict[str, Any]:
    """Uploads a table and lets a worker profile it; the federation as it then is."""
    found = upload(api, content, REGISTERED, **options)
    with api.database.read() as session:
        row = session.get(Federation, found["id"])
        assert row is not None
    run_unit(worker_of(api), str(row.unit_id))
    shown = api.get(f"/v1/federations/{found['id']}", **options).json()
    assert shown["status"] == "ready", shown["reasons"]
    return dict(shown)


def test_a_row_less_is_another_federation_and_a_warning(api_on_both: Api) -> None:
    api = api_on_both
    first = register(api, table(ROWS))
    assert first["warnings"] == []
    copy = register(api, table(ROWS[1:]))
    [warning] = copy["warnings"]
    assert "nearly the same rows" in warning
    assert first["id"] in warning
    assert "budgets are separate" in warning
    # It holds the other way round as well, and is told at every door.
    [back] = api.get(f"/v1/federations/{first['id']}").json()["warnings"]
    assert copy["id"] in back
    listed = api.get("/v1/federations").json()["items"]
    assert [one["warnings"] for one in listed] == [[warning], [back]]
    assert upload(api, table(ROWS[1:]), REGISTERED)["warnings"] == [warning]
    source = {"id": copy["id"], "features": ["age"]}
    assert api.submit(spec_of(source, gates=[]))["warnings"] == [warning]
    checked = api.check(spec_of(source, gates=[]))
    assert checked.json()["warnings"] == [warning]


def test_order_of_rows_and_columns_is_no_disguise(api: Api) -> None:
    first = register(api, table(ROWS))
    turned = [",".join(reversed(row.split(","))) for row in reversed(ROWS[:-5])]
    copy = register(api, table(turned, "income,age,group,client"))
    assert first["id"] in copy["warnings"][0]


def test_another_projects_content_is_not_named(api: Api) -> None:
    stranger = api.key_with(*KEYS, project="another")
    theirs = register(api, table(ROWS), key=stranger)
    [warning] = register(api, table(ROWS[:-1]))["warnings"]
    assert "other registered content" in warning
    for name in (theirs["id"], "another", theirs["name"]):
        assert name not in warning
    [back] = api.get(f"/v1/federations/{theirs['id']}", key=stranger).json()["warnings"]
    assert "other registered content" in back


def test_a_part_of_a_table_is_known_and_other_rows_are_not(api: Api) -> None:
    first = register(api, table(ROWS))
    half = register(api, table(ROWS[:1500]))
    assert first["id"] in half["warnings"][0]
    assert register(api, table([row.replace("c", "d") for row in ROWS]))["warnings"] == []


def test_a_deletion_takes_the_sketch_and_leaves_what_was_found(api: Api) -> None:
    first, copy = register(api, table(ROWS)), register(api, table(ROWS[1:]))
    assert api.request("DELETE", f"/v1/federations/{first['id']}").status_code == 204
    with api.database.read() as session:
        kept = session.scalars(select(RowSketch.federation_id)).all()
    assert kept == [copy["id"]]
    assert api.get(f"/v1/federations/{copy['id']}").json()["warnings"] == copy["warnings"]
