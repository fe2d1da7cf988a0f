"""Which attack carries out what a spec asks for: a line for each kind. Imports torch."""

from typing import assert_never

from fedaudit.attacks.attack import Attack
from fedaudit.attacks.canaries.canary_attack import CanaryAttack
from fedaudit.attacks.cluster_membership.cluster_membership_attack import ClusterMembershipAttack
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import GradientLeakageAttack
from fedaudit.attacks.membership.membership_attack import MembershipAttack
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.attacks.cluster_membership_spec import ClusterMembershipSpec
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.attacks.membership_spec import MembershipSpec


def attack_of(spec: AttackSpec) -> Attack:
    """The attack; `feasibility` says beforehand whether it fits the data."""
    match spec:
        case CanariesSpec():
            return CanaryAttack(spec)
        case MembershipSpec():
            return MembershipAttack(spec)
        case GradientLeakageSpec():
            return GradientLeakageAttack(spec)
        case ClusterMembershipSpec():
            return ClusterMembershipAttack(spec)
        case _:
            assert_never(spec)
