"""What an epsilon with a delta does not show, one plain sentence each."""

from fedaudit.privacy.spending_plan import SpendingPlan
from fedaudit.reports.material import ReportMaterial
from fedaudit.reports.records import counted, records_section
from fedaudit.spec.privacy import GaussianCentral, RecordPersonalised
from fedaudit.spec.training import PoissonCohort

SIMULATED = (
    "The noise was simulated and can be drawn again from the seed in the spec: the model of this "
    "run is protected by nothing and must not be released."
)
_FLOATS = (
    "The mechanism is proven for real numbers. The low bits of floating-point noise can leak "
    "(Mironov 2012), and noise is made from random numbers of 32 bits, so it never passes about "
    "7.5 standard deviations; nothing here prevents either."
)
_RELEASES_ONLY = (
    "Epsilon counts this training alone: settings that were chosen by earlier runs on the same "
    "data, and the choice itself, are counted with those runs or not at all."
)
_TRUSTED = (
    "The server is trusted with every update, and with who sent it: the guarantee says nothing "
    "about the server, nor about anyone who can read its memory or its traffic."
)


def epsilon_limits(material: ReportMaterial, plan: SpendingPlan) -> list[str]:
    """The sentences that apply to this run's mechanism."""
    privacy = material.spec.privacy
    found = [
        "Epsilon bounds how much likelier any outcome becomes by one "
        f"{'record' if plan.records else 'client'}, but for a chance delta. It is not leakage "
        "under metric privacy and must not be compared with it or added to it.",
        *_of_delta(material, plan),
        *plan.warnings,
    ]
    if privacy.noise == "simulation":
        found.append(SIMULATED)
    if isinstance(privacy, GaussianCentral):
        found += [_TRUSTED, *_of_the_clip(privacy)]
    if isinstance(privacy, RecordPersonalised):
        found += _of_records(material, privacy, plan)
    return [*found, _RELEASES_ONLY, _FLOATS, *withheld_updates(material)]


def withheld_updates(material: ReportMaterial) -> list[str]:
    """That updates were withheld, where any were."""
    if not material.withheld:
        return []
    return [
        f"{material.withheld} updates were withheld for not being finite; that they were depends "
        "on the data and is not covered by the guarantee."
    ]


def _of_delta(material: ReportMaterial, plan: SpendingPlan) -> list[str]:
    units, unit = material.federation.training_clients, "clients"
    if plan.records is not None:
        units, unit = len(plan.records.group_of), "training records"
    if plan.delta * units < 1:
        return []
    return [
        f"delta = {plan.delta:g} is not below one in the {units} {unit}: a mechanism that hands "
        "over somebody's data whole could satisfy it. Take delta well below that."
    ]


def _of_the_clip(privacy: GaussianCentral) -> list[str]:
    if privacy.adaptive_clip is None:
        return []
    return [
        "The clip follows a noised count of the updates within it; the count's share of the noise "
        "is part of the epsilon told."
    ]


def _of_records(
    material: ReportMaterial, privacy: RecordPersonalised, plan: SpendingPlan
) -> list[str]:
    found: list[str] = []
    cohort = material.spec.training.cohort
    if isinstance(cohort, PoissonCohort) and cohort.rate < 1:
        found.append(
            "The server's figure is by the rounds of the client that took part most, which tells "
            "how often that was; the figure for the models takes the clients' coins as secret."
        )
    if privacy.budgets.distribution is not None:
        found.append(
            f"The budgets were drawn from the distribution {privacy.budgets.distribution} with the "
            "experiment's seed: nobody asked for them."
        )
    records = plan.records
    if records is None:
        return found
    section = records_section(material, records)
    if section.overspent != 0:
        found.append(
            f"{counted(section.overspent)} records spent more than their own budgets allow."
        )
    if section.left_out != 0:
        found.append(
            f"{counted(section.left_out)} records were never sampled: their budgets are too small "
            "for the accountant, or the baseline drops them. The model has learnt nothing from "
            "them."
        )
    return found
