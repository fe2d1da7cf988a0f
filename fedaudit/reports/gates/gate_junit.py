"""Evaluated gates as JUnit XML, which continuous integration shows as tests.

There is one suite per policy and one case per gate. A gate that fails is a `failure`. A gate that
lacks evidence is an `error` and not `skipped`, because skipped cases are often counted as passed.
"""

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fedaudit.reports.gates.gate_results import Evaluation, GateResults, condition
from fedaudit.reports.sections.part import FAIL, INSUFFICIENT, GateOutcome

# Characters that XML 1.0 does not allow, even escaped.
_NO_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS: dict[GateOutcome, str | None] = {
    "pass": None,
    "fail": "failure",
    "insufficient_evidence": "error",
}


def junit(results: GateResults) -> str:
    """The document, valid against the schema of Jenkins' xUnit plugin."""
    root = Element("testsuites", {"name": "fedaudit", **_counts(results)})
    for evaluation in results.evaluations:
        _add_suite(root, evaluation, results.experiment_id)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_suite(root: Element, evaluation: Evaluation, experiment_id: str) -> None:
    suite = SubElement(
        root, "testsuite", {"name": evaluation.name, **_counts(evaluation), "skipped": "0"}
    )
    properties = SubElement(suite, "properties")
    for name, value in (("experiment_id", experiment_id), ("outcome", evaluation.outcome or "")):
        SubElement(properties, "property", {"name": name, "value": _text(value)})
    for gate in evaluation.gates:
        _add_case(suite, gate, evaluation.name)


def _add_case(suite: Element, gate: Mapping[str, Any], policy: str) -> None:
    named = {"name": _text(condition(gate)), "classname": f"fedaudit.{policy}", "time": "0"}
    case = SubElement(suite, "testcase", named)
    reason, element = _text(gate["reason"]), _ELEMENTS[gate["outcome"]]
    if element is None:
        SubElement(case, "system-out").text = reason
    else:
        SubElement(case, element, {"type": gate["outcome"], "message": reason}).text = reason


def _counts(counted: GateResults | Evaluation) -> dict[str, str]:
    return {
        "tests": str(len(counted.gates)),
        "failures": str(counted.count(FAIL)),
        "errors": str(counted.count(INSUFFICIENT)),
    }


def _text(value: str) -> str:
    return _NO_CHARACTERS.sub("\ufffd", value)
