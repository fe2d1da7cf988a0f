"""What a membership attack says in plain language."""

from typing import assert_never

from fedaudit.attacks.membership.claimed_rates import Claim
from fedaudit.attacks.membership.found_members import FoundMembers
from fedaudit.spec.attacks.membership_spec import MembershipSpec
from fedaudit.spec.experiment import ExperimentSpec


def capabilities(spec: MembershipSpec, attacked: ExperimentSpec) -> list[str]:
    """What the attacker knows and may do."""
    found = [
        "Has the trained hypotheses, of the round that the run keeps, and nothing of the rounds "
        "themselves.",
        "Has every row that is asked about, with its target, and does not know whether it was "
        "trained on.",
    ]
    if attacked.training.hypotheses > 1:
        found.append(
            "Has the other rows of the row's client, and looks at a row under the hypothesis that "
            "fits those best; the row itself has no say, unless its client has no other."
        )
    match spec.method:
        case "threshold":
            found.append("Takes rows with the smallest losses for members.")
        case "likelihood-ratio" | "relative":
            found.append(
                f"Knows the spec but for its seed, and trains {spec.shadows} shadow runs by it on "
                "random halves of all clients' data."
            )
        case _:
            assert_never(spec.method)
    found.append(
        "Does not know the seed of the run: whoever knows it knows the split, and has nothing to "
        "guess."
    )
    return found


def statement(
    spec: MembershipSpec,
    attacked: ExperimentSpec,
    *,
    auc: float,
    found: list[FoundMembers],
    claim: Claim | str,
    alarmed: bool,
) -> str:
    """What was tried, what came of it and what that does not show."""
    sentences = [
        f"{_tried(spec)} A member scored above a non-member in {auc:.1%} of pairs (AUC), where "
        "guessing gives 50 %."
    ]
    for level in found:
        if level.tpr is not None and level.limits is not None:
            sentences.append(
                f"With at most {level.fpr:.1%} of the non-members taken for members, "
                f"{level.tpr:.2%} of the members were found ({level.limits.low:.2%} to "
                f"{level.limits.high:.2%}); guessing finds {level.fpr:.1%}."
            )
        elif level.reason is not None:
            sentences.append(f"There is no rate at {level.fpr:.1%}: {level.reason}.")
    if isinstance(claim, str):
        sentences.append(f"The rates are held against no claim: {claim}.")
    else:
        sentences.append(_beside(claim, found))
        sentences.append(
            "That the measurement exceeds it is evidence that the mechanism or its accounting is "
            "wrong."
            if alarmed
            else "The limits that one row of each client gives do not contradict it, which does "
            "not prove it."
        )
    sentences += [
        "Members and non-members were told apart by the split alone, which draws them at random, "
        "so nothing but training distinguishes them; held-out rows do help to choose the round "
        "that is kept, which no claim covers, and which makes their losses a little smaller.",
        "A better attack may find more, so a small rate is no guarantee.",
    ]
    if spec.shadows is not None:
        sentences.append(
            "The shadow runs used the run's spec and code with noise of their own, never that "
            "which the run drew; they moved no figure of the run and were charged to no budget."
        )
    if attacked.privacy.noise == "release":
        sentences.append(
            "These figures follow from the training data, and no guarantee covers them: keep them "
            "confidential."
        )
    return " ".join(sentences)


def _tried(spec: MembershipSpec) -> str:
    match spec.method:
        case "threshold":
            return "Rows were taken for members by their loss alone (Yeom et al. 2018)."
        case "likelihood-ratio":
            return (
                f"Rows were taken for members by a likelihood ratio, {spec.variant} and with a "
                f"{spec.variance} variance, over {spec.shadows} shadow runs (LiRA, Carlini et al. "
                "2022)."
            )
        case "relative":
            return (
                f"Rows were taken for members by their likelihood relative to {spec.shadows} "
                "shadow runs and to other rows (RMIA, Zarifzadeh et al. 2024)."
            )
        case _:
            assert_never(spec.method)


def _beside(claim: Claim, found: list[FoundMembers]) -> str:
    allowed = ", ".join(f"{claim.tpr_max(one.fpr):.2%} at {one.fpr:.1%}" for one in found)
    steps = "" if claim.steps == 1 else f" ({claim.steps} neighbours lie between the two)"
    return f"The claim, {claim}, allows at most {allowed}{steps}."
