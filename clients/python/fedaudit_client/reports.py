"""Calls on reports, tables, gates, audits of predictions, and attacks after the report."""

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Literal

import httpx

from fedaudit_client import wire
from fedaudit_client.errors import GatesNotPassedError
from fedaudit_client.experiments import ENDED, whole_lines

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True)
class ExportedTable:
    """One table, as the service exports it."""

    parquet: bytes
    """A complete Parquet file."""

    def to_arrow(self) -> "pyarrow.Table":
        """Return a table of pyarrow, which has to be installed.

        In a ledger `epsilon` is null where it has no delta: that of metric privacy is another
        figure, and is `metric_epsilon` here.
        """
        import pyarrow
        from pyarrow import compute, parquet

        table = parquet.read_table(io.BytesIO(self.parquet))
        if not {"epsilon", "delta"} <= {*table.column_names}:
            return table
        place, stated = table.column_names.index("epsilon"), table["epsilon"]
        of_metric, nothing = table["delta"].is_null(), pyarrow.scalar(None, stated.type)
        counted = compute.if_else(of_metric, nothing, stated)
        metric = compute.if_else(of_metric, stated, nothing)
        table = table.set_column(place, "epsilon", counted)
        return table.add_column(place + 1, "metric_epsilon", metric)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a data frame; pandas and pyarrow have to be installed."""
        return self.to_arrow().to_pandas()


Table = Literal["ledger", "rounds", "fairness"]


def _table(experiment_id: str, table: Table, form: str) -> str:
    name = "privacy-ledger" if table == "ledger" else table
    return wire.path_of(f"experiments/{{}}/{name}.{form}", experiment_id)


def _exported(response: httpx.Response) -> ExportedTable:
    if not response.content.startswith(b"PAR1"):
        raise wire.foreign(response.url, response.content)
    return ExportedTable(response.content)


def _gate_line(gate: wire.Json) -> str:
    of = f" ({gate['attribute']})" if gate["attribute"] else ""
    value = "no value" if gate["value"] is None else gate["value"]
    reason = f": {gate['reason']}" if gate["reason"] else ""
    return f"\n  {gate['figure']}{of} {gate['outcome']}, {value}{reason}"


class ReportCalls(wire.Calls):
    """Calls on reports and tables of experiments, gates, audits of predictions, and attacks."""

    def report(self, experiment_id: str) -> wire.Json:
        """The report document."""
        return self._got("experiments/{}/report.json", experiment_id)

    def report_page(self, experiment_id: str, *, appendix: bool = False) -> str:
        """The report as one HTML page; `appendix`: with the figures of every round."""
        path = wire.path_of("experiments/{}/report.html", experiment_id)
        return self._send("GET", path, wire.text, params=wire.stated(appendix=appendix or None))

    def reading(self, experiment_id: str, name: str) -> wire.Json | str:
        """The report in a published form: JSON, or Markdown for a model card.

        `name`: `registry`, `nist-800-226`, `impact-ratio`, `model-card`, `annex-iv` or
        `edpb-28-2024`.
        """
        path = wire.path_of("experiments/{}/report/readings/{}", experiment_id, name)
        return self._send("GET", path, wire.json_or_markdown)

    def download_bundle(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the bundle for offline verification, a zip, into a file."""
        self._save(file, "experiments/{}/bundle", experiment_id)

    def download_dossier(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the dossier, a zip with document, page, PDF, report and sign-offs, into a file."""
        self._save(file, "experiments/{}/dossier", experiment_id)

    def export(
        self,
        experiment_id: str,
        table: Table,
        *,
        form: Literal["csv", "ndjson", "parquet"] = "ndjson",
    ) -> Generator[bytes, None, None]:
        """A whole table as the bytes of a file, as they arrive."""
        return self._read(_table(experiment_id, table, form))

    def rows(self, experiment_id: str, table: Table) -> Generator[wire.Json, None, None]:
        """Every row of a table."""
        path = _table(experiment_id, table, "ndjson")
        address = f"{self.url}/v1/{path}"
        with closing(self._read(path)) as chunks:
            # An unfinished line counts, or a page of HTML would be a table without rows.
            for line in filter(None, whole_lines(chain(chunks, [b"\n"]))):
                yield wire.json_value(line, address)

    def privacy_ledger(self, /, experiment_id: str, **filters: Any) -> ExportedTable:
        """Who spent what in which round: `.to_arrow()`, `.to_pandas()`, `.parquet`.

        The filters are the service's query parameters: `client`, `round_from`, `round_to`.
        Confidential: it names clients. The whole table is held in memory.
        """
        return self._whole(experiment_id, "ledger", **filters)

    def rounds(self, experiment_id: str) -> ExportedTable:
        """The figures of each round: `.to_arrow()`, `.to_pandas()`, `.parquet`."""
        return self._whole(experiment_id, "rounds")

    def fairness(self, /, experiment_id: str, **filters: Any) -> ExportedTable:
        """The fairness figures of each round: `.to_arrow()`, `.to_pandas()`, `.parquet`.

        The filters are the service's query parameters, as `attribute="sex"`.
        """
        return self._whole(experiment_id, "fairness", **filters)

    def _whole(self, experiment_id: str, table: Table, /, **filters: Any) -> ExportedTable:
        path = _table(experiment_id, table, "parquet")
        return self._send("GET", path, _exported, params=wire.stated(**filters))

    def evaluate_gates(
        self, experiment_id: str, gates: Sequence[Mapping[str, Any]] | None = None
    ) -> wire.Json:
        """Whether the experiment passes these gates, or otherwise its own."""
        body: wire.Json = {"experiment_id": experiment_id}
        if gates is not None:
            body["gates"] = list(gates)
        parse = wire.json_with("outcome", "gates")
        return self._send("POST", "gates/evaluations", parse, json=body, repeatable=True)

    def require_gates(
        self, experiment_id: str, gates: Sequence[Mapping[str, Any]] | None = None
    ) -> wire.Json:
        """Evaluate gates for pipelines: return the evaluation only if it passed.

        Raises GatesNotPassedError if a gate failed or lacks evidence, or there is no gate.
        """
        found = self.evaluate_gates(experiment_id, gates)
        if found["outcome"] != "pass" or not found["gates"]:
            outcome = found["outcome"] if found["gates"] else None
            lines = [_gate_line(one) for one in found["gates"]]
            raise GatesNotPassedError(experiment_id, outcome, lines)
        return found

    def submit_audit(
        self, spec: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> wire.Json:
        """Queue an audit; returns it. Nothing is trained.

        Repeated after a lost answer, as `submit` is.
        """
        return self._posted("audits", json=dict(spec), **wire.once(idempotency_key))

    def wait_audit(self, audit_id: str, *, patience_seconds: float = 60.0) -> wire.Json:
        """The audit, once it has `succeeded` or `failed`.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        return self._awaited("audits/{}", audit_id, until=ENDED, patience_seconds=patience_seconds)

    def audit_report(self, audit_id: str) -> wire.Json:
        """The report document of an audit."""
        return self._got("audits/{}/report.json", audit_id)

    def download_audit_bundle(self, audit_id: str, file: IO[bytes]) -> None:
        """Write the bundle for offline verification, a zip, into a file."""
        self._save(file, "audits/{}/bundle", audit_id)

    def attack(
        self,
        experiment_id: str,
        attacks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> wire.Json:
        """Attack an experiment that has succeeded: its report stays, and the findings count.

        `attacks`: as in a spec. Repeated after a lost answer, as `submit` is.
        """
        body, again = {"attacks": [dict(one) for one in attacks]}, wire.once(idempotency_key)
        return self._posted("experiments/{}/attacks", experiment_id, json=body, **again)

    def later_attacks(self, experiment_id: str) -> wire.Json:
        """Every request for attacks after the report was signed, oldest first, as `items`."""
        return self._got("experiments/{}/attacks/later", experiment_id)

    def wait_attack(
        self, experiment_id: str, later_id: str, *, patience_seconds: float = 60.0
    ) -> wire.Json:
        """The request, once it has ended.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        path = "experiments/{}/attacks/later/{}"
        return self._awaited(
            path, experiment_id, later_id, until=ENDED, patience_seconds=patience_seconds
        )
