"""What attacks found after a report was signed, and how the report has to be judged then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedaudit.ledger.statements import Chained, Number
from fedaudit.reports.report import gated
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.gates import Gate


def judged_later(
    report: Mapping[str, Any], sections: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The document with later findings among its attacks, and with its gates and verdict
    recomputed. `sections`: those of every later attack, whatever it found: no one selects them, so
    the worst of several attacks of a kind decides. Raises KeyError or TypeError for a document
    without the sections of a report."""
    if not sections:
        return dict(report)
    found: dict[str, Any] = {**report, "attacks": [*(report.get("attacks") or []), *sections]}
    found |= gated([Gate.model_validate(gate) for gate in report["spec"]["gates"]], found)
    return found | judged(found)


Basis = Literal["repeated", "stored-model", "companions"]
"""What was attacked: the run, repeated to the same ledger; its stored hypotheses, where its noise
cannot be drawn again; or runs beside it alone, by today's code."""


@dataclass(frozen=True, kw_only=True)
class LaterStatement(Chained):
    """What one request for attacks found. Hashes are in hexadecimal."""

    NAME = "later-attacks"
    CALLED = "statement {} on later attacks"

    experiment_id: str
    number: Number
    """Number of the request, from 1; a number that is missing was not tried."""
    report_hash: str
    ledger_hash: str
    basis: Basis
    asked: list[Mapping[str, Any]]
    """The attacks, with every default explicit."""
    attacks: list[Mapping[str, Any]]
    """What became of each, as sections of a report."""
    asked_by: Mapping[str, Any]
    """Key and person, as they were then."""
    asked_at: str
    finished_at: str
    """Times by the clocks of the service and of the worker, in UTC."""
    code_version: str
    backend: Mapping[str, str]
