"""The attacks on a run: what each kind reports, and what raises an alarm."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.privacy.lower_bounds.e_values import EvidenceBasis
from fedaudit.reports.sections.part import Part, Section, Share
from fedaudit.spec.attacks import (
    AttackKind,
    CanaryUnit,
    LabelKnowledge,
    LeakageMethod,
    MembershipMethod,
)


class ConfidenceLimits(Part):
    """Both limits of a two-sided interval."""

    low: Share
    high: Share


class Alarm(Part):
    """Evidence against a claim of the report: the mechanism or its accounting is wrong."""

    claim: str
    """What was claimed, with unit, observer and figure."""
    evidence: str
    """What was measured, with its significance."""


class AttackSection(Part):
    """One attack in a report: what an officer reads first, then the figures of its kind."""

    status: Literal["done", "not-done"]
    reason: str | None
    """Why it could not be done; None where it was."""
    statement: str
    """What was tried, what came of it and what that does not show, in plain words."""
    capabilities: list[str]
    """What the attacker knows and may do, a sentence each."""
    alarm: Alarm | None = None
    alarm_reason: str | None = "this attack tested no claim"
    """Why `alarm` is null; where no claim was tested, so are the four fields below."""
    alarm_level: Annotated[float, Field(ge=0, le=1)] | None = None
    """The largest chance of an alarm if the claim is true; None where no claim was tested. With an
    `e_value` it covers any alarm of the run, however often the run is attacked; levels of earlier
    reports, which have none, add up."""
    e_value: Annotated[float, Field(ge=0)] | None = None
    """Evidence against the claim: at most 1 on average where it holds."""
    e_basis: EvidenceBasis | None = None
    evidence: Annotated[float, Field(ge=0)] | None = None
    """Evidence of all attacks on the run up to this one (`run_evidence`)."""


class NotDoneSection(AttackSection):
    """An attack without figures."""

    kind: AttackKind


class ReportedAttack(AttackSection):
    """What all kinds have in common, beside the figures of each kind. The class of the kind checks
    those when the section is made; a report that is read may be of another version, with other
    figures or kinds."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    kind: str
    alarm_reason: str | None = None


BoundName = Literal["known-noise", "f-dp", "one-run", "summed-releases"]
SUFFICIENT_POWER = 0.8
"""Below this power, silence is no all-clear."""


class CanaryBound(Part):
    """A lower bound on epsilon."""

    name: BoundName
    epsilon_lower_bound: Annotated[float, Field(ge=0)]
    """At the delta of the claim; 0 is no evidence of any loss."""
    significance: Share
    """The largest chance that the bound is above the truth."""
    power: Share
    """The chance of an alarm if the noise is half of what is claimed, in the first attack on a run;
    computed before the attack."""
    assumption: str
    """What the bound takes for granted."""
    canaries: Annotated[int, Field(ge=0)]
    all_clear: str | None
    """Why no alarm of this bound is no all-clear; None where an alarm would have been likely."""
    e_value: Annotated[float, Field(ge=0)] | None = None
    """Evidence against the claim by what this bound measures; None where none is claimed."""


class MetricAudit(Part):
    """Two inputs under the Laplace mechanism: its unit is a leakage, which is no epsilon of
    (epsilon, delta)-differential privacy."""

    radius: Literal["fixed", "adaptive"]
    leakage_claim: float
    """n/nu times the two inputs' distance over the radius; with an adaptive radius n/nu itself,
    which no theorem covers."""
    distance_over_radius: float | None
    """None where nothing was tested."""
    releases: int
    leakage_lower_bound: float | None
    """Lower bound at the significance; None where nothing was tested."""
    significance: Share | None
    power: Share | None
    assumption: str
    reason: str | None


class CanariesSection(AttackSection):
    """Canaries beside the claim that they test."""

    kind: Literal["canaries"] = "canaries"
    unit: CanaryUnit
    count: int
    included: int | None = None
    """How many the coins let in; None where nothing was trained."""
    claim: float | None = None
    """The epsilon promised to the canaries' unit over as many releases as the companion made; None
    where no epsilon is claimed."""
    claim_reason: str | None = None
    delta: float | None = None
    adjacency: Adjacency | None = None
    observer: Observer | None
    compositions: int | None = None
    """Releases that the claim counts."""
    correlation: float | None = None
    """The largest cosine between the directions of two canaries of one release: 0 where they are
    orthogonal or share no release; None where nothing was trained."""
    bounds: list[CanaryBound] = Field(default_factory=list)
    stopped_in: int | None = None
    """With `stop`: the companion's round in which the evidence was enough to end the run; None
    where it never was, or no one asked."""
    metric: MetricAudit | None = None


