"""The section `privacy`: leakage under metric privacy, epsilon with a delta, or neither."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import leakage, summarise_leakage, training_releases
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE, theorem_sum
from fedaudit.reports.sections.between_hypotheses import BetweenHypotheses, between_hypotheses
from fedaudit.reports.sections.epsilon import (
    EpsilonSection,
    RecordsSection,
    planned,
    records_section,
    spent,
)
from fedaudit.reports.sections.material import ReportMaterial
from fedaudit.reports.sections.part import Part, Reasons
from fedaudit.reports.sections.utility import chosen_by_losses


class ClusterLeakage(Part):
    """Leakage of the clients whose last upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class ComponentLeakage(Part):
    """What a release costs in one layer, which has noise of its own."""

    component: str
    parameters: int
    leakage_per_release: float
    """n_l / nu; over the layers these add up to n / nu."""


class Privacy(Part):
    """What training spent. Medians and quantiles are over the training clients."""

    leakage_median: float | None
    leakage_max: float | None
    leakage_quantiles: dict[str, float] | None
    leakage_by_cluster: list[ClusterLeakage] | None
    leakage_per_release: float | None
    """n / nu."""
    log_ratio_max: float | None = None
    """Theorem's sum for the client that took part most: over the run, the largest exponent between
    any two of a client's datasets that choose the same hypothesis in every round."""
    leakage_by_component: list[ComponentLeakage] | None = None
    """With noise layer by layer; None where one noise covers the whole update."""
    between_hypotheses: BetweenHypotheses | None = None
    participations_max: int
    """Rounds of the client that took part most; where participation is secret, all rounds."""
    refusals: int
    withheld: int
    epsilon_max: float | None
    """The largest of `epsilon` over the observers: no claim is stronger than the weakest."""
    epsilon: list[EpsilonSection]
    """One for each observer; empty where there is no epsilon with a delta."""
    epsilon_planned: float | None = None
    """The largest epsilon of all rounds that were planned, where validation losses ended the run
    early: what is proven then. None where they did not, and in earlier reports."""
    records: RecordsSection | None
    noise_multiplier: float | None = None
    """The mechanism's noise multiplier, as set in the spec or calibrated from public numbers."""
    reasons: Reasons


_LEAKAGE = (
    "leakage_median",
    "leakage_max",
    "leakage_quantiles",
    "leakage_by_cluster",
    "leakage_per_release",
    "log_ratio_max",
    "leakage_by_component",
    "between_hypotheses",
)
_NOT_BY_LAYER = "one noise covers the whole update; privacy.per_layer would give each layer its own"
_NOT_BY_RECORD = "the mechanism protects clients; no record has a budget of its own"


def privacy_section(material: ReportMaterial) -> Privacy:
    """What training spent."""
    cost_kind = material.inputs.cost_kind
    match cost_kind:
        case "epsilon":
            return _with_epsilon(material)
        case "leakage":
            return _with_leakage(material)
        case "unbounded":
            return _unbounded(material)
        case _:
            assert_never(cost_kind)


def _unbounded(material: ReportMaterial) -> Privacy:
    missing = (*_LEAKAGE, "epsilon_max", "epsilon_planned", "records", "noise_multiplier")
    return Privacy(
        **dict.fromkeys(missing),
        participations_max=int(_ordered(material).max(initial=0)),
        refusals=material.refusals,
        withheld=material.withheld,
        epsilon=[],
        reasons=dict.fromkeys(missing, _why_unbounded(material)),
    )


def _why_unbounded(material: ReportMaterial) -> str:
    if not material.spec.training.method.releases:
        return "training sent nothing from any client, so there is no release to count"
    return why_unbounded(material.inputs)


def _noise_multiplier(material: ReportMaterial, reasons: dict[str, str]) -> float | None:
    """The mechanism's noise multiplier; if there is none, the reason is added to `reasons`."""
    found = mechanism_of(material.spec).noise_multiplier()
    if isinstance(found, str):
        reasons["noise_multiplier"] = found
        return None
    return found


