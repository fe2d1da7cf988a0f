"""One entry of the ledger: what every subject of one round spent."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters

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
