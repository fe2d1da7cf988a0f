"""What an audit may disclose beside earlier reports: on the same data, and on nearly the same."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.fairness.earlier_disclosures import DisclosedRows
from fedaudit.fairness.scored_groups import DisclosureDecision, ScoredGroups
from models.repositories import DisclosureRepository
from workers.disclosure_memory import disclosed_before, stored_sets

if TYPE_CHECKING:
    from fedaudit.audits.audited_rows import AuditedRows

Known = Sequence[list[DisclosedRows]]
"""Of each memory, what it held."""

_BY_CONTENTS = hashlib.sha256(b"rows by what they hold").hexdigest()


@dataclass(frozen=True, eq=False)
class Memory:
    """The sets of rows that were disclosed under one numbering of the rows."""

    key: str
    """Of the data: a fingerprint, or what stands for files with the same columns."""
    numbering: str
    groups: ScoredGroups
    client_of: NDArray[np.int64]

    def earlier(self, session: Session) -> list[DisclosedRows]:
        """What was disclosed before."""
        return disclosed_before(session, self.key, numbering=self.numbering)


def memories_of(project_id: str, fingerprint: str, rows: "AuditedRows") -> list[Memory]:
    """That of the file, which runs share, and those of the project's files with the same columns:
    with all of them the same, and with all but truth and prediction.

    The latter two only where rows can be known again by what they hold.
    """
    from fedaudit.audits.audited_rows import ROW_NUMBERING

    numbering = hashlib.sha256(ROW_NUMBERING).hexdigest()
    found = [Memory(fingerprint, numbering, rows.scored, rows.client_of)]
    for contents in rows.contents:
        key = hashlib.sha256(f"{project_id} {contents.columns}".encode()).hexdigest()
        groups, client_of = rows.by_contents(contents), rows.client_of_contents(contents)
        found.append(Memory(key, _BY_CONTENTS, groups, client_of))
    return found


def decide(memories: Sequence[Memory], known: Known) -> list[DisclosureDecision]:
    """What is withheld beside all of them together; every decision withholds the same."""
    withheld: frozenset[str] = frozenset()
    while True:
        found = []
        for memory, earlier in zip(memories, known, strict=True):
            one = memory.groups.decide_beside(
                earlier, client_of=memory.client_of, withheld=withheld
            )
            withheld = one.withheld
            found.append(one)
        if all(one.withheld == withheld for one in found):
            return found


def remember(
    session: Session,
    memories: Sequence[Memory],
    known: Known,
    decisions: list[DisclosureDecision],
) -> frozenset[str]:
    """Adds what is disclosed; decided anew where another report was quicker than `known`."""
    disclosed = DisclosureRepository(session)
    # In one order, so that two that lock the same memories do not wait for each other.
    for key in sorted(memory.key for memory in memories):
        disclosed.lock(key)
    now = [memory.earlier(session) for memory in memories]
    if [len(one) for one in now] != [len(one) for one in known]:
        decisions = decide(memories, now)
    for memory, decision in zip(memories, decisions, strict=True):
        disclosed.add(memory.key, numbering=memory.numbering, sets=stored_sets(decision))
    return decisions[0].withheld
