"""An audit's report as readers of runs' reports take it."""

from collections.abc import Mapping
from typing import Any

from fedaudit.spec.audits import measuring_spec, parse_audit


def as_report_of_run(document: Mapping[str, Any]) -> dict[str, Any]:
    """The report with its columns, groups and labels where those of a run's spec stand."""
    spec = measuring_spec(parse_audit(document["spec"]))
    return {**document, "spec": spec.model_dump(mode="json")}
