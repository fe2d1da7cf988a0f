"""Every kind of attack that a spec may ask for."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackPart
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.attacks.client_inference_spec import ClientInferenceSpec
from fedaudit.spec.attacks.cluster_membership_spec import ClusterMembershipSpec
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.attacks.membership_spec import MembershipSpec

AttackSpec = Annotated[
    CanariesSpec
    | MembershipSpec
    | GradientLeakageSpec
    | ClusterMembershipSpec
    | ClientInferenceSpec,
    Field(discriminator="kind"),
]
AttackKind = Literal[
    "canaries", "membership", "gradient-leakage", "cluster-membership", "client-inference"
]


def attack_titles() -> dict[str, str]:
    """What each kind asks, as a title for people."""
    parts: tuple[type[AttackPart], ...] = get_args(get_args(AttackSpec)[0])
    return {part.model_fields["kind"].default: part.question for part in parts}
