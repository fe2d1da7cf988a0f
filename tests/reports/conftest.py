"""The material of a small finished run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.privacy.accounting.privacy_events import MechanismParameters, unbounded_inputs
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.sections.part import VerdictParts
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted
from tests.fairness.disclosures import with_disclosures
from tests.utility.comparisons import useful_model

ALLOWED = {"allow_heuristic": True, "allow_simulation": True}
SPEC: dict[str, Any] = {
    "name": "<script>alert(1)</script>",
    "seed": 3,
    "federation": {"source": "synthetic-groups", "clients_per_group": [40, 20]},
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "hypotheses": 2, "rounds": 50, "cohort": {"clients": 7}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5},
    "fairness": {
        "sensitive": ["group"],
        "favourable": {"op": "ge", "value": 0},
        "intervals": {"samples": 200},
    },
    "gates": [
        {"figure": "leakage_max", "op": "le", "value": 4, **ALLOWED},
        {"figure": "equalized_odds_difference", "op": "le", "value": 0.01},
    ],
}


def verdict_parts(report: dict[str, Any]) -> VerdictParts:
    """The four parts of its verdict."""
    return VerdictParts.model_validate(judged(report)["verdict_parts"])


def counts_of_clients() -> np.ndarray:
    """Thirty validation clients of ten rows: the first twenty in g1, the others in g2."""
    counts = np.zeros((30, 2, 4), dtype=np.int64)
    for client in range(30):
        counts[client, int(client >= 20)] = (3 + client % 3, 2, 3, 2 - client % 3)
    return counts


def inputs_of(spec: ExperimentSpec, *, plan: SpendingPlan | None) -> MechanismParameters:
    """What the ledger records; without its plan an epsilon is none, and only the spec counts."""
    mechanism = mechanism_of(spec)
    if mechanism.cost_kind == "epsilon" and plan is None:
        return unbounded_inputs(mechanism.facts.name, n=3, noise=spec.privacy.noise)
    return mechanism.inputs(n=3, plan=plan)


@pytest.fixture
def material() -> Callable[..., ReportMaterial]:
    """Makes the material; `spec` replaces parts of the spec, other arguments its own fields."""

    def make(spec: dict[str, Any] | None = None, **changes: Any) -> ReportMaterial:
        parsed = parse_admitted({**SPEC, **(spec or {})})
        releases = np.zeros(60, dtype=np.int32)
        releases[:30] = np.arange(30) % 5
        found = ReportMaterial(
            experiment_id="0190-1",
            name=SPEC["name"],
            status="succeeded",
            spec=parsed,
            inputs=inputs_of(parsed, plan=changes.get("plan")),
            federation=FederationFacts(
                fingerprint="f" * 64,
                clients=60,
                training_clients=30,
                rows=600,
                notes=("36 rows were left out",),
                attributes={"group": ("g1", "g2")},
            ),
            releases=releases,
            refusals=2,
            withheld=1,
            refused=(np.arange(60) == 3).astype(np.int32) * 2,
            result=FinalFigures(
                stopped_by="patience",
                rounds=41,
                best_round=11,
                selection_loss=0.25,
                validation_loss=0.5,
                accuracy=None,
                fairness={"group": counts_of_clients()},
                single_row_clients=4,
                collapsed_rounds=5,
                against_constant=useful_model(30, rows_by_group={"group": np.array([200, 100])}),
                start_loss=2.0,
            ),
            ledger_hash="a" * 64,
            chain_head="b" * 64,
            entries=41,
            provenance={
                "code_version": "0.1.0",
                "libraries": {"numpy": "2.4"},
                "device": "cpu",
                "backend": {"torch": "2.13"},
                "started_at": "2030-01-01T00:00:00Z",
            },
        )
        found = replace(found, **changes)
        return found if "disclosures" in changes else with_disclosures(found)

    return make
