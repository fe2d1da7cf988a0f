"""The section `privacy`: leakage under metric privacy, epsilon with a delta, or neither."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, assert_never

import numpy as np

from fedaudit.arrays import Ints16, Ints32
from fedaudit.federations.split import training_clients
from fedaudit.networks.shape import are_layers_of
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.leakage import ClusterCounts, leakage, leakage_quantiles, training_releases
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE, theorem_sum
from fedaudit.reports.checks import Check, agrees, shown, value_at
from fedaudit.reports.sections.between_hypotheses import (
    BetweenHypotheses,
    between_checks,
    between_hypotheses,
)
from fedaudit.reports.sections.epsilon import (
    DIGITS,
    MAX_CLIENTS,
    EpsilonSection,
    RecordsSection,
    epsilon_checks,
    planned,
    records_section,
    spent,
)
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence
from fedaudit.reports.sections.part import (
    WHERE_GIVEN,
    Part,
    Reasons,
    Section,
    Shown,
    no_limits,
    with_reasons,
)
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import NoisedUpdates


class ClusterLeakage(Part):
    """Leakage of the clients whose last upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class ComponentLeakage(Part):
    """What a release costs in one layer, which has its own noise."""

    component: str
    parameters: int
    leakage_per_release: float
    """n_l / nu; over the layers these add up to n / nu."""


class Privacy(Part):
    """What training spent. Medians and quantiles are over the training clients."""

    leakage_per_release: Annotated[
        float | None, Shown("Leakage of a release", "bound", where_given=True)
    ]
    """n / nu."""
    leakage_median: Annotated[float | None, Shown("Leakage, median client", where_given=True)]
    leakage_max: Annotated[float | None, Shown("Leakage, largest", "bound")]
    leakage_quantiles: dict[str, float] | None
    leakage_by_cluster: list[ClusterLeakage] | None
    log_ratio_max: Annotated[float | None, Shown("Theorem's sum, largest", "bound")] = None
    """The theorem's sum for the client that took part most: over the run, the largest exponent
    between any two of a client's datasets that choose the same hypothesis in every round."""
    leakage_by_component: list[ComponentLeakage] | None = None
    """Leakage by layer; None where one noise covers the whole update."""
    between_hypotheses: BetweenHypotheses | None = None
    participations_max: Annotated[
        int, Shown("Participations, largest", of_everyone="Rounds charged to everyone")
    ]
    """Rounds of the client that took part most; where participation is secret, all rounds."""
    refusals: Annotated[int, Shown("Refused over their budget")]
    withheld: Annotated[int, Shown("Withheld, not finite")]
    epsilon_max: Annotated[float | None, Shown("Epsilon, largest", "bound")]
    """The largest of `epsilon` over the observers: no claim is stronger than the weakest."""
    epsilon: list[EpsilonSection]
    """One for each observer; empty where there is no epsilon with a delta."""
    epsilon_planned: Annotated[
        float | None, Shown("Epsilon of all planned rounds, proven", "bound", where_given=True)
    ] = None
    """The largest epsilon of all planned rounds, where validation losses ended the run early: this
    one is proven then. None where they did not."""
    records: RecordsSection | None
    noise_multiplier: Annotated[float | None, Shown("Noise multiplier")] = None
    """The mechanism's noise multiplier, as set in the spec or calibrated from public numbers."""
    target: Annotated[
        float | None, Shown("Budget asked for", "exact", where_given=True), WHERE_GIVEN
    ] = None
    """The epsilon or leakage that the spec asks for; no guarantee."""
    target_projected: Annotated[
        float | None,
        Shown("Projected for it, all planned rounds", "bound", where_given=True),
        WHERE_GIVEN,
    ] = None
    """The same figure as projected at submission. A run that stops early spends less; a round that
    was lost and repeated is charged twice."""
    reasons: Reasons


_EPSILON = ("epsilon_max", "epsilon_planned", "records")
_RECOMPUTED = (
    "leakage_median",
    "leakage_max",
    "leakage_quantiles",
    "leakage_per_release",
    "leakage_by_component",
    "leakage_by_cluster",
)
_LEAKAGE = (*_RECOMPUTED, "log_ratio_max", "between_hypotheses")
_NOT_BY_LAYER = "one noise covers the whole update; privacy.per_layer would give each layer its own"
_NOT_BY_RECORD = "the mechanism protects clients; records have no budgets"


