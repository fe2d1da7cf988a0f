"""What hypothesis membership asks of the data. No torch."""

from fedaudit.federations.split import training_clients
from fedaudit.spec.attacks.cluster_membership_spec import ClusterMembershipSpec
from fedaudit.spec.errors import FieldError
from fedaudit.training.base.cell import Cell


def faults(spec: ClusterMembershipSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Every reason why the attack cannot be carried out on the cell's data."""
    clients = training_clients(cell.federation.clients, cell.spec.federation)
    least = cell.spec.fairness.minimum_group_size
    if clients >= least:
        return []
    message = (
        "too few clients train: what is told of fewer than `fairness.minimum_group_size` "
        f"({least}) choices is suppressed; use data with more clients, or leave this attack out"
    )
    return [FieldError(f"{pointer}/kind", message, of_spec=True)]
