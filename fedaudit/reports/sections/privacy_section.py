"""The privacy section: leakage under metric privacy, epsilon with a delta, or neither."""

from collections.abc import Mapping
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.privacy.leakage import leakage, summarise_leakage, training_releases
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE, theorem_sum
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan
from fedaudit.reports.document.document import (
    ClusterLeakage,
    ComponentLeakage,
    EpsilonSection,
    Privacy,
)
from fedaudit.reports.document.endings import chosen_by_losses
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.sections.between_hypotheses_section import between_hypotheses
from fedaudit.reports.sections.record_budget_section import records_section
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy

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


def spent(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon against each observer; empty where there is no plan.

    Raises KeyError where the material lacks the compositions of an observer.
    """
    plan = material.plan
    return () if plan is None else plan.spent(material.compositions)


def planned(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon if all planned rounds had been run, where validation ended the run early.

    No subject is charged more often than a budget allows. Empty where the run did not end early.
    """
    result = material.result
    return planned_epsilons(
        material.spec,
        material.plan,
        material.compositions,
        rounds=result.rounds,
        stopped_by=result.stopped_by,
    )


def planned_epsilons(
    spec: ExperimentSpec,
    plan: SpendingPlan | None,
    compositions: Mapping[Observer, ArrayLike],
    *,
    rounds: int,
    stopped_by: StoppedBy | None,
) -> tuple[ObserverEpsilon, ...]:
    """The same, of a run of a spec that has played so many rounds.

    `compositions`: what its ledger has counted.
    """
    if plan is None or not chosen_by_losses(stopped_by):
        return ()
    mechanism, left = mechanism_of(spec), max(0, spec.training.rounds - rounds)
    most = {}
    for observer, played in compositions.items():
        counts = np.asarray(played, dtype=np.int64)
        most[observer] = counts + left
        allowed = mechanism.compositions_within_budget(plan, observer)
        if allowed is not None:
            most[observer] = np.maximum(counts, np.minimum(most[observer], allowed))
    return plan.spent(most)


def guarantee_of(material: ReportMaterial) -> Guarantee:
    """The guarantee of the run, with what it spent."""
    return mechanism_of(material.spec).guarantee(
        n=material.inputs.n,
        epsilons=spent(material),
        planned=planned(material),
        layers=material.inputs.component_sizes,
    )


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
