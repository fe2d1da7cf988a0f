"""Results of the gates of one experiment, policy by policy: as a dictionary, JUnit or Markdown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fedaudit.number_text import at_most, plain, table
from fedaudit.reports.sections.part import FAIL, INSUFFICIENT, PASS, GateOutcome
from fedaudit.spec.gates import PLAIN_FIGURES, GateOp

COSTS = frozenset(name for name, row in PLAIN_FIGURES.items() if row.rests_on_guarantee)
WORST_FIRST: tuple[GateOutcome, ...] = (FAIL, INSUFFICIENT, PASS)
OUTCOME_WORDS: dict[GateOutcome, str] = {
    "pass": "passed",
    "fail": "failed",
    "insufficient_evidence": "not enough evidence",
}
_TITLES: dict[GateOutcome, tuple[str, str | None]] = {
    "pass": ("The gates passed", None),
    "fail": ("The gates failed", "failure"),
    "insufficient_evidence": ("There is not enough evidence for the gates", "error"),
}
"""In Markdown, and as elements of JUnit. Missing evidence is not `skipped`: skipped cases often
count as passed."""
_SIGNS: dict[GateOp, str] = {"le": "<=", "ge": ">="}
Gates = Sequence[Mapping[str, Any]]
"""Gates as they were evaluated."""
# Characters that XML 1.0 does not allow, even escaped.
_NO_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_value(figure: str, value: float, *, digits: int = 4) -> str:
    """A gate's figure in so many digits, a cost rounded up, as everywhere."""
    return at_most(value, digits=digits) if figure in COSTS else f"{value:.{digits}g}"


def overall(evaluated: Gates) -> GateOutcome | None:
    """The worst outcome: a failure before missing evidence before a pass; None without gates."""
    outcomes = {gate["outcome"] for gate in evaluated}
    return next((one for one in WORST_FIRST if one in outcomes), None)


@dataclass(frozen=True)
class GateResults:
    """All gates that an experiment was evaluated against, by their policies in order; the name of
    a policy is None for gates without one."""

    experiment_id: str
    evaluations: Sequence[tuple[str | None, Gates]]

    @property
    def gates(self) -> Gates:
        """All gates, policy by policy."""
        return [gate for _, gates in self.evaluations for gate in gates]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able: all gates in `gates`, each with its policy, and by policy in `evaluations`."""
        outcome = overall(self.gates)
        return {
            "experiment_id": self.experiment_id,
            "outcome": outcome,
            "reason": None if outcome else "no gate was given",
            "gates": [{"policy": name, **gate} for name, own in self.evaluations for gate in own],
            "evaluations": [
                {"policy": name, "outcome": overall(own), "gates": [*own]}
                for name, own in self.evaluations
            ],
        }


def condition(gate: Mapping[str, Any]) -> str:
    """The condition of an evaluated gate, such as `equalized_odds_difference (sex) <= 0.1`."""
    about = f" ({gate['attribute']})" if gate["attribute"] else ""
    return f"{gate['figure']}{about} {_SIGNS[gate['op']]} {gate['bound']:g}"


def junit(results: GateResults) -> str:
    """JUnit XML, valid against the schema of Jenkins' xUnit plugin: a suite per policy, a case per
    gate."""
    root = Element("testsuites", {"name": "fedaudit", **_counts(results.gates)})
    for name, gates in results.evaluations:
        policy = name or "gates"
        named = {"name": policy, **_counts(gates), "skipped": "0"}
        suite = SubElement(root, "testsuite", named)
        properties = SubElement(suite, "properties")
        stated = {"experiment_id": results.experiment_id, "outcome": overall(gates) or ""}
        for field, value in stated.items():
            SubElement(properties, "property", {"name": field, "value": _xml_text(value)})
        for gate in gates:
            named = {"name": _xml_text(condition(gate)), "classname": f"fedaudit.{policy}"}
            case = SubElement(suite, "testcase", {**named, "time": "0"})
            reason, element = _xml_text(gate["reason"]), _TITLES[gate["outcome"]][1]
            if element is None:
                SubElement(case, "system-out").text = reason
            else:
                stated = {"type": gate["outcome"], "message": reason}
                SubElement(case, element, stated).text = reason
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _counts(gates: Gates) -> dict[str, str]:
    counted = {"failures": _count(gates, FAIL), "errors": _count(gates, INSUFFICIENT)}
    return {name: str(count) for name, count in {"tests": len(gates), **counted}.items()}


def _count(gates: Gates, outcome: GateOutcome) -> int:
    return sum(gate["outcome"] == outcome for gate in gates)


def _xml_text(value: str) -> str:
    return _NO_CHARACTERS.sub("\ufffd", value)


def markdown(results: GateResults) -> str:
    """A comment on a change request: the overall outcome, and one table per policy."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: GateResults) -> Iterator[str]:
    every = results.gates
    outcome = overall(every)
    yield f"## {'No gate was given' if outcome is None else _TITLES[outcome][0]}"
    yield ""
    counts = [f"{_count(every, one)} {word}" for one, word in OUTCOME_WORDS.items()]
    yield f"Experiment {_shown(results.experiment_id)}: {', '.join(counts)}."
    for policy, gates in results.evaluations:
        yield ""
        if policy is not None:
            yield f"### {_shown(policy)}"
            yield ""
        yield from table(("Outcome", "Gate", "Figure", "Why"), map(_row, gates))
    if _count(every, INSUFFICIENT):
        yield ""
        yield "A gate without enough evidence has neither passed nor failed."


def _row(gate: Mapping[str, Any]) -> tuple[str, ...]:
    word, value = OUTCOME_WORDS[gate["outcome"]], gate["value"]
    return (
        word if gate["outcome"] == PASS else f"**{word}**",
        _shown(condition(gate)),
        "–" if value is None else gate_value(gate["figure"], value),
        _shown(gate["reason"]),
    )


def _shown(text: str) -> str:
    """The text escaped; a name with an at sign does not notify anyone."""
    return plain(text).replace("@", "@<!-- -->")
