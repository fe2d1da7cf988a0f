"""Stored ledger rows as entries of the domain library."""

import numpy as np

from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.inputs import MechanismInputs
from models.records import LedgerRow


def entry_of(row: LedgerRow) -> LedgerEntry:
    """The entry that a row holds. Raises ValueError where its columns differ in length."""
    return LedgerEntry(
        round=row.round,
        release=row.release,
        subject_kind=row.subject_kind,
        observer=row.observer,
        inputs=MechanismInputs.from_dict(row.inputs),
        subjects=row.subjects,
        outcomes=row.outcomes.astype(np.uint8),
        radii=row.radii,
        releases=row.releases,
        clusters=row.clusters,
        interrupted=row.interrupted,
    )
