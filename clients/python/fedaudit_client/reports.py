"""Calls on reports, on the tables of experiments and on gates."""

import io
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from fedaudit_client.errors import GatesNotPassedError, UnreachableError
from fedaudit_client.events import LineReader
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import (
    Json,
    Request,
    content,
    experiment_path,
    items,
    json_as,
    json_object,
    json_or_markdown,
    nothing,
    path_part,
    text,
)
from fedaudit_client.result_types import (
    GateResult,
    GatesEvaluation,
    ListedReport,
    Policy,
    SigningKey,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow


class ReportCalls(Calls):
    """What can be had of experiments that have ended."""

    @call
    def report(self, experiment_id: str) -> Request[Json]:
        """The report document."""
        return Request("GET", f"{experiment_path(experiment_id)}/report.json", json_object)

    @call
    def report_page(self, experiment_id: str) -> Request[str]:
        """The report as one HTML page."""
        return Request("GET", f"{experiment_path(experiment_id)}/report.html", text)

    @call
    def reading(self, experiment_id: str, name: str) -> Request[Json | str]:
        """The report in the form that its reader has to fill: JSON, or Markdown for a card.

        `name`: `registry`, `nist-800-226`, `impact-ratio` or `model-card`.
        """
        path = f"{experiment_path(experiment_id)}/report"
        return Request("GET", path, json_or_markdown, params={"reading": name})

    @stream
    def reports(self, /, **filters: Any) -> AsyncGenerator[ListedReport, None]:
        """Every report that the filters let through, with its figures, newest first.

        The filters are the service's query parameters: `attribute="sex"`, `sort="-accuracy"`,
        bounds as `**{"equalized_odds_difference[lte]": 0.1}`.
        """
        return pages(self._wire, "reports", filters, ListedReport)

    @call
    def compare(
        self,
        experiment_ids: Sequence[str],
        *,
        fairness: str | None = None,
        utility: str | None = None,
    ) -> Request[Json]:
        """Two to fifty experiments side by side, with Pareto fronts over those two figures."""
        asked = {"experiment_id": list(experiment_ids), "fairness": fairness, "utility": utility}
        return Request("GET", "comparisons", json_object, params=asked)

    @call
    def verification(self, experiment_id: str) -> Request[Json]:
        """What the service found when it checked the report against the stored ledger."""
        path = f"{experiment_path(experiment_id)}/report/verification"
        return Request("GET", path, json_object)

    @steps
    async def download_bundle(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write everything that offline verification needs into a file, as a zip."""
        request = Request("GET", f"{experiment_path(experiment_id)}/bundle", content)
        await self._wire.download(request, file)

    @call
    def signing_keys(self) -> Request[Sequence[SigningKey]]:
        """The service's public keys, also the retired ones, as the service itself gives them."""
        return Request("GET", "signing-keys", items)


class MissingLibraryError(ImportError):
    """A library is needed that this client does not bring."""


@dataclass(frozen=True)
class ExportedTable:
    """One table, as the service exports it."""

    parquet: bytes
    """The whole file; written as it is, any tool that reads Parquet takes it."""

    def to_arrow(self) -> "pyarrow.Table":
        """As a table of pyarrow. Raises MissingLibraryError where that is not installed."""
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise MissingLibraryError(
                "to_arrow() needs pyarrow, which is not installed here: pip install pyarrow"
            ) from error
        return parquet.read_table(io.BytesIO(self.parquet))

    def to_pandas(self) -> "pandas.DataFrame":
        """As a data frame of pandas. Raises MissingLibraryError where pandas or pyarrow lacks."""
        try:
            import pandas  # noqa: F401 said here, rather than by pyarrow
        except ImportError as error:
            raise MissingLibraryError(
                "to_pandas() needs pandas and pyarrow: pip install pandas pyarrow"
            ) from error
        return self.to_arrow().to_pandas()


Table = Literal["ledger", "rounds", "fairness"]

_TABLES: dict[Table, str] = {"ledger": "privacy-ledger", "rounds": "rounds", "fairness": "fairness"}


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


class GateCalls(Calls):
    """What can be done with gates."""

    @call
    def evaluate_gates(
        self,
        experiment_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> Request[GatesEvaluation]:
        """Whether the experiment meets these gates, or a stored policy's; else its own."""
        return _evaluation(experiment_id, gates, policy)

    @steps
    async def require_gates(
        self,
        experiment_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> GatesEvaluation:
        """As `evaluate_gates`, for pipelines: gives the evaluation only where it passed.

        Raises GatesNotPassedError where a gate failed, lacks evidence, or where there is none.
        """
        found = await self._wire.send(_evaluation(experiment_id, gates, policy))
        if found["outcome"] != "pass" or not found["gates"]:
            outcome = found["outcome"] if found["gates"] else None
            raise GatesNotPassedError(
                experiment_id, outcome, [_told(one) for one in found["gates"]]
            )
        return found

    @stream
    def policies(self) -> AsyncGenerator[Policy, None]:
        """Every policy of the key's project, by name."""
        return pages(self._wire, "gates/policies", {}, Policy)

    @call
    def policy(self, name: str) -> Request[Policy]:
        """One policy."""
        return Request("GET", _policy(name), json_as(Policy))

    @call
    def put_policy(self, name: str, policy: Mapping[str, Any]) -> Request[Policy]:
        """Store a policy's `description` and `gates` under a name, or replace it."""
        return Request("PUT", _policy(name), json_as(Policy), body={"json": policy})

    @call
    def delete_policy(self, name: str) -> Request[None]:
        """Delete a policy."""
        return Request("DELETE", _policy(name), nothing)


def _evaluation(
    experiment_id: str, gates: Sequence[Mapping[str, Any]] | None, policy: str | None
) -> Request[GatesEvaluation]:
    body: Json = {"experiment_id": experiment_id}
    if gates is not None:
        body["gates"] = list(gates)
    if policy is not None:
        body["policy"] = policy
    return Request("POST", "gates/evaluations", json_as(GatesEvaluation), body={"json": body})


def _told(gate: GateResult) -> str:
    """A gate in a line of its own."""
    of = f" ({gate['attribute']})" if gate["attribute"] else ""
    value = "no value" if gate["value"] is None else gate["value"]
    reason = f": {gate['reason']}" if gate["reason"] else ""
    return f"\n  {gate['figure']}{of} {gate['outcome']}, {value}{reason}"


def _policy(name: str) -> str:
    return f"gates/policies/{path_part(name)}"
