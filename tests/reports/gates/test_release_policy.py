"""What the shipped policies let pass: the table in docs/gates.md is made here."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedaudit.privacy.guarantees.cost_sentences import cost_level
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.report import assemble
from fedaudit.reports.verdict.cost import Bound
from fedaudit.spec.gates import Gate, parse_policies
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC
from tests.spec.documents import gaussian

ROOT = Path(__file__).parents[3]
POLICIES = ROOT / "examples" / "policies"
ROUNDS, CLIENTS, TRAINING = 50, 60, 30

CENTRAL, LOCAL = gaussian("central", 12.0), gaussian("local", 30.0)
SECRET, SEED = {"noise": "release"}, {"noise": "simulation"}


def laplace(**fields: Any) -> dict[str, Any]:
    return {"mechanism": "laplace-l2", "noise_multiplier": 5.0, **SECRET, **fields}


CLIPPED = laplace(radius=0.5, clip=0.25)
RENAMED = laplace(noise_multiplier=5.0 * 2**20, radius=0.5 / 2**20, clip=0.25)
RUNS: dict[str, dict[str, Any]] = {
    "no mechanism": {"mechanism": "none"},
    "adaptive radius": laplace(),
    "adaptive radius, clip 0.25": laplace(clip=0.25),
    "r = 0.5": laplace(radius=0.5),
    "r = 0.5, clip 0.25": CLIPPED,
    "r = 0.5, clip 0.25, simulated": {**CLIPPED, **SEED},
    "r = 0.5, clip 0.25, k = 2": CLIPPED,
    "r = 0.5, clip 0.3": laplace(radius=0.5, clip=0.3),
    "r = 0.5, clip 10": laplace(radius=0.5, clip=10),
    "r = 1e-9": laplace(radius=1e-9),
    "r = 1e-9, simulated": laplace(radius=1e-9, **SEED),
    "r = 1e-9, clip 10": laplace(radius=1e-9, clip=10),
    "the same noise by another name: nu = 5 * 2^20, r = 0.5 / 2^20, clip 0.25": RENAMED,
    "nu = 0.001, r = 0.5, clip 0.25": {**CLIPPED, "noise_multiplier": 0.001},
    "gaussian-central": {**CENTRAL, **SECRET},
    "gaussian-central, simulated": {**CENTRAL, **SEED},
    "gaussian-central, noise multiplier 0.5": {**CENTRAL, "noise_multiplier": 0.5, **SECRET},
    "gaussian-local": {**LOCAL, **SECRET},
    "gaussian-local, simulated": {**LOCAL, **SEED},
    "gaussian-local, noise multiplier 1": {**LOCAL, "noise_multiplier": 1.0, **SECRET},
}
_FIGURES = ("leakage_max", "log_ratio_max", "epsilon_max")
_SHOWN = {"pass": "pass", "fail": "fail", "insufficient_evidence": "undecided"}


def report_of(material, privacy: dict[str, Any], hypotheses: int) -> dict[str, Any]:
    """The report of a run of these 50 rounds in which a client took part four times at most."""
    training = {**SPEC["training"], "hypotheses": hypotheses}
    parts = {"training": training, "privacy": privacy, "gates": []}
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


def privacy_gate(name: str) -> Gate:
    """The gate of a policy that rests on a guarantee."""
    policies = parse_policies(yaml.safe_load((POLICIES / f"{name}.yaml").read_text()))
    [(called, gates)] = policies.to_evaluate
    assert called == name
    [gate] = [one for one in gates if one.figure in _FIGURES]
    return gate


def outcomes_of(material) -> dict[str, dict[str, str]]:
    """By run and gate: those of `release` on any of the figures, and that of `research`."""
    release, research = privacy_gate("release"), privacy_gate("research")
    gates = [release.model_copy(update={"figure": figure}) for figure in _FIGURES]
    names = [f"`{one.figure}` <= {one.value:g}" for one in (*gates, research)]
    names[-1] += " of `research`"
    found = {}
    for name, privacy in RUNS.items():
        report = report_of(material, privacy, 2 if name.endswith("k = 2") else 1)
        evaluated = evaluate([*gates, research], report)
        found[name] = dict(zip(names, (one["outcome"] for one in evaluated), strict=True))
        passed = [one["outcome"] == "pass" for one in evaluated]
        if any(passed[:3]):
            assert Bound(report).level in ("up-to-75", "up-to-95")
        assert not passed[3] or Bound(report).level != "nothing"
    return found


def test_the_table_in_the_documentation_is_what_happens(material):
    outcomes = outcomes_of(material)
    head = ["run", *outcomes["no mechanism"]]
    rows = [[name, *(_SHOWN[one] for one in of.values())] for name, of in outcomes.items()]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    table = "\n".join(lines)
    assert len(rows) == 20
    assert table in (ROOT / "docs" / "gates.md").read_text(), f"the table is now\n{table}"
    # No run without secret noise, or without a clip, passes.
    assert privacy_gate("release").allow_simulation is False
    passing = {name for name, of in outcomes.items() if "pass" in list(of.values())[:3]}
    for name in passing:
        assert RUNS[name]["noise"] == "release"
        assert RUNS[name].get("clip") is not None
    assert {"r = 0.5, clip 0.25", "gaussian-central", "gaussian-local"} <= passing


def test_policies_stop_where_the_words_of_the_scale_do() -> None:
    release, research = (privacy_gate(name).value for name in ("release", "research"))
    assert cost_level(release, delta=1e-5) == "up-to-95"
    assert cost_level(release + 0.01, delta=1e-5) == "nearly-all"
    assert cost_level(research) == "nearly-all"
    assert cost_level(research + 1e-9) == "nothing"
