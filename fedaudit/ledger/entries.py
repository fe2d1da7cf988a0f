"""One entry of the ledger: what every subject of one round spent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.privacy.count_release import CountRelease
from fedaudit.spec.fairness import HeldOutUnit

__all__ = ["OUTCOMES", "LedgerEntry", "MechanismParameters", "Outcome", "OutcomeName"]

OutcomeName = Literal["released", "refused", "withheld"]


class Outcome(IntEnum):
    """What became of a subject that a round was to charge: the code that entries hold."""

    RELEASED = 0
    REFUSED = 1
    """Its budget had no room; it took no part."""
    WITHHELD = 2
    """Its update was not finite; nothing left it."""


OUTCOMES: tuple[OutcomeName, ...] = ("released", "refused", "withheld")
"""The name of each outcome code."""

_RELEASED = int(Outcome.RELEASED)
_COLUMNS = ("outcomes", "radii", "releases", "clusters", "epsilons")


@dataclass(frozen=True)
class LedgerEntry:
    """What one round (and one release of it) cost its subjects against one observer.

    The columns run along the subjects, in any order. Raises ValueError where their lengths differ,
    or the radii are not one for each component.
    """

    round: int
    """From 1."""
    release: int
    """0 unless the round was repeated by a run with `release` noise."""
    subject_kind: str
    observer: str
    inputs: MechanismParameters
    subjects: NDArray[np.int32]
    """Indices of the charged subjects: the clients asked to take part, or the subjects that
    represent records or the population (`fedaudit.privacy.planning.plan`)."""
    outcomes: NDArray[np.uint8]
    """Codes into OUTCOMES."""
    radii: NDArray[np.float64]
    """The radius of the noise; NaN where nothing was released or there is no mechanism. Where the
    mechanism has components [subjects, components]."""
    releases: NDArray[np.int32]
    """The subject's releases up to and including this one."""
    clusters: NDArray[np.int16]
    """The cluster of the upload, as the server assigned it; -1 for none. Not part of the
    encoding."""
    interrupted: bool = False
    """Charged, but lost before its results were stored."""
    epsilons: NDArray[np.float64] | None = None
    """What the subject has spent up to and including this entry, as an epsilon at the delta of the
    parameters; None for a mechanism whose cost is not an epsilon."""

    def __post_init__(self) -> None:
        if self.inputs.counts_epsilon != (self.epsilons is not None):
            raise ValueError("epsilons go with an event and a delta, and only with them")
        for column in _COLUMNS:
            values = getattr(self, column)
            if values is not None and len(values) != len(self.subjects):
                raise ValueError(
                    f"{column} has {len(values)} values for "
                    f"{len(self.subjects)} subjects; give one each"
                )
        if np.shape(self.radii) != self.inputs.radii_shape(len(self.subjects)):
            raise ValueError("radii go with the components of the mechanism, one each")

    @property
    def released(self) -> NDArray[np.bool_]:
        """Of each subject, whether something of it was released."""
        released: NDArray[np.bool_] = self.outcomes == _RELEASED
        return released


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