def privacy_section(material: ReportMaterial) -> Privacy:
    """What training spent, by how the mechanism's cost is counted."""
    spec, training = material.spec, material.federation.training_clients
    mechanism, cost_kind = mechanism_of(spec), material.inputs.cost_kind
    found: dict[str, Any] = {
        "participations_max": int(material.releases.max(initial=0)),
        "refusals": material.refusals,
        "withheld": material.withheld,
        "epsilon": [],
        "noise_multiplier": mechanism.noise_multiplier(),
    }
    match cost_kind:
        case "epsilon":
            found |= _epsilon_figures(material)
        case "leakage":
            found |= _metric_figures(material)
        case "unbounded":
            why = why_unbounded(material.inputs)
            # Refuses counts of clients that do not train; with a cost, its figures do.
            if mechanism.no_client_costs is None:
                training_releases(material.releases, training_clients=training)
            if not spec.training.method.releases:
                why = "training sent nothing from any client, so there is no release to count"
            if isinstance(found["noise_multiplier"], str):
                found["noise_multiplier"] = why
            found |= dict.fromkeys((*_LEAKAGE, *_EPSILON), why)
        case _:
            assert_never(cost_kind)
    found |= _target_figures(spec, n=material.inputs.n, training_clients=training)
    return Privacy(**with_reasons(found))


def _target_figures(spec: ExperimentSpec, *, n: int, training_clients: int) -> dict[str, float]:
    """What was asked for and what was projected for it; nothing without a target."""
    privacy = spec.privacy
    if not isinstance(privacy, NoisedUpdates) or privacy.target is None:
        return {}
    figure = mechanism_of(spec).targeted_figure(n=n, training_clients=training_clients)
    assert figure is not None, "a mechanism with a target has its figure"
    projected = figure.projected(privacy.noise_multiplier)
    return {"target": privacy.target.amount, "target_projected": projected}


def _epsilon_figures(material: ReportMaterial) -> dict[str, Any]:
    plan, found = material.plan, spent(material)
    if plan is None:
        raise ValueError("a report of an epsilon needs the spending plan of its run")
    early = "validation losses did not end the run early"
    # The last observer is the one that sees who takes part, if any observer does.
    seen = np.asarray(material.compositions[plan.observers[-1]])
    return {
        **dict.fromkeys(_LEAKAGE, NO_LEAKAGE),
        "participations_max": int(seen.max(initial=0)),
        "epsilon_max": max(one.value for one in found),
        "epsilon": [EpsilonSection(accountant=plan.accountant, **vars(one)) for one in found],
        "epsilon_planned": max((one.value for one in planned(material)), default=early),
        "records": _NOT_BY_RECORD
        if plan.records is None
        else records_section(material, plan.records),
    }


def _metric_figures(material: ReportMaterial) -> dict[str, Any]:
    inputs = material.inputs
    found = leakage_figures(
        inputs,
        material.releases,
        material.clusters,
        training_clients=material.federation.training_clients,
        hypotheses=material.spec.training.hypotheses,
    )
    if material.clusters is None:
        found["leakage_by_cluster"] = "the clusters of the clients were not handed over"
    if inputs.components is None:
        found["leakage_by_component"] = _NOT_BY_LAYER
    return {
        **found,
        "log_ratio_max": theorem_sum(inputs, int(material.releases.max(initial=0))),
        "between_hypotheses": between_hypotheses(material),
        **dict.fromkeys(_EPSILON, NO_EPSILON),
        "records": _NOT_BY_RECORD,
    }


def leakage_figures(
    inputs: MechanismParameters,
    releases: Ints32,
    clusters: Ints16 | None,
    *,
    training_clients: int,
    hypotheses: int,
) -> dict[str, Any]:
    """The figures that follow from how often each client released something, and from the cluster
    of its last upload: [clients], -1 for none. Raises ValueError where more clients released
    something than train."""
    nu = inputs.nu
    if not training_clients:
        raise ValueError("no client trains")
    quantiles = leakage_quantiles(
        releases, training_clients=training_clients, n=inputs.n, noise_multiplier=nu
    )
    by_cluster = None
    if clusters is not None:  # those of an altered ledger may be no hypothesis
        known = np.where(clusters < hypotheses, clusters, -1)
        by_cluster = ClusterCounts(known, releases).now(inputs.leakages)
    return {
        "leakage_median": quantiles["p50"],
        "leakage_max": inputs.leakage(int(releases.max())),
        "leakage_quantiles": quantiles,
        "leakage_per_release": inputs.leakage(1),
        "leakage_by_component": None
        if inputs.components is None
        else [
            {
                "component": layer.name,
                "parameters": layer.n,
                "leakage_per_release": leakage(1, n=layer.n, noise_multiplier=nu),
            }
            for layer in inputs.components
        ],
        "leakage_by_cluster": by_cluster,
    }


