"""What an epsilon with a delta does not show, in one plain sentence each."""

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.records.record_spending import RecordSpending
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.document.suppressed_counts import number_or_some
from fedaudit.reports.sections.limitations.floating_point import floating_point_limits
from fedaudit.reports.sections.record_budget_section import records_section

SIMULATED = (
    "The noise was simulated and can be drawn again from the seed in the spec: the model of this "
    "run is protected by nothing and must not be released. This report is itself unprotected: "
    "losses, accuracy, gaps and every round's figures follow from training data, and anyone with "
    "two candidate datasets can replay the seed and see which one gives them."
)
_RELEASES_ONLY = (
    "Epsilon covers this training alone: where its settings were chosen by earlier runs on the "
    "same data, those runs and the choice have a cost of their own, which is not in it."
)


def epsilon_limits(material: ReportMaterial, plan: SpendingPlan) -> list[str]:
    """The sentences that apply to this run's mechanism."""
    mechanism = mechanism_of(material.spec)
    found = [
        f"Epsilon bounds how much one {mechanism.facts.unit} can raise the probability of any "
        "outcome: by a factor of at most exp(epsilon), plus delta. It is not leakage "
        "under metric privacy and must not be compared with it or added to it.",
        *_limit_delta(material, plan),
        *plan.warnings,
    ]
    if material.inputs.noise == "simulation":
        found.append(SIMULATED)
    found += mechanism.limits()
    if plan.records is not None:
        found += _limit_records(material, plan.records)
    return [*found, _RELEASES_ONLY, *floating_point_limits(material), *withheld_updates(material)]


def withheld_updates(material: ReportMaterial) -> list[str]:
    """That updates were withheld, if any were."""
    if not material.withheld:
        return []
    return [
        f"{material.withheld} updates were withheld for not being finite; that they were depends "
        "on the data and is not covered by the guarantee."
    ]


def _limit_delta(material: ReportMaterial, plan: SpendingPlan) -> list[str]:
    units, unit = material.federation.training_clients, "clients"
    if plan.records is not None:
        units, unit = len(plan.records.group_of), "training records"
    if plan.delta * units < 1:
        return []
    return [
        f"delta = {plan.delta:g} is not below one in the {units} {unit}: a mechanism that hands "
        "over somebody's data whole could satisfy it. Take delta well below that."
    ]


def _limit_records(material: ReportMaterial, records: RecordSpending) -> list[str]:
    found: list[str] = []
    section = records_section(material, records)
    if section.overspent != 0:
        found.append(
            f"{number_or_some(section.overspent)} records spent more than their own budgets allow."
        )
    if section.left_out != 0:
        found.append(
            f"{number_or_some(section.left_out)} records were never sampled: their budgets are "
            "too small for the accountant, or the baseline drops them. The model has learnt "
            "nothing from them."
        )
    return found
