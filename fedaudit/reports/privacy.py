"""The privacy section: leakage under metric privacy, epsilon with a delta, or neither."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.inputs import layer_components
from fedaudit.privacy.metric import (
    leakage,
    summarise_leakage,
    training_releases,
    worst_log_ratio,
)
from fedaudit.privacy.projection import NO_EPSILON, NO_LEAKAGE, NO_MECHANISM, NO_NOISE
from fedaudit.privacy.spending_plan import ObserverEpsilon, SpendingPlan
from fedaudit.reports.between_hypotheses import between_hypotheses
from fedaudit.reports.document import (
    ClusterLeakage,
    ComponentLeakage,
    EpsilonSection,
    Privacy,
)
from fedaudit.reports.material import ReportMaterial
from fedaudit.reports.records import records_section
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    PrivacySpec,
    RecordPersonalised,
)

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
_SECRET_RATES = (
    "the radius is adaptive, so the rates are secret, and the theorem needs public ones; leakage "
    "adds up by the paper's convention instead"
)
_NO_CLIP = "updates are not clipped, so nothing bounds how far a client's uploads may lie apart"
_NOT_BY_RECORD = "the mechanism protects clients; no record has a budget of its own"


def spent(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon before each observer; none where there is no plan.

    Raises KeyError where the material lacks the compositions of an observer.
    """
    plan = material.plan
    return () if plan is None else plan.spent(material.compositions)


def planned(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon if all planned rounds had been played, where validation ended the run early.

    Nobody is taken to pay more often than a budget allows. Empty where the run did not end so.
    """
    plan, result, privacy = material.plan, material.result, material.spec.privacy
    if plan is None or result.stopped_by != "patience":
        return ()
    left = max(0, material.spec.training.rounds - result.rounds)
    most = {}
    for observer, played in material.compositions.items():
        counts = np.asarray(played, dtype=np.int64)
        most[observer] = counts + left
        if isinstance(privacy, GaussianCentral | GaussianLocal) and privacy.epsilon_budget:
            allowed = plan.steps_within(observer, privacy.epsilon_budget)
            most[observer] = np.maximum(counts, np.minimum(most[observer], allowed))
    return plan.spent(most)


def privacy_section(material: ReportMaterial) -> Privacy:
    """What training spent."""
    privacy = material.spec.privacy
    if material.plan is not None:
        return _with_epsilon(material, material.plan)
    if isinstance(privacy, LaplaceL2):
        return _with_leakage(material, privacy.noise_multiplier)
    unprotected = NO_NOISE if isinstance(privacy, RecordPersonalised) else NO_MECHANISM
    missing = (*_LEAKAGE, "epsilon_max", "records")
    return Privacy(
        **dict.fromkeys(missing),
        participations_max=int(_ordered(material).max(initial=0)),
        refusals=material.refusals,
        withheld=material.withheld,
        epsilon=[],
        reasons=dict.fromkeys(missing, unprotected),
    )


def _with_epsilon(material: ReportMaterial, plan: SpendingPlan) -> Privacy:
    found = spent(material)
    reasons = dict.fromkeys(_LEAKAGE, NO_LEAKAGE)
    records = None
    if plan.records is None:
        reasons["records"] = _NOT_BY_RECORD
    else:
        records = records_section(material, plan.records)
    # The last observer is the one that sees who takes part, where anyone does.
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
        records=records,
        reasons=reasons,
    )


def _with_leakage(material: ReportMaterial, nu: float) -> Privacy:
    summary = summarise_leakage(
        material.releases,
        training_clients=material.federation.training_clients,
        n=material.n,
        noise_multiplier=nu,
    )
    by_cluster = _by_cluster(material, nu)
    reasons = {"epsilon_max": NO_EPSILON, "records": _NOT_BY_RECORD}
    if by_cluster is None:
        reasons["leakage_by_cluster"] = "the clusters of the clients were not handed over"
    if not material.layers:
        reasons["leakage_by_component"] = _NOT_BY_LAYER
    most = int(_ordered(material).max(initial=0))
    sizes = material.layers or (material.n,)
    bounded = log_ratio_max(material.spec.privacy, most, sizes=sizes)
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
        leakage_per_release=leakage(1, n=material.n, noise_multiplier=nu),
        log_ratio_max=None if isinstance(bounded, str) else bounded,
        leakage_by_component=_by_component(material, nu),
        between_hypotheses=None if isinstance(between, str) else between,
        participations_max=most,
        refusals=material.refusals,
        withheld=material.withheld,
        epsilon_max=None,
        epsilon=[],
        records=None,
        reasons=reasons,
    )


def log_ratio_max(privacy: PrivacySpec, releases: int, *, sizes: Sequence[int]) -> float | str:
    """The theorem's sum over `releases` rounds, or why there is none.

    `sizes`: parameters of each part that has noise of its own.
    """
    if not isinstance(privacy, LaplaceL2):
        return NO_LEAKAGE
    if privacy.radius == "adaptive":
        return _SECRET_RATES
    if privacy.clip is None:
        return _NO_CLIP
    return worst_log_ratio(
        releases,
        sizes=sizes,
        noise_multiplier=privacy.noise_multiplier,
        radius=float(privacy.radius),
        clip=privacy.clip,
    )


def _by_component(material: ReportMaterial, nu: float) -> list[ComponentLeakage] | None:
    if not material.layers:
        return None
    return [
        ComponentLeakage(
            component=layer.name,
            parameters=layer.n,
            leakage_per_release=leakage(1, n=layer.n, noise_multiplier=nu),
        )
        for layer in layer_components(material.layers)
    ]


def _ordered(material: ReportMaterial) -> NDArray[np.int64]:
    return training_releases(
        material.releases, training_clients=material.federation.training_clients
    )


def _by_cluster(material: ReportMaterial, nu: float) -> list[ClusterLeakage] | None:
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
                    leakage_median=float(np.median(releases)) * material.n / nu,
                    leakage_max=leakage(int(releases.max()), n=material.n, noise_multiplier=nu),
                )
            )
    return found