class NamedShare(Part):
    """The share of clients whose hypothesis the server names, by one rule."""

    value: Share | None = None
    interval: ConfidenceLimits | None = None
    """Clopper and Pearson's, at the section's `confidence`; the unit is the client."""
    reason: str | None = None


class ClusterMembershipResult(Part):
    """What the server inferred from uploads at one noise multiplier."""

    noise_multiplier: float
    nearest: NamedShare
    """By the hypothesis nearest to the upload."""
    assigned: NamedShare
    """By the cluster that the server puts the upload into, as the run does it."""
    separation: float | None
    """Median distance of uploads to their cluster's hypothesis, over that hypothesis's distance to
    the nearest other."""
    exponent_median: float | None
    """Between the two nearest hypotheses, over the uploads: the logarithm of the largest factor by
    which what the server receives can be likelier under one than under the other, for the same
    update. Of an adaptive radius it is heuristic, and rounded up to two digits."""
    exponent_max: float | None
    reasons: dict[str, str]


class ClusterMembershipSection(AttackSection):
    """How often the server names the hypothesis that a client chose, beside mere chance."""

    kind: Literal["cluster-membership"] = "cluster-membership"
    unit: Literal["client"] = "client"
    clients: int
    """Training clients, each of which makes one upload at each noise multiplier."""
    hypotheses: int
    smallest_distance: float
    """Between two of the hypotheses, Euclidean."""
    chance: Share | None
    """The share of the hypothesis that most clients chose: what naming it every time gets right."""
    confidence: float
    results: list[ClusterMembershipResult]
    """By noise multiplier, ascending."""
    reasons: dict[str, str]


class ShareInterval(Part):
    """Of a share of images, by exact limits over updates (Clopper and Pearson 1934)."""

    level: float
    low: float
    high: float


class LeakageBaseline(Part):
    """How near other images of the set come to an unknown one: medians over attacked images. Both
    baselines know more of the set than an attacker without an update does."""

    mean_image_mse: float | None = None
    """Error of the mean of the other attacked images; null where there is no other."""
    nearest_other_mse: float | None = None
    """Error of the nearest other attacked image."""
    mean_image_ssim: float | None = None
    nearest_other_ssim: float | None = None
    reason: str | None = None


class LeakageResult(Part):
    """The reconstructions at one noise multiplier."""

    noise_multiplier: float
    mse: float
    """Mean squared error of pixels from 0 to 1: the median over images."""
    psnr: float | None
    """Peak signal-to-noise ratio of that error in decibels; null where the error is 0."""
    psnr_reason: str | None
    ssim: float
    """Structural similarity (Wang et al. 2004): the median over images."""
    recovered_share: float | None = None
    """Share of images whose reconstruction has at most `recovered_below` times the error of either
    baseline; null where there are no baselines."""
    recovered_interval: ShareInterval | None = None
    better_share: float | None = None
    """Share of images whose reconstruction has a smaller error than both baselines."""
    better_interval: ShareInterval | None = None
    label_share: float | None
    """Share of images whose label the attacker has right; null where it needs none."""
    withheld: int
    """Attacked images whose update was not finite, so that nothing left; in no other figure."""


class GradientLeakageSection(AttackSection):
    """Reconstructions of training clients' images, at each noise multiplier."""

    kind: Literal["gradient-leakage"] = "gradient-leakage"
    method: LeakageMethod
    label: LabelKnowledge | None
    """How it came by the labels; null where it needs none."""
    per_layer: bool
    images: int
    iterations: int
    """Steps of each search; 0 where nothing is searched for."""
    restarts: int
    recovered_below: float
    """An image counts as recovered at this share of the smaller baseline's error."""
    baseline: LeakageBaseline | None
    results: list[LeakageResult]
    """Results in the order of the noise multipliers; empty where the attack was not done."""
    recovered_share: float | None
    """That of the smallest noise multiplier tried, in `results`."""
    recovered_share_reason: str | None
    nu_protecting: float | None
    """The smallest noise multiplier tried at and above which no reconstruction was better than its
    baselines. It describes this attacker and these images alone."""
    nu_protecting_reason: str | None
    nu_protecting_interval: ShareInterval | None
    """Interval of the share of images where this attacker beats the baselines at that noise."""


class RateAtFpr(Part):
    """The share of members that are found where so many non-members are taken for members."""

    fpr: Share
    """The share of non-members, at most, that may be taken for members."""
    tpr: Share | None = None
    interval: ConfidenceLimits | None = None
    """Interval of `tpr` at the section's `confidence`: Clopper and Pearson's, for as many
    independent rows as the rows of these clients are worth (Korn and Graubard 1998)."""
    reason: str | None = None


