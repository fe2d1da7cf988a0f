"""Reports to read, of every kind of mechanism."""

from collections.abc import Callable
from typing import Any

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.material import ReportMaterial
from tests.reports.conftest import SPEC
from tests.spec.documents import BY_RECORD
from tests.spec.documents import gaussian as gaussian_privacy

Material = Callable[..., ReportMaterial]

NAMES = (*("registry", "nist-800-226", "impact-ratio", "model-card"), *("annex-iv", "edpb-28-2024"))
ONE_HYPOTHESIS = {"loss": "rmse", "hypotheses": 1, "rounds": 50}
GAUSSIAN: dict[str, Any] = {
    "privacy": gaussian_privacy("central", 2, delta=1e-3, noise="release"),
    "training": {**ONE_HYPOTHESIS, "cohort": {"sampling": "poisson", "rate": 0.2}},
    "gates": [],
}
FIXED = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5, "radius": 2}}
BY_DISTANCE: dict[str, Any] = {
    "training": {**ONE_HYPOTHESIS, "cohort": {"clients": 7}},
    "privacy": {"mechanism": "gaussian-distance", "noise_multiplier": 1.0, "clip": 1.0},
}
NOTHING = {"privacy": {"mechanism": "none"}, "gates": [], "fairness": {"sensitive": []}}

WITHOUT_NOISE = {
    "federation": {**SPEC["federation"], "validation_unit": "record"},
    "training": {
        **ONE_HYPOTHESIS,
        "loss": "mse",
        "cohort": {"sampling": "poisson", "rate": 0.1},
        "local": {"steps": 5, "batch_size": 8},
    },
    "privacy": {**BY_RECORD, "baseline": "privacy-free"},
    "gates": [],
}
"""A mechanism whose clients add noise, but for this baseline."""

PROVENANCE = {"finished_at": "2030-01-02T03:04:05+00:00", "code_version": "0.1.0"}


def gaussian(
    material: Material, *, cohort: dict[str, Any] = GAUSSIAN["training"]["cohort"], **privacy: Any
) -> dict[str, Any]:
    """The report of a run of gaussian-central, or another, that played 41 rounds."""
    training = {**ONE_HYPOTHESIS, "cohort": cohort}
    spec = {**GAUSSIAN, "training": training, "privacy": {**GAUSSIAN["privacy"], **privacy}}
    plan = mechanism_of(material(spec).spec).spending_plan(training_clients=30)
    assert plan is not None
    played = dict.fromkeys(plan.observers, 41)
    return assemble(material(spec, plan=plan, compositions=played, provenance=PROVENANCE))


def by_distance(material: Material, noise: str) -> dict[str, Any]:
    """The report of a run of gaussian-distance, which bounds nothing."""
    spec = {**BY_DISTANCE, "privacy": {**BY_DISTANCE["privacy"], "noise": noise}, "gates": []}
    return assemble(material(spec, provenance=PROVENANCE))


def documents(material: Material) -> dict[str, dict[str, Any]]:
    """A report of each kind, by name."""
    return {
        "adaptive": assemble(material(provenance=PROVENANCE)),
        "fixed": assemble(material(FIXED, provenance=PROVENANCE)),
        "nothing": assemble(material(NOTHING, provenance=PROVENANCE)),
        "gaussian": gaussian(material),
    }


def contradicted(document: dict[str, Any]) -> dict[str, Any]:
    """The report with an attack that contradicts its guarantee."""
    found = {"kind": "canaries", "status": "done", "reason": None, "capabilities": []}
    alarm = {"claim": "an epsilon of 1", "evidence": "one of 2"}
    return {**document, "attacks": [{**found, "statement": "found", "alarm": alarm}]}
