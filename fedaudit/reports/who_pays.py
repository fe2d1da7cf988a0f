"""Who pays: what training cost the clients of each group."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.who_pays import Membership, membership
from fedaudit.privacy.projection import NO_EPSILON, NO_LEAKAGE, NO_MECHANISM
from fedaudit.reports.document import PayingGroup, WhoPaysSection
from fedaudit.reports.material import ReportMaterial
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, LaplaceL2, RecordPersonalised

_SECRET = {
    GaussianCentral: "who takes part in a round is secret, so everybody is charged for all of them",
    RecordPersonalised: (
        "who takes part in a round is secret, and records pay by budgets of their own"
    ),
}
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


def who_pays(
    material: ReportMaterial, attribute: str, rule: DisclosureRule
) -> tuple[WhoPaysSection | None, str | None]:
    """The section of one attribute, or None and the reason why there is none."""
    privacy = material.spec.privacy
    for kind, why in _SECRET.items():
        if isinstance(privacy, kind):
            return None, why
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
        groups.append(PayingGroup(value=value, suppressed=not visible, reasons=reasons, **own))
    return WhoPaysSection(unit=found.unit, groups=groups), None


def _figures(
    material: ReportMaterial, found: Membership
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Each figure by group [groups], and why others are missing."""
    privacy, releases = material.spec.privacy, material.releases.astype(np.int64)
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
    if isinstance(privacy, LaplaceL2):
        nu = privacy.noise_multiplier
        # One product and one quotient, as everywhere: an integer times n, over nu.
        figures["leakage_mean"] = figures["participations_mean"] * material.n / nu
        figures["leakage_max"] = figures["participations_max"] * material.n / nu
        missing["epsilon_max"] = NO_EPSILON
        return figures, missing
    unbounded = NO_LEAKAGE if isinstance(privacy, GaussianLocal) else NO_MECHANISM
    missing |= dict.fromkeys(("leakage_mean", "leakage_max"), unbounded)
    if material.plan is None:
        missing["epsilon_max"] = NO_MECHANISM
    else:
        everyone = np.arange(len(releases))
        epsilons = material.plan.epsilons("server", subjects=everyone, compositions=releases)
        figures["epsilon_max"] = found.largest(epsilons)
    return figures, missing
