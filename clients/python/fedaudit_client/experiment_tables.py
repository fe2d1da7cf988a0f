"""Calls on the tables of an experiment: its ledger, its rounds, its fairness figures."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from fedaudit_client.errors import UnreachableError
from fedaudit_client.events import LineReader
from fedaudit_client.exported_table import ExportedTable
from fedaudit_client.http.answers import Json, content
from fedaudit_client.http.calls import Calls, call, stream
from fedaudit_client.http.request import Request, experiment_path

Table = Literal["ledger", "rounds", "fairness"]

_TABLES: dict[Table, str] = {
    "ledger": "privacy-ledger",
    "rounds": "rounds",
    "fairness": "fairness",
}


class TableCalls(Calls):
    """What can be had of an experiment's tables, row by row or whole."""

    @stream
    def export(
        self,
        experiment_id: str,
        table: Table,
        *,
        form: Literal["csv", "ndjson", "parquet"] = "ndjson",
    ) -> AsyncGenerator[bytes, None]:
        """A whole table as the bytes of a file, as they come."""
        return self._wire.read(_file(experiment_id, table, form))

    @stream
    def record_table(self, experiment_id: str) -> AsyncGenerator[bytes, None]:
        """What every record of a `record-personalised` run spent, as the bytes of a CSV file."""
        path = f"{experiment_path(experiment_id)}/record-table"
        return self._wire.read(Request("GET", path, content))

    @stream
    async def rows(self, experiment_id: str, table: Table) -> AsyncGenerator[Json, None]:
        """Every row of a table."""
        reader = LineReader()
        async with aclosing(self._wire.read(_file(experiment_id, table, "ndjson"))) as chunks:
            async for chunk in chunks:
                for line in reader.read(chunk):
                    yield _decoded(line)

    @call
    def privacy_ledger(
        self,
        experiment_id: str,
        *,
        client: str | None = None,
        round_from: int | None = None,
        round_to: int | None = None,
    ) -> Request[ExportedTable]:
        """Who spent what in which round: `.to_arrow()`, `.to_pandas()`, `.parquet`.

        Confidential: it names clients. The whole table is held in memory.
        """
        asked = {"client": client, "round_from": round_from, "round_to": round_to}
        return _whole(experiment_id, "ledger", asked)

    @call
    def rounds(self, experiment_id: str) -> Request[ExportedTable]:
        """The figures of each round: `.to_arrow()`, `.to_pandas()`, `.parquet`."""
        return _whole(experiment_id, "rounds", {})

    @call
    def fairness(self, /, experiment_id: str, **filters: Any) -> Request[ExportedTable]:
        """The fairness figures of each round: `.to_arrow()`, `.to_pandas()`, `.parquet`.

        The filters are the service's query parameters, as `attribute="sex"`.
        """
        return _whole(experiment_id, "fairness", filters)


def _file(experiment_id: str, table: Table, form: str) -> Request[bytes]:
    return Request("GET", f"{experiment_path(experiment_id)}/{_TABLES[table]}.{form}", content)


def _whole(experiment_id: str, table: Table, filters: dict[str, Any]) -> Request[ExportedTable]:
    path = f"{experiment_path(experiment_id)}/{_TABLES[table]}.parquet"
    return Request("GET", path, lambda answer: ExportedTable(content(answer)), params=filters)


def _decoded(line: str) -> Json:
    try:
        row: Json = json.loads(line)
    except ValueError as error:
        raise UnreachableError(
            f"the service sent a row that is no JSON: {error}", is_temporary=False
        ) from None
    return row
