"""Results of the gates of one experiment, policy by policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.reports.gates.gate_evaluation import overall
from fedaudit.reports.sections.part import GateOutcome
from fedaudit.spec.gates import GateOp

OUTCOME_WORDS: dict[GateOutcome, str] = {
    "pass": "passed",
    "fail": "failed",
    "insufficient_evidence": "not enough evidence",
}
_SIGNS: dict[GateOp, str] = {"le": "<=", "ge": ">="}
_UNNAMED = "gates"


@dataclass(frozen=True)
class Evaluation:
    """The evaluated gates of one policy; its name is None for gates without a policy."""

    policy: str | None
    gates: tuple[Mapping[str, Any], ...]
    """As returned by `reports.gates.evaluate`."""

    @property
    def name(self) -> str:
        """The policy's display name."""
        return self.policy or _UNNAMED

    @property
    def outcome(self) -> GateOutcome | None:
        """The worst outcome; None without gates."""
        return overall(self.gates)

    def count(self, outcome: GateOutcome) -> int:
        """The number of gates with this outcome."""
        return sum(gate["outcome"] == outcome for gate in self.gates)


@dataclass(frozen=True)
class GateResults:
    """All gates that an experiment was evaluated against."""

    experiment_id: str
    evaluations: tuple[Evaluation, ...]

    @property
    def gates(self) -> tuple[Mapping[str, Any], ...]:
        """All gates, policy by policy."""
        return tuple(gate for one in self.evaluations for gate in one.gates)

    @property
    def outcome(self) -> GateOutcome | None:
        """The worst outcome; None without gates."""
        return overall(self.gates)

    def count(self, outcome: GateOutcome) -> int:
        """The number of gates with this outcome."""
        return sum(one.count(outcome) for one in self.evaluations)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able: all gates in `gates`, each with its policy, and by policy in `evaluations`."""
        return {
            "experiment_id": self.experiment_id,
            "outcome": self.outcome,
            "reason": None if self.outcome else "no gate was given",
            "gates": [
                {"policy": one.policy, **gate} for one in self.evaluations for gate in one.gates
            ],
            "evaluations": [
                {
                    "policy": one.policy,
                    "outcome": one.outcome,
                    "gates": [dict(gate) for gate in one.gates],
                }
                for one in self.evaluations
            ],
        }


def condition(gate: Mapping[str, Any]) -> str:
    """The condition of an evaluated gate, such as `equalized_odds_difference (sex) <= 0.1`."""
    about = f" ({gate['attribute']})" if gate["attribute"] else ""
    return f"{gate['figure']}{about} {_SIGNS[gate['op']]} {gate['bound']:g}"
