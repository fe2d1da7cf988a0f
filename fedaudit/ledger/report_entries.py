"""Ledger entries that charge the held-out people for what is published of them.

They stand in the chain beside those that charge training, and are charged against an observer of
their own, `report`. Their one subject stands for every held-out client, or record, alike: noise
covers each of them, and each spends the same. Its name follows from the kind of subject and not
from the run's list of subjects.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedaudit.ledger.entries import LedgerEntry, MechanismParameters, Outcome
from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.privacy.count_release import CountRelease
from fedaudit.spec.fairness import HeldOutUnit

SUBJECT_KINDS: Mapping[HeldOutUnit, str] = {
    "client": "validation_client",
    "record": "validation_record",
}
"""By the unit that the noise covers."""
_NAMES = {
    "validation_client": ("every validation client",),
    "validation_record": ("every held-out record",),
}


def names_of_subjects(subject_kind: str, names: Sequence[str]) -> Sequence[str]:
    """The names that an entry's indices refer to; `names`: those of the run's subjects."""
    return _NAMES.get(subject_kind, names)


def stands_for_held_out(subject_kind: str) -> bool:
    """Whether a subject of the kind is none of the run's; only such entries have it."""
    return subject_kind in _NAMES


def charges_report(observer: str) -> bool:
    """Whether an entry charges the held-out people, and not those who train."""
    return observer == REPORT


def report_inputs(release: CountRelease, *, counts: int, noise: str) -> MechanismParameters:
    """The parameters of such an entry. `counts`: how many counts of all attributes get noise.

    `clip` is how far one unit moves them: the sum for discrete Laplace noise, the Euclidean length
    for Gaussian noise.
    """
    gaussian = release.mechanism == "gaussian"
    return MechanismParameters(
        mechanism=f"counts-{release.mechanism}",
        n=counts,
        noise_multiplier=release.noise_multiplier,
        radius=None,
        radius_floor=None,
        clip=release.l2 if gaussian else release.l1,
        noise=noise,
        guarantee="formal",
        event=release.event_json,
        delta=release.delta,
        adjacency=release.adjacency,
        accountant=release.accountant,
    )


def report_entry(
    count_release: CountRelease,
    inputs: MechanismParameters,
    *,
    round_: int,
    release: int,
    releases: int,
) -> LedgerEntry:
    """What the held-out people have spent after so many releases of their counts.

    `round_` and `release`: those of the round whose counts were published; of the report, the round
    behind the last. It stands behind the round's other entries, whose kinds of subjects come before
    it in the alphabet.
    """
    return LedgerEntry(
        round=round_,
        release=release,
        subject_kind=SUBJECT_KINDS[count_release.unit],
        observer=REPORT,
        inputs=inputs,
        subjects=np.zeros(1, dtype=np.int32),
        outcomes=np.array([Outcome.RELEASED], dtype=np.uint8),
        radii=np.full(1, np.nan),
        releases=np.array([releases], dtype=np.int32),
        clusters=np.full(1, -1, dtype=np.int16),
        epsilons=np.array([count_release.epsilon(releases)]),
    )
