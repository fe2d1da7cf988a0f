"""What a report says of membership inference. A figure that is None has its reason beside it."""

from typing import Literal

from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.reports.document.attacks.confidence_limits import ConfidenceLimits, Share
from fedaudit.reports.document.part import Part
from fedaudit.spec.attacks.membership_spec import MembershipMethod, ScoreVariance, ShadowVariant


class RateAtFpr(Part):
    """The share of members that are found where so many non-members are taken for members."""

    fpr: Share
    """The share of non-members, at most, that may be taken for members."""
    tpr: Share | None
    """The share of members found."""
    interval: ConfidenceLimits | None
    """Of `tpr`, at the section's `confidence`: Clopper and Pearson's, for as many independent rows
    as the rows of these clients are worth (Korn and Graubard 1998)."""
    reason: str | None


class ClaimedRate(Part):
    """What the claim of the run allows an attacker, whatever the attack."""

    fpr: Share
    tpr_max: Share
    """The largest share of members found that (epsilon, delta) allows at that share of
    non-members."""


class ClaimSection(Part):
    """The claim that the rates are held against."""

    epsilon: float
    """Of `steps` neighbours in a row."""
    delta: float
    claimed_epsilon: float
    claimed_delta: float
    unit: str
    adjacency: str
    observer: str
    steps: int
    """How many neighbouring datasets lie between a run that trained on a row and one that did
    not."""
    rates: list[ClaimedRate]


class MembershipRates(Part):
    """How well one way to score rows tells members from others."""

    variant: ShadowVariant | None
    variance: ScoreVariance | None
    auc: Share
    tpr_at_fpr: list[RateAtFpr]


class GroupMembership(Part):
    """The same of one group, at the thresholds of all rows; a suppressed group shows nothing."""

    value: str
    suppressed: bool
    auc: Share | None
    tpr_at_fpr: list[RateAtFpr]
    """`fpr` is the group's own share of non-members beyond the common threshold."""
    reason: str | None


class AttributeMembership(Part):
    """The groups of one sensitive attribute."""

    attribute: str
    groups: list[GroupMembership]


class MembershipSection(AttackSection):
    """How well the trained hypotheses tell which rows they were trained on."""

    kind: Literal["membership"]
    method: MembershipMethod
    variant: ShadowVariant | None
    """Of `likelihood-ratio`; None otherwise."""
    variance: ScoreVariance | None
    shadows: int | None
    """Shadow runs; None for `threshold`."""
    fewest_with: int | None
    """Shadow runs that trained on a row, at least, over the rows attacked."""
    fewest_without: int | None
    members: int
    """Rows attacked that were trained on."""
    non_members: int
    auc: Share
    """The chance that a member scores above a non-member; 0.5 is a guess."""
    tpr_at_fpr: list[RateAtFpr]
    membership_tpr_at_1pct: Share | None
    """`tpr` at an `fpr` of 1 %, which gates may bound."""
    confidence: float
    """Of every interval."""
    others: list[MembershipRates]
    """The other ways to make scores of the same shadow runs, for comparison: no alarm rests on
    them."""
    not_normal_share: Share | None
    """Of `likelihood-ratio`: the share of rows whose scores a Shapiro-Wilk test calls not normal,
    at a level of 5 % a row; 0.05 is what normal scores give."""
    not_normal_rows: int | None
    """Of how many rows."""
    claim: ClaimSection | None
    groups: list[AttributeMembership]
    reasons: dict[str, str]
