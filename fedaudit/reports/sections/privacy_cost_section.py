"""Privacy cost by group: what training cost the clients of each group."""

from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.privacy_cost_by_group import Membership, membership
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.reports.document.document import GroupPrivacyCost, PrivacyCostSection
from fedaudit.reports.document.material import ReportMaterial

_NOT_GIVEN = "the groups of the training clients were not handed over"
_NOT_COUNTED = "refusals were not counted by client"
_COMBINED = (
    "a combination is suppressed, and the figures of the single attributes, less those of the "
    "other combinations, would give it away"
)
_FIGURES = (
    "clients",
    "leakage_mean",
    "leakage_max",
    "participations_mean",
    "participations_max",
    "refusals",
    "epsilon_max",
)


def privacy_cost_by_group(
    material: ReportMaterial, attribute: str, rule: DisclosureRule
) -> tuple[PrivacyCostSection | None, str | None]:
    """The section of one attribute, or None and the reason why there is none."""
    secret = mechanism_of(material.spec).no_group_costs
    if secret is not None:
        return None, secret
    rows = material.federation.training_rows.get(attribute)
    if rows is None:
        return None, _NOT_GIVEN
    found = membership(rows, rule)
    if found.disclosure.suppresses and rule.combination is not None:
        return None, _COMBINED
    figures, missing = _figures(material, found)
    hidden = dict.fromkeys(_FIGURES, found.disclosure.reason)
    groups = []
    for place, value in enumerate(material.federation.attributes[attribute]):
        visible = bool(found.disclosure.shown[place])
        own = {
            name: figures[name][place].item() if visible and name in figures else None
            for name in _FIGURES
        }
        reasons = missing if visible else hidden
        groups.append(GroupPrivacyCost(value=value, suppressed=not visible, reasons=reasons, **own))
    return PrivacyCostSection(unit=found.unit, groups=groups), None


def _figures(
    material: ReportMaterial, found: Membership
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Each figure by group [groups], and the reasons for missing ones."""
    releases = material.releases.astype(np.int64)
    figures: dict[str, NDArray[Any]] = {
        "clients": found.clients,
        "participations_mean": found.mean(releases),
        "participations_max": found.largest(releases),
    }
    missing = {}
    if material.refused is None:
        missing["refusals"] = _NOT_COUNTED
    else:
        figures["refusals"] = found.total(material.refused)
    costs, no_costs = _costs(material, found, figures, releases)
    return figures | costs, missing | no_costs


def _costs(
    material: ReportMaterial,
    found: Membership,
    figures: dict[str, NDArray[Any]],
    releases: NDArray[np.int64],
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """What participations cost each group, depending on how the mechanism's cost is counted."""
    inputs = material.inputs
    match inputs.cost_kind:
        case "leakage":
            return {
                f"leakage_{name}": inputs.leakages(figures[f"participations_{name}"])
                for name in ("mean", "max")
            }, {"epsilon_max": NO_EPSILON}
        case "epsilon":
            if material.plan is None:
                raise ValueError("a report of an epsilon needs the spending plan of its run")
            everyone = np.arange(len(releases))
            epsilons = material.plan.epsilons("server", subjects=everyone, compositions=releases)
            no_leakage = dict.fromkeys(("leakage_mean", "leakage_max"), NO_LEAKAGE)
            return {"epsilon_max": found.largest(epsilons)}, no_leakage
        case "unbounded":
            missing = ("leakage_mean", "leakage_max", "epsilon_max")
            return {}, dict.fromkeys(missing, why_unbounded(inputs))
        case other:
            assert_never(other)
