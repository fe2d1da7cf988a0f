"""All evidence against a run's claim as one figure, by which alarms are raised.

E-values of attacks that drew their coins and their noise anew (`fresh`) multiply: each has a mean
of at most 1 given everything before it. Those that see what the run itself drew (`run`: its trained
hypotheses, or with simulated noise everything) have that in common, and are averaged. So that no
attack that finds nothing buries what another finds, half of the stake waits for the second fresh
attack, a third for the third, and so on: with w(k) = 1 / (k (k + 1)), which add up to 1,

    evidence = (sum over k of w(k) run(k))
               * (sum over k <= n of w(k) fresh(k) ... fresh(n) + 1 / (n + 1))

and a factor without an attack is 1. In honest runs it ever reaches 1 / ALARM_LEVEL with a chance of
at most ALARM_LEVEL (Ville 1939): the second factor is a nonnegative martingale, or less, and the
first one only grows once it is there, to what is a mean of e-values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

EvidenceBasis = Literal["fresh", "run"]
"""What the chance in an e-value is over: coins and noise drawn for one attack alone, or what the
run itself drew, which its other attacks see too."""

ALARM_LEVEL = 0.01
"""The chance that a run in which every claim holds ever gets an alarm, however often it is
attacked, at most."""
_MOST = 1e12
"""Evidence is cut here, so that it stays a number."""


@dataclass(frozen=True)
class EValue:
    """What one attack found."""

    value: float
    basis: EvidenceBasis


def e_values_of(sections: Iterable[Mapping[str, Any]]) -> list[EValue]:
    """Of the attacks that have one, in their order; those of earlier versions have none.

    Raises ValueError for a figure or basis that is none.
    """
    found = []
    for section in sections:
        value: Any = section.get("e_value")
        basis: Any = section.get("e_basis")
        if value is None and basis is None:
            continue
        if type(value) not in (int, float) or not value >= 0 or basis not in ("fresh", "run"):
            raise ValueError("an attack has an e-value that is none")
        found.append(EValue(float(value), basis))
    return found


def run_evidence(found: Sequence[EValue]) -> float:
    """Against the run's claim, after these attacks on it, in their order; 1 is none."""
    of_run, chained = 0.0, 0.0
    shared = fresh = 0
    for one in found:
        match one.basis:
            case "run":
                shared += 1
                of_run += one.value / (shared * (shared + 1))
            case "fresh":
                fresh += 1
                chained = min(_MOST, one.value * (chained + 1 / (fresh * (fresh + 1))))
            case _:
                assert_never(one.basis)
    return min(_MOST, (of_run if shared else 1.0) * (chained + 1 / (fresh + 1)))


def is_alarm(evidence: float, e_value: float) -> bool:
    """Whether an attack after which the run has this evidence raises an alarm: where it adds to
    what is enough."""
    return e_value > 1 and evidence * ALARM_LEVEL >= 1 - 1e-9


def evidence_words(evidence: float) -> str:
    """For an alarm."""
    return (
        f"all attacks on this run together make {evidence:.4g}, and {1 / ALARM_LEVEL:g} or more "
        f"ever comes in at most {ALARM_LEVEL:.0%} of all runs whose claim holds, however often "
        "they are attacked"
    )
