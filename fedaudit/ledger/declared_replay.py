"""Follow the entries of a declared ledger from a head that is known, and charge them anew."""

from collections.abc import Iterable, Sequence

import numpy as np

from fedaudit.ledger.chain import link
from fedaudit.ledger.declared_entries import charge_of_entry, declared_inputs
from fedaudit.ledger.declared_state import significant
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.ledger.rows import StoredRow, entry_of, place_of
from fedaudit.privacy.declared.declared_releases import Charge
from fedaudit.privacy.declared.histories import Counts, Histories, Tally
from fedaudit.spec.declared.ledger_terms import LedgerTerms


class Replay:
    """Entries behind a head: where they lead, what each round declared, and what they charged."""

    def __init__(
        self, terms: LedgerTerms, names: Sequence[str], *, head: bytes, entries: int
    ) -> None:
        """`entries`: how many lead to `head`. Raises ValueError where two names are equal."""
        self._terms = terms
        self._subjects = len(names)
        self._encoder = EntryEncoder(names)
        self.head = head
        self.entries = entries
        self.heads: dict[int, bytes] = {}
        """By number of entries, the head after each of those read."""
        self.rounds: dict[int, tuple[bytes, bytes | None]] = {}
        """By number, the head after a round and its declaration; None where the chain has none."""
        self._charged: dict[Charge, tuple[int, Counts]] = {}

    def read(self, row: StoredRow) -> None:
        """The next entry. Raises ValueError where it is none of this ledger's terms, or declares
        otherwise than the entry of the same round before it."""
        entry = entry_of(row)
        digest = self._encoder.digest(entry)
        before = self.rounds.get(entry.round)
        if before is not None and before[1] != row.declaration:
            raise ValueError(f"{place_of(row)} declares otherwise than the round's first entry")
        self.head = link(self.head, digest, entry.clusters, declaration=row.declaration)
        self.entries += 1
        self.heads[self.entries] = self.head
        self.rounds[entry.round] = (self.head, row.declaration)
        charge, steps = charge_of_entry(entry)
        if entry.inputs != declared_inputs(self._terms, charge, steps=steps):
            raise ValueError(f"{place_of(row)} is not of the ledger's terms")
        self._charge(charge, entry, steps, first=before is None)

    def before(self, stored: Histories) -> list[Tally]:
        """The tallies as they were behind the first head: what is stored, less what was read.

        Raises ValueError where the entries charged more than is stored, or otherwise.
        """
        found = list(_less(stored.tallies.values(), self._charged))
        unknown = self._charged.keys() - stored.tallies.keys()
        if unknown:
            raise ValueError(f"no tally counts {next(iter(unknown)).event}, which entries charge")
        return found

    def _charge(self, charge: Charge, entry: LedgerEntry, steps: int, *, first: bool) -> None:
        rounds, counts = self._charged.get(charge, (0, np.zeros(self._subjects, dtype=np.int64)))
        counts[0 if charge.everyone else entry.subjects] += steps
        self._charged[charge] = rounds + first, counts


def _less(stored: Iterable[Tally], charged: dict[Charge, tuple[int, Counts]]) -> Iterable[Tally]:
    """Raises ValueError as `Replay.before`."""
    for tally in stored:
        rounds, counts = charged.get(tally.charge, (0, np.zeros(0, dtype=np.int64)))
        left = np.zeros(max(len(counts), len(tally.counts)), dtype=np.int64)
        left[: len(tally.counts)] = tally.counts
        left[: len(counts)] -= counts
        found = Tally(tally.charge, tally.rounds - rounds, left)
        kept = significant(found)
        if found.rounds < 0 or (kept < 0).any() or (not found.rounds and len(kept)):
            raise ValueError(f"the tally of {tally.charge.event} is not what entries charged")
        if found.rounds:
            yield found
