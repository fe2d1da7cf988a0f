"""A signed report as it has to be judged once attacks were carried out on its run.

The report itself does not change: whoever decides something by it decides by this.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.reports.verdict.verdict import verdict, verdict_parts
from fedaudit.spec.gates import Gate


def judged_later(
    report: Mapping[str, Any], sections: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The document with what was found later among its attacks, and its gates and verdict anew.

    `sections`: of every later attack, whatever it found: nobody chooses among them, so that of
    several attacks of a kind the worst decides. Raises KeyError or TypeError for a document
    without the sections of a report.
    """
    if not sections:
        return dict(report)
    found: dict[str, Any] = {**report, "attacks": [*(report.get("attacks") or []), *sections]}
    gates = [Gate.model_validate(gate) for gate in report["spec"]["gates"]]
    found["gates"] = evaluate(gates, found)
    found["gate_outcome"] = overall(found["gates"])
    parts = verdict_parts(found)
    return found | {"verdict": verdict(parts), "verdict_parts": parts.model_dump()}
