"""What the policy for releases lets pass: the table in docs/gates.md is made here."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.report import assemble
from fedaudit.spec.gates import parse_policies
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC

ROOT = Path(__file__).parents[3]
POLICY = ROOT / "examples" / "policies" / "release.yaml"
ROUNDS, CLIENTS, TRAINING = 50, 60, 30

CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 4.0, "clip": 1.0, "delta": 1e-5}
LOCAL = {"mechanism": "gaussian-local", "noise_multiplier": 30.0, "clip": 1.0, "delta": 1e-5}
LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 1.0}
SECRET, SEED = {"noise": "release"}, {"noise": "simulation"}

RUNS: dict[str, tuple[dict[str, Any], int]] = {
    "no mechanism": ({"mechanism": "none"}, 1),
    "adaptive radius": ({**LAPLACE, **SECRET}, 1),
    "adaptive radius, clip 0.25": ({**LAPLACE, "clip": 0.25, **SECRET}, 1),
    "r = 0.5": ({**LAPLACE, "radius": 0.5, **SECRET}, 1),
    "r = 0.5, clip 0.25": ({**LAPLACE, "radius": 0.5, "clip": 0.25, **SECRET}, 1),
    "r = 0.5, clip 0.25, simulated": ({**LAPLACE, "radius": 0.5, "clip": 0.25, **SEED}, 1),
    "r = 0.5, clip 0.25, k = 2": ({**LAPLACE, "radius": 0.5, "clip": 0.25, **SECRET}, 2),
    "r = 0.5, clip 0.3": ({**LAPLACE, "radius": 0.5, "clip": 0.3, **SECRET}, 1),
    "r = 0.5, clip 10": ({**LAPLACE, "radius": 0.5, "clip": 10, **SECRET}, 1),
    "r = 1e-9": ({**LAPLACE, "radius": 1e-9, **SECRET}, 1),
    "r = 1e-9, simulated": ({**LAPLACE, "radius": 1e-9, **SEED}, 1),
    "r = 1e-9, clip 10": ({**LAPLACE, "radius": 1e-9, "clip": 10, **SECRET}, 1),
    "the same noise by another name: nu = 2^20, r = 0.5 / 2^20, clip 0.25": (
        {
            **LAPLACE,
            "noise_multiplier": float(2**20),
            "radius": 0.5 / 2**20,
            "clip": 0.25,
            **SECRET,
        },
        1,
    ),
    "nu = 0.001, r = 0.5, clip 0.25": (
        {**LAPLACE, "noise_multiplier": 0.001, "radius": 0.5, "clip": 0.25, **SECRET},
        1,
    ),
    "gaussian-central": ({**CENTRAL, **SECRET}, 1),
    "gaussian-central, simulated": ({**CENTRAL, **SEED}, 1),
    "gaussian-central, noise multiplier 0.5": ({**CENTRAL, "noise_multiplier": 0.5, **SECRET}, 1),
    "gaussian-local": ({**LOCAL, **SECRET}, 1),
    "gaussian-local, simulated": ({**LOCAL, **SEED}, 1),
    "gaussian-local, noise multiplier 1": ({**LOCAL, "noise_multiplier": 1.0, **SECRET}, 1),
}
_BOUNDS = {"leakage_max": 150.0, "log_ratio_max": 150.0, "epsilon_max": 10.0}
_SHOWN = {"pass": "pass", "fail": "fail", "insufficient_evidence": "no evidence"}


def report_of(material, privacy: dict[str, Any], hypotheses: int) -> dict[str, Any]:
    """The report of a run of these 50 rounds in which a client took part four times at most."""
    parts = {
        "training": {**SPEC["training"], "hypotheses": hypotheses},
        "privacy": privacy,
        "gates": [],
    }
    spec = parse_spec({**SPEC, **parts})
    plan = mechanism_of(spec).spending_plan(
        training_clients=TRAINING, names=[f"client {one}" for one in range(CLIENTS)]
    )
    if plan is None:
        return assemble(material(parts))
    releases = np.where(np.arange(CLIENTS) < TRAINING, np.arange(CLIENTS) % 5, 0).astype(np.int32)
    [observer] = plan.observers
    spent = {observer: ROUNDS if observer == "final_model" else releases}
    return assemble(material(parts, plan=plan, compositions=spent, releases=releases))


def release_gates() -> list[Any]:
    policies = parse_policies(yaml.safe_load(POLICY.read_text()))
    [release] = [one for one in policies.to_evaluate if one.name == "release"]
    return [gate for gate in release.gates if gate.figure in _BOUNDS]


def outcomes_of(material) -> dict[str, dict[str, str]]:
    """By run and figure, for gates as strict as those of the policy."""
    [policy] = release_gates()
    found = {}
    for name, (privacy, hypotheses) in RUNS.items():
        report = report_of(material, privacy, hypotheses)
        gates = [
            policy.model_copy(update={"figure": figure, "value": bound})
            for figure, bound in _BOUNDS.items()
        ]
        found[name] = {gate["figure"]: gate["outcome"] for gate in evaluate(gates, report)}
    return found


def test_the_table_in_the_documentation_is_what_happens(material):
    outcomes = outcomes_of(material)
    head = ["run", *(f"`{figure}` <= {bound:g}" for figure, bound in _BOUNDS.items())]
    rows = [[name, *(_SHOWN[one] for one in of.values())] for name, of in outcomes.items()]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    table = "\n".join(lines)
    assert len(rows) == 20
    assert table in (ROOT / "docs" / "gates.md").read_text(), f"the table is now\n{table}"
    # No run without secret noise, or without a clip, passes.
    assert release_gates()[0].allow_simulation is False
    passing = {name for name, of in outcomes.items() if "pass" in of.values()}
    for name in passing:
        privacy, _ = RUNS[name]
        assert privacy["noise"] == "release"
        assert privacy.get("clip") is not None
    assert {"r = 0.5, clip 0.25", "gaussian-central", "gaussian-local"} <= passing