class ClaimedRate(Part):
    """What the claim of the run allows an attacker, whatever the attack."""

    fpr: Share
    tpr_max: Share
    """The largest share of members found that (epsilon, delta) allows at that share of
    non-members."""


class ClaimSection(Part):
    """The claim that the rates are held against."""

    epsilon: float
    """Epsilon of `steps` neighbours in a row."""
    delta: float
    claimed_epsilon: float
    claimed_delta: float
    unit: str
    adjacency: str
    observer: str
    steps: int
    """How many neighbouring datasets are between a run that trained on a row and one that did
    not."""
    rates: list[ClaimedRate]


class GroupMembership(Part):
    """The same of one group, at the thresholds of all rows; a suppressed group shows nothing."""

    value: str
    suppressed: bool = False
    auc: Share | None = None
    tpr_at_fpr: list[RateAtFpr] = Field(default_factory=list)
    """`fpr` is the group's own share of non-members beyond the common threshold."""
    reason: str | None = None


class AttributeMembership(Part):
    """The groups of one sensitive attribute."""

    attribute: str
    groups: list[GroupMembership]


class MembershipSection(AttackSection):
    """How well the trained hypotheses show which rows they were trained on."""

    kind: Literal["membership"] = "membership"
    method: MembershipMethod
    shadows: int | None
    """Shadow runs; None for `threshold`."""
    members: int
    """Rows attacked that were trained on."""
    non_members: int
    auc: Share
    """The chance that a member scores above a non-member; 0.5 is a guess."""
    tpr_at_fpr: list[RateAtFpr]
    membership_tpr_at_1pct: Share | None
    """`tpr` at an `fpr` of 1 %, which gates may bound."""
    confidence: float
    claim: ClaimSection | None
    groups: list[AttributeMembership]
    reasons: dict[str, str]


class Advantage(Part):
    """Right guesses of those who took part, less wrong ones of those who did not, as shares."""

    value: float
    low: float
    high: float
    """Exact limits of both shares together, at the section's `confidence`. Without shadow runs
    they take the threshold, a mean of these losses, as given, and are approximate."""


class ClientInferenceSection(AttackSection):
    """How well a client infers which others took part, beside clients that did not."""

    kind: Literal["client-inference"] = "client-inference"
    unit: Literal["client"] = "client"
    shadow_share: Share
    shadows: int | None
    """Shadow runs; None where the loss was compared with that of all clients."""
    took_part: int
    """Clients among whom cohorts are drawn: some may have been in none."""
    did_not: int
    auc: Share
    detectable_auc: Share
    """The AUC that would be noticed among these clients with a chance of 80 %, one-sided at 5 %."""
    advantage: Advantage
    tpr_at_fpr: list[RateAtFpr]
    confidence: float
    claim: ClaimSection | None
    reasons: dict[str, str]


def raised_alarms(report: Mapping[str, Any]) -> list[tuple[str, Alarm]]:
    """The kind of each attack that raised an alarm, and the alarm, in the report's order."""
    return [
        (str(attack["kind"]), Alarm.model_validate(attack["alarm"]))
        for attack in report.get("attacks") or []
        if isinstance(attack, Mapping) and attack.get("alarm") is not None
    ]


def alarm_words(kind: str, alarm: Alarm) -> str:
    """One sentence of what was claimed and what was found, without its full stop."""
    claim, evidence = alarm.claim.rstrip("."), alarm.evidence.rstrip(".")
    return f"the attack {kind} contradicts the guarantee: claimed was {claim}; found was {evidence}"


_NO_ATTACK = "No attack was run against this model: nothing here says what an adversary recovers."
_NO_GUARANTEE = (
    "An attack that found nothing shows that this one, with what it knew, found nothing: another "
    "may find more, and none of its figures is a guarantee."
)
_CONFIDENTIAL = (
    "What the attacks found follows from training data, and no guarantee covers it: neither the "
    "figures that are printed here nor the files that were stored beside this report."
)
_FIRST_SEED = "Attacks were on the first of the {repeats} seeds; of the others they say nothing."


def _attack_limits(material: Any) -> list[str]:
    """The sentences about the attacks that were made, or that none was."""
    repeats = material.spec.repeats
    done = [one for one in material.attacks if one.status == "done"]
    if not done:
        return [_NO_ATTACK]
    first = [_FIRST_SEED.format(repeats=repeats)] if repeats > 1 else []
    return [_NO_GUARANTEE, _CONFIDENTIAL, *first]


# What is checked: `evidence_checks` of `verification.checkpoints`, with later attacks.
ATTACKS = Section[Any, Any](
    "attacks",
    lambda material: material.attacks,
    "what an attack measured cannot be measured again; its e-values are added up anew",
    _attack_limits,
)
