"""Whether the attacks of a spec can be carried out on its data: a line for each kind. No torch.

The service asks when a spec is submitted, a worker and `fedaudit run` before they train.
"""

from typing import assert_never

from fedaudit.attacks.canaries import requirements_of_canaries
from fedaudit.attacks.cluster_membership import requirements_of_cluster_membership
from fedaudit.attacks.gradient_leakage import requirements_of_gradient_leakage
from fedaudit.attacks.membership import requirements_of_membership
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.attacks.cluster_membership_spec import ClusterMembershipSpec
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.attacks.membership_spec import MembershipSpec
from fedaudit.spec.errors import FieldError, InvalidInputError, pointer
from fedaudit.training.base.cell import Cell


def check_attacks(cell: Cell) -> None:
    """Raises InvalidInputError where an attack of the cell's spec cannot be carried out."""
    faults = [
        fault
        for position, attack in enumerate(cell.spec.attacks)
        for fault in _faults(attack, cell, at=pointer("attacks", position))
    ]
    if faults:
        raise InvalidInputError(faults)


def _faults(attack: AttackSpec, cell: Cell, *, at: str) -> list[FieldError]:
    match attack:
        case CanariesSpec():
            return requirements_of_canaries.faults(attack, cell, pointer=at)
        case MembershipSpec():
            return requirements_of_membership.faults(attack, cell, pointer=at)
        case GradientLeakageSpec():
            return requirements_of_gradient_leakage.faults(attack, cell, pointer=at)
        case ClusterMembershipSpec():
            return requirements_of_cluster_membership.faults(attack, cell, pointer=at)
        case _:
            assert_never(attack)