def _with_epsilon(material: ReportMaterial) -> Privacy:
    plan, found = material.plan, spent(material)
    if plan is None:
        raise ValueError("a report of an epsilon needs the spending plan of its run")
    reasons = dict.fromkeys(_LEAKAGE, NO_LEAKAGE)
    records = None
    if plan.records is None:
        reasons["records"] = _NOT_BY_RECORD
    if not chosen_by_losses(material.result.stopped_by):
        reasons["epsilon_planned"] = "validation losses did not end the run early"
    if plan.records is not None:
        records = records_section(material, plan.records)
    # The last observer is the one that sees who takes part, if any observer does.
    seen = np.asarray(material.compositions[plan.observers[-1]])
    return Privacy(
        **dict.fromkeys(_LEAKAGE),
        participations_max=int(seen.max(initial=0)),
        refusals=material.refusals,
        withheld=material.withheld,
        epsilon_max=max(one.value for one in found),
        epsilon=[
            EpsilonSection(
                observer=one.observer,
                delta=one.delta,
                adjacency=one.adjacency,
                accountant=plan.accountant,
                value=one.value,
            )
            for one in found
        ],
        epsilon_planned=max((one.value for one in planned(material)), default=None),
        records=records,
        noise_multiplier=_noise_multiplier(material, reasons),
        reasons=reasons,
    )


def _with_leakage(material: ReportMaterial) -> Privacy:
    nu = _nu(material.inputs)
    summary = summarise_leakage(
        material.releases,
        training_clients=material.federation.training_clients,
        n=material.inputs.n,
        noise_multiplier=nu,
    )
    by_cluster = _by_cluster(material)
    reasons = {"records": _NOT_BY_RECORD}
    reasons |= dict.fromkeys(("epsilon_max", "epsilon_planned"), NO_EPSILON)
    if by_cluster is None:
        reasons["leakage_by_cluster"] = "the clusters of the clients were not handed over"
    if material.inputs.components is None:
        reasons["leakage_by_component"] = _NOT_BY_LAYER
    most = int(_ordered(material).max(initial=0))
    bounded = log_ratio_max(material.inputs, most)
    if isinstance(bounded, str):
        reasons["log_ratio_max"] = bounded
    between = between_hypotheses(material)
    if isinstance(between, str):
        reasons["between_hypotheses"] = between
    return Privacy(
        leakage_median=summary.median,
        leakage_max=summary.maximum,
        leakage_quantiles=summary.quantiles,
        leakage_by_cluster=by_cluster,
        leakage_per_release=material.inputs.leakage(1),
        log_ratio_max=None if isinstance(bounded, str) else bounded,
        leakage_by_component=_by_component(material.inputs),
        between_hypotheses=None if isinstance(between, str) else between,
        participations_max=most,
        refusals=material.refusals,
        withheld=material.withheld,
        epsilon_max=None,
        epsilon=[],
        records=None,
        noise_multiplier=_noise_multiplier(material, reasons),
        reasons=reasons,
    )


def _nu(inputs: MechanismParameters) -> float:
    """The noise multiplier of metric privacy, which its parameters always have."""
    if inputs.noise_multiplier is None:
        raise ValueError(f"the inputs of {inputs.mechanism} have no noise multiplier")
    return inputs.noise_multiplier


def log_ratio_max(inputs: MechanismParameters, releases: int) -> float | str:
    """The theorem's sum over `releases` rounds, or the reason why there is none."""
    match inputs.cost_kind:
        case "epsilon":
            return NO_LEAKAGE
        case "unbounded":
            return why_unbounded(inputs)
        case "leakage":
            return theorem_sum(inputs, releases)
        case other:
            assert_never(other)


def _by_component(inputs: MechanismParameters) -> list[ComponentLeakage] | None:
    if inputs.components is None:
        return None
    nu = _nu(inputs)
    return [
        ComponentLeakage(
            component=layer.name,
            parameters=layer.n,
            leakage_per_release=leakage(1, n=layer.n, noise_multiplier=nu),
        )
        for layer in inputs.components
    ]


def _ordered(material: ReportMaterial) -> NDArray[np.int64]:
    return training_releases(
        material.releases, training_clients=material.federation.training_clients
    )


def _by_cluster(material: ReportMaterial) -> list[ClusterLeakage] | None:
    if material.clusters is None:
        return None
    found = []
    for cluster in range(material.spec.training.hypotheses):
        releases = material.releases[material.clusters == cluster]
        if len(releases):
            found.append(
                ClusterLeakage(
                    cluster=cluster,
                    clients=len(releases),
                    leakage_median=material.inputs.leakage(float(np.median(releases))),
                    leakage_max=material.inputs.leakage(int(releases.max())),
                )
            )
    return found
