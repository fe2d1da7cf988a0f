"""What a report of counts with noise does not show of the held-out people."""

from typing import assert_never

from fedaudit.privacy.count_release import CountRelease, count_release
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.sections.fairness_privacy import is_secret
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import publishes_noised_rounds

_SIMULATED = (
    "The noise on the fairness counts was simulated: whoever has the seed can subtract it, so "
    "fairness_privacy protects nobody here."
)
_COSTS = (
    "fairness.privacy_cost_by_group was asked for: what training cost each group reveals something "
    "of the sensitive values of training clients, whom neither the guarantee nor fairness_privacy "
    "covers here."
)


def noised_limits(spec: ExperimentSpec) -> list[str]:
    """The sentences about validation and fairness for a run with `fairness.noise`.

    Raises ValueError for a spec without it.
    """
    release = count_release(spec)
    if release is None:
        raise ValueError("the counts of this run have no noise")
    found = [
        "Fairness figures are those of counts with noise, and everything else that was computed "
        f"from the data of held-out people is left out: losses, accuracy, {_left_out(spec)}by "
        "hypothesis, averages over clients and nulls.",
        "fairness_privacy covers these figures, given the model and the split. It does not cover "
        "the numbers of clients and rows, the values of the attributes, nor the hash of the data, "
        "which are taken to be known, and nothing that other reports on the same people say: the "
        "federation's budget counts those.",
        "No loss chose the best round or ended training: the hypotheses are those of the last "
        "round, and a model that diverged is reported as it is.",
        "Intervals are for the gaps in the population that the held-out people were drawn from, "
        "noise included; a gap's value is computed from clamped counts and is biased where the "
        "noise is as large as a group.",
        *_limit_unit(release),
        f"Groups with fewer than {spec.fairness.minimum_group_size} rows by the noised counts are "
        "left out, since noise would outweigh people; a gap may be larger among them.",
    ]
    if not is_secret(spec):
        found.append(_SIMULATED)
    if spec.fairness.privacy_cost_by_group and mechanism_of(spec).no_group_costs is None:
        found.append(_COSTS)
    return found + list(spec.federation.traits.fairness_limits)


def _left_out(spec: ExperimentSpec) -> str:
    if publishes_noised_rounds(spec.fairness):
        return "figures "
    return "figures of rounds, "


def _limit_unit(release: CountRelease) -> list[str]:
    match release.unit:
        case "client":
            return [
                f"At most {release.max_rows} rows of a client count towards an attribute, drawn at "
                "random where it has more, so clients with more rows weigh less than their rows. "
                "Intervals are for the gap in a population counted so: where larger clients fare "
                "otherwise, the gap over all rows may lie outside. How many rows were left out is "
                "not stated. Intervals allow for all rows of a client "
                "being alike, and are wide where they are not."
            ]
        case "record":
            return [
                "Intervals take the rows for drawn one by one: where rows of one client are alike "
                "they are too narrow. A client with several rows is protected less than a record."
            ]
        case _:
            assert_never(release.unit)
