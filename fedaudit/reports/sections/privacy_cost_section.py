"""Privacy cost by group: what training cost the clients of each group."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.scored_groups import Membership, membership
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.reports.document.document import GroupPrivacyCost, PrivacyCostSection
from fedaudit.reports.document.material import ReportMaterial, ScoredMaterial

_NO_TRAINING = "the training is not known here"
_NOT_ASKED_FOR = (
    "fairness.privacy_cost_by_group is off: figures by group say something of the sensitive values "
    "of training clients, whom the guarantee speaks of, so they are shown on request only"
)
_NOT_GIVEN = "the groups of the training clients were not handed over"
_NOT_COUNTED = "refusals were not counted by client"
_COMBINED = (
    "a combination is suppressed, and the figures of the single attributes, less those of the "
    "other combinations, would give it away"
)
_NEVER_SHOWN = {
    "clients": "the number of a group's training clients is a sum over their sensitive values, and "
    "a few dozen such sums give them back",
    "refusals": "a total is a sum over the clients' sensitive values; see refusals_mean",
    **dict.fromkeys(
        ("leakage_max", "participations_max", "epsilon_max"),
        "a group's largest figure says of every client that paid more that it is not in the group",
    ),
}
_FIGURES = (*_NEVER_SHOWN, "leakage_mean", "participations_mean", "refusals_mean")


def privacy_cost_by_group(
    material: ScoredMaterial, attribute: str, rule: DisclosureRule
) -> tuple[PrivacyCostSection | None, str | None]:
    """The section of one attribute, or None and the reason why there is none."""
    if not isinstance(material, ReportMaterial):
        return None, _NO_TRAINING
    secret = mechanism_of(material.spec).no_group_costs
    if secret is not None:
        return None, secret
    if not material.spec.fairness.privacy_cost_by_group:
        return None, _NOT_ASKED_FOR
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
) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Each figure by group [groups], and the reasons for missing ones."""
    training = material.federation.training_clients
    participations = found.coarse_mean(material.releases, training_clients=training)
    figures = {"participations_mean": participations}
    missing = dict(_NEVER_SHOWN)
    if material.refused is None:
        missing["refusals_mean"] = _NOT_COUNTED
    else:
        figures["refusals_mean"] = found.coarse_mean(material.refused, training_clients=training)
    inputs = material.inputs
    match inputs.cost_kind:
        case "leakage":
            figures["leakage_mean"] = inputs.leakages(participations)
            missing["epsilon_max"] = NO_EPSILON
        case "epsilon":
            missing |= dict.fromkeys(("leakage_mean", "leakage_max"), NO_LEAKAGE)
        case "unbounded":
            costs = ("leakage_mean", "leakage_max", "epsilon_max")
            missing |= dict.fromkeys(costs, why_unbounded(inputs))
        case other:
            assert_never(other)
    return figures, missing
