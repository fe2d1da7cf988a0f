"""Evaluated gates in Markdown, for a comment on a change request."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.reports.gates.gate_results import OUTCOME_WORDS, GateResults, condition
from fedaudit.reports.readings.markdown import plain, table
from fedaudit.reports.sections.part import INSUFFICIENT, PASS, GateOutcome

_TITLES: dict[GateOutcome, str] = {
    "pass": "The gates passed",
    "fail": "The gates failed",
    "insufficient_evidence": "The evidence does not suffice for the gates",
}
_NO_GATE = "No gate was given"
_HEAD = ("Outcome", "Gate", "Figure", "Why")
_NO_EVIDENCE = "Where evidence lacks, a gate has neither passed nor failed."


def markdown(results: GateResults) -> str:
    """The comment: the overall outcome, and one table per policy."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: GateResults) -> Iterator[str]:
    yield f"## {_NO_GATE if results.outcome is None else _TITLES[results.outcome]}"
    yield ""
    counts = [f"{results.count(one)} {word}" for one, word in OUTCOME_WORDS.items()]
    yield f"Experiment {_shown(results.experiment_id)}: {', '.join(counts)}."
    for evaluation in results.evaluations:
        yield ""
        if evaluation.policy is not None:
            yield f"### {_shown(evaluation.policy)}"
            yield ""
        yield from table(_HEAD, map(_row, evaluation.gates))
    if results.count(INSUFFICIENT):
        yield ""
        yield _NO_EVIDENCE


def _row(gate: Mapping[str, Any]) -> tuple[str, ...]:
    word, value = OUTCOME_WORDS[gate["outcome"]], gate["value"]
    return (
        word if gate["outcome"] == PASS else f"**{word}**",
        _shown(condition(gate)),
        "–" if value is None else f"{value:.4g}",
        _shown(gate["reason"]),
    )


def _shown(text: str) -> str:
    """The text escaped; a name with an at sign does not notify anyone."""
    return plain(text).replace("@", "@<!-- -->")
