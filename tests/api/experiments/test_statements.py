"""How many statements submissions take: they must not grow with what was submitted before."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event

from tests.api.budgets.test_epsilon_budgets import central, set_total
from tests.api.service import Api, spec


@contextmanager
def counted(api: Api) -> Iterator[list[str]]:
    """The statements that the API sends meanwhile."""
    found: list[str] = []
    engine = api.client.app.state.resources.database.engine  # type: ignore[attr-defined]

    def note(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        # Not of sessions that only read: the schema is looked at now and then.
        if "sqlite_begin" not in connection.get_execution_options():
            found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_statements_grow_neither_with_history_nor_with_cells(api: Api) -> None:
    set_total(api, api.submit(central())["federation_id"], 1e6)
    api.submit(central())
    with counted(api) as early:
        api.submit(central())
    for _ in range(5):
        api.submit(central())
    with counted(api) as late:
        api.submit(central())
    assert len(late) == len(early) <= 25

    sent = {}
    for cells in (2, 6):
        grid = {"tags": [[f"{cells} {place}"] for place in range(cells)]}
        asked = {"name": "cells", "base": central(), "grid": grid}
        with counted(api) as found:
            assert api.post("/v1/sweeps", json=asked).status_code == 202
        sent[cells] = len(found)
    assert sent[2] == sent[6] <= 33


def test_the_totals_of_a_sweep_are_those_of_its_cells_one_by_one(api_on_both: Api) -> None:
    api = api_on_both
    base = spec(privacy={"radius": 0.5, "clip": 1.0})
    federation = api.submit(base)["federation_id"]
    path = f"/v1/federations/{federation}/budget"
    alone = {one["figure"]: one["reserved"] for one in api.get(path).json()["items"]}
    asked = {"name": "cells", "base": base, "grid": {"tags": [["a"], ["b"], ["c"]]}}
    assert api.post("/v1/sweeps", json=asked).status_code == 202
    reserved = {one["figure"]: one["reserved"] for one in api.get(path).json()["items"]}
    assert reserved == {figure: 4 * amount for figure, amount in alone.items()}
    assert reserved.keys() == {"leakage", "log_ratio"}