def _privacy_checks(found: RunEvidence) -> Iterator[Check]:
    if found.spec is None:
        why = "the stored spec cannot be read, or is of another version"
        yield Check.unchecked("report.figures", why)
        return
    if found.parameters is None:
        yield Check.failed("ledger.inputs", "the report gives no data.parameters")
        return
    cost_kind = mechanism_of(found.spec).cost_kind
    match cost_kind:
        case "epsilon":
            yield from epsilon_checks(found, found.spec, found.parameters)
        case "leakage" | "unbounded":
            yield from _checks_against_ledger(found, found.spec, found.parameters)
        case _:
            assert_never(cost_kind)
    others = _LEAKAGE if cost_kind == "epsilon" else ("epsilon", *_EPSILON)
    given = [name for name in others if value_at(found.report, "privacy", name) not in (None, [])]
    yield Check.of(
        "report.kind_of_cost",
        not given,
        good="there are figures of this mechanism's kind of cost alone",
        bad=f"this mechanism has no {', '.join(given)}, which the report gives",
    )
    yield from _target_checks(found.report, found.spec, found.parameters)


def _target_checks(
    report: Mapping[str, Any], spec: ExperimentSpec, parameters: int
) -> Iterator[Check]:
    """Whether the noise multiplier meets the target, where the spec has one."""
    training = value_at(report, "data", "training_clients")
    if type(training) is not int or not 1 <= training <= MAX_CLIENTS:
        return  # `report.training_clients` says so
    figures = _target_figures(spec, n=parameters, training_clients=training)
    if not figures:
        return
    for name, value in figures.items():
        yield agrees(report, f"privacy.{name}", value, digits=DIGITS)
    asked, projected = figures["target"], figures["target_projected"]
    yield Check.of(
        "report.target_met",
        projected <= asked * (1 + DIGITS),
        good="the noise multiplier of the spec meets its target",
        bad=f"the noise multiplier of the spec does not meet its target of {shown(asked)}: it "
        f"comes to {shown(projected)}",
    )


def _checks_against_ledger(
    found: RunEvidence, spec: ExperimentSpec, parameters: int
) -> Iterator[Check]:
    report, totals = found.report, found.totals
    try:
        inputs = mechanism_of(spec).inputs(n=parameters, layers=stated_layers(spec, report))
    except ValueError as error:
        yield Check.failed("ledger.inputs", f"the report's layers are invalid: {error}")
        return
    yield Check.of(
        "ledger.inputs",
        totals.inputs <= {inputs},
        good="every entry has the mechanism of the spec",
        bad="the mechanism of some entries is not that of spec and report",
    )
    yield Check.of(
        "ledger.radii",
        not totals.misfits,
        good="every release has a radius that its mechanism can give",
        bad=f"{totals.misfits} entries have a radius that their mechanism cannot give",
    )
    figures: dict[str, Any] = dict.fromkeys(_RECOMPUTED)
    # Of everyone as one subject, the ledger does not say how many there are.
    named, training = mechanism_of(spec).facts.subject_kind == "client", 0
    try:
        if named:
            training = training_clients(len(found.evidence.names), spec.federation)
        if inputs.cost_kind == "leakage":
            figures = leakage_figures(
                inputs,
                totals.releases,
                totals.clusters,
                training_clients=training,
                hypotheses=spec.training.hypotheses,
            )
    except ValueError as error:
        yield Check.failed("report.figures", f"no figure follows: {error}")
        return
    most = int(totals.releases.max(initial=0))
    counted = {"participations_max": most, "refusals": totals.refusals, "withheld": totals.withheld}
    if named:
        yield agrees(report, "data.training_clients", training)
    for name, value in {**counted, **figures}.items():
        yield agrees(report, f"privacy.{name}", value)
    if value_at(report, "privacy", "log_ratio_max") is not None:
        proven = theorem_sum(inputs, most) if inputs.cost_kind == "leakage" else None
        yield agrees(report, "privacy.log_ratio_max", proven)
    yield from between_checks(spec, report, totals, inputs)


def stated_layers(spec: ExperimentSpec, report: Mapping[str, Any]) -> tuple[int, ...]:
    """Parameters of each layer that the report names; empty where one noise covers all. The data
    are not available, so the check against the spec is whether its model can have such layers.
    Raises ValueError where it cannot."""
    if not spec.privacy.has_noise_per_layer:
        return ()
    stated = value_at(report, "privacy", "leakage_by_component")
    sizes = [value_at(part, "parameters") for part in stated] if isinstance(stated, list) else []
    whole = all(type(size) is int for size in sizes) and are_layers_of(spec.model, sizes)
    if not whole or sum(sizes) != value_at(report, "data", "parameters"):
        raise ValueError(f"{shown(sizes)} are not the layers of the spec's model")
    return tuple(sizes)


PRIVACY = Section[ReportMaterial, RunEvidence](
    "privacy", privacy_section, _privacy_checks, no_limits
)
