"""The values that options may have: forms of what commands write, and other fixed choices."""

from typing import Literal

ReportForm = Literal["json", "html", "pdf", "text"]
GateForm = Literal["text", "json", "junit", "markdown"]
TableName = Literal["ledger", "rounds", "fairness", "records"]
TableForm = Literal["csv", "ndjson", "parquet"]
SweepTableForm = Literal["text", "json", "csv", "markdown"]
NoiseMode = Literal["release", "simulation"]
AdjacencyName = Literal["add-or-remove-one", "replace-one"]
