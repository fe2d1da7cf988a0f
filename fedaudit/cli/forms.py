"""The forms in which commands write what they fetch."""

from typing import Literal

ReportForm = Literal["json", "html", "pdf", "text"]
GateForm = Literal["text", "json", "junit", "markdown"]
TableName = Literal["ledger", "rounds", "fairness", "records"]
TableForm = Literal["csv", "ndjson", "parquet"]
