"""A chain of links, followed from its first entry to its last."""

from collections.abc import Iterable

from fedaudit.ledger.encoding import genesis
from fedaudit.stored import LedgerRow
from tests.ledger.single_entry import link


def first_broken_link(experiment_id: str, rows: Iterable[LedgerRow]) -> int | None:
    """The position of the first row whose link does not follow from the rows before."""
    previous = genesis(experiment_id)
    for position, row in enumerate(rows):
        previous = link(previous, row.digest, row.clusters)
        if previous != row.link:
            return position
    return None
