"""What a report does not show, in one plain sentence each."""

from typing import assert_never

from fedaudit.privacy.guarantees.guarantee import start_limit
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.sections.limitations.attack_limits import attack_limits
from fedaudit.reports.sections.limitations.disclosure_limits import disclosure_limits
from fedaudit.reports.sections.limitations.epsilon_limits import (
    SIMULATED,
    epsilon_limits,
    withheld_updates,
)
from fedaudit.reports.sections.limitations.floating_point import floating_point_limits
from fedaudit.reports.sections.limitations.noised_limits import noised_limits
from fedaudit.reports.sections.method_section import method_limits
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy

_UNSIGNED = (
    "The report is not signed. Its hash chain shows changed or missing entries, but not that the "
    "newest ones were cut off, unless the chain's head is kept elsewhere."
)
_APART = (
    "Budgets of this service are kept for each project apart: what another project spends on the "
    "same data is in none of this one's figures."
)
_FOUND_CLASSES = (
    "Which classes there are was found in the data and is taken as known: a record of a class that "
    "no other one has would change the size of the model, which no figure covers."
)
_SIGNED = (
    "The signature shows that whoever held the key stated this, and that nothing was changed "
    "since. It does not show that what was stated is true, nor when."
)


def limits(material: ReportMaterial) -> list[str]:
    """The sentences that apply to this run, privacy first."""
    start = start_limit(material.spec.model.start)
    return [
        *([] if start is None else [start]),
        *_limit_mechanism(material),
        *_limit_data(material),
        *_limit_held_out(material),
        *disclosure_limits(material.disclosure_policy, material.spec),
        *_limit_training(material),
        *attack_limits(material.attacks, repeats=material.spec.repeats),
        _limit_run(material),
        *([_APART] if material.budgets_apart else []),
        _UNSIGNED if material.key_id is None else _SIGNED,
    ]


def _limit_run(material: ReportMaterial) -> str:
    others = "what other experiments spent on the same data is kept in the federation's budget."
    if material.spec.repeats == 1:
        return f"The figures are of one run with one seed, and of this run alone: {others}"
    return (
        f"But for those over seeds, the figures are of the run with seed {material.spec.seed} "
        f"alone: {others}"
    )


def _limit_mechanism(material: ReportMaterial) -> list[str]:
    cost_kind = material.inputs.cost_kind
    match cost_kind:
        case "epsilon":
            if material.plan is None:
                raise ValueError("a report of an epsilon needs the spending plan of its run")
            return epsilon_limits(material, material.plan)
        case "leakage":
            return _limit_leakage(material)
        case "unbounded":
            return mechanism_of(material.spec).limits()
        case _:
            assert_never(cost_kind)


def _limit_leakage(material: ReportMaterial) -> list[str]:
    found = [
        "Leakage is metric privacy: a cost within a distance. It is not the epsilon of "
        "(epsilon, delta)-differential privacy and must not be compared with it or added to it."
    ]
    if material.inputs.noise == "simulation":
        found.append(SIMULATED)
    found += mechanism_of(material.spec).limits()
    return [*found, *floating_point_limits(material), *withheld_updates(material)]


def _limit_data(material: ReportMaterial) -> list[str]:
    return [
        "The numbers of clients and rows and a hash of the data are disclosed without noise: "
        "anyone who guesses the whole data set can confirm the guess.",
        *material.spec.federation.traits.data_limits,
        *([_FOUND_CLASSES] if _finds_classes(material.spec) else []),
    ]


def _finds_classes(spec: ExperimentSpec) -> bool:
    return spec.classifies and spec.federation.traits.finds_classes


def _limit_held_out(material: ReportMaterial) -> list[str]:
    if material.spec.fairness.noise is not None:
        return noised_limits(material.spec)
    return [*_limit_validation(material), *_limit_fairness(material)]


