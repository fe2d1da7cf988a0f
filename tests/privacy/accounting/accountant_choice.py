"""The accountant that a spec names."""

from fedaudit.privacy.accounting.accountant import Accountant, PldAccountant, RdpAccountant
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.spec.privacy import AccountantName


def accountant(name: AccountantName, *, adjacency: Adjacency) -> Accountant:
    """A new accountant. Rounds of record-level sampling have their own, `TwoStageAccountant`."""
    known: dict[AccountantName, type[Accountant]] = {"rdp": RdpAccountant, "pld": PldAccountant}
    return known[name](adjacency=adjacency)