def _limit_validation(material: ReportMaterial) -> list[str]:
    by_record = material.spec.federation.holds_out_rows
    rows, who = (
        ("the rows held out of every client", "held-out rows")
        if by_record
        else ("the real rows of the validation clients", "validation clients")
    )
    return [
        f"Validation losses, early stopping and fairness figures use {rows}, without noise or "
        "guarantee.",
        f"The {who} that decided when to stop also give the final figures, which are therefore "
        "somewhat optimistic; selection_loss, the smallest loss over hypotheses, is for stopping "
        "only.",
    ]


def _limit_fairness(material: ReportMaterial) -> list[str]:
    fairness = material.spec.fairness
    if not fairness.sensitive:
        return ["No sensitive attribute was named: nothing here says how groups fare."]
    found = [
        "Rates and gaps are pooled over the scored rows; those averaged over clients, beside them "
        "under client_averaged, are different figures.",
        f"Groups with fewer than {fairness.minimum_group_size} scored rows, or with rows of fewer "
        f"than {fairness.minimum_group_clients} clients, are suppressed, and so are groups from "
        "which so few would follow by sums and differences of what this report shows of all "
        "attributes; a gap may be larger among suppressed groups.",
        _limit_counts(material),
        "The largest gap among many groups is biased upward, and so is its interval: it cannot "
        "show that there is no gap. A null shows how wide it comes out by chance alone; a small "
        "p-value shows that groups differ, not why.",
    ]
    if fairness.privacy_cost_by_group and mechanism_of(material.spec).no_group_costs is None:
        found.append(
            "fairness.privacy_cost_by_group was asked for: what training cost each group reveals "
            "something of the sensitive values of training clients, whom the guarantee speaks of "
            "and which it does not cover here. The figures are coarse, so one report says little; "
            "many reports on the same clients say more."
        )
    if any(", in no group: " in note for note in material.federation.notes):
        found.append(
            "Rows without a value of an attribute are in no group. Groups are suppressed where the "
            "figures of other attributes' groups would reveal these rows, and not where those of "
            "everybody do: the accuracy less that of the groups shown is theirs."
        )
    if not material.spec.declares_outcome:
        found.append(
            "No outcome was declared favourable: groups are compared by their losses alone, which "
            "do not say whom an error favours."
        )
    found += material.spec.federation.traits.fairness_limits
    if material.result.single_row_clients:
        found.append(
            f"{material.result.single_row_clients} validation clients have one row only and were "
            "scored with the same hypothesis, since none could be chosen without that row."
        )
    return found


def _limit_counts(material: ReportMaterial) -> str:
    """How far the counts behind published rates can be worked out."""
    base = material.spec.fairness.rounded_to
    if base is None:
        return (
            "Rates of larger groups are exact and may rest on few rows with one outcome: the "
            "counts behind them can be worked out, and what remains of the total bounds the counts "
            "of the suppressed groups, together and at times one by one."
        )
    return (
        f"Rates and gaps follow from counts that were rounded at random to multiples of {base}, "
        "without bias; the same people are rounded alike in every report of one service. "
        f"Intervals, nulls and averages over clients are given in steps of about {base} rows, "
        f"losses of groups to two digits. Each rounded count lies within {base - 1} rows of the "
        "exact one; several figures of one report, or the exact accuracy and loss over all people, "
        "can narrow that down, at times to one number: this is rounding and no noise with an "
        "epsilon."
    )


def _limit_training(material: ReportMaterial) -> list[str]:
    found = method_limits(material.spec)
    if material.result.collapsed_rounds:
        found.append(
            f"In {material.result.collapsed_rounds} of {material.result.rounds} rounds the "
            "uploads all fell into one of several clusters: only one hypothesis was trained."
        )
    if material.spec.training.relocates and material.spec.training.hypotheses > 1:
        found.append(
            "Empty clusters were moved to the farthest upload, so clusters are not the clients' "
            "own choices."
        )
    return [*found, *_limit_ending(material.result.stopped_by)]


def _limit_ending(stopped_by: StoppedBy) -> list[str]:
    match stopped_by:
        case "rounds" | "patience" | "budget" | "audit":
            return []
        case "diverged":
            return [
                "Training diverged: the figures are of the best round before that, or of the "
                "hypotheses that training started from where there is none (round 0)."
            ]
        case _:
            assert_never(stopped_by)
