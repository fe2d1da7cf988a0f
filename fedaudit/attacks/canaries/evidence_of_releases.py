"""What an adversary learns of canaries from the releases that it is shown, added up over them."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_set import CanarySet
from fedaudit.attacks.canaries.kept_numbers import KeptNumbers
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, evidence


class ReleaseEvidence:
    """Scores of canaries, and the fit of their signal to the noise. Releases are given in clips,
    less all that is known of them."""

    def __init__(self, canaries: CanarySet, law: ReleaseLaw) -> None:
        """`law`: the claimed one of one release, by which scores weigh what they see."""
        self._canaries, self._law = canaries, law
        self.fit = SignalFit()
        self.kept = KeptNumbers(canaries)
        self.seen = np.zeros(len(canaries.coins), dtype=np.int64)
        """[canaries]: releases that it might have been in."""
        self.scores = np.zeros(len(canaries.coins))
        """[canaries]: the logarithm of the likelihood ratio, of all releases."""
        self.participations = np.zeros(len(canaries.coins), dtype=np.int64)
        """[canaries]: releases that it entered, which its scores do not know."""

    def see(
        self,
        releases: NDArray[np.float64],
        *,
        which: NDArray[np.int64],
        numbers: NDArray[np.int64],
        took_part: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Adds releases [releases, n], and returns what canaries added to each: `numbers` are the
        canaries that might be in them, in the release `which` of each, and `took_part` those that
        are."""
        canaries = self._canaries
        turns = canaries.turns(numbers, self.seen)
        along = turns * canaries.directions.along(releases, which, numbers)
        np.add.at(self.scores, numbers, evidence(along, self._law))
        inside = numbers[took_part]
        self.seen[numbers] += 1
        self.participations[inside] += 1
        sent = (canaries.sent[numbers] * turns)[took_part]
        signal = canaries.directions.summed(sent, which[took_part], inside, releases=len(releases))
        held, first = np.unique(which, return_index=True)
        self.kept.see(releases[held], signal[held], canaries.release[numbers[first]])
        self.fit.add(
            product=float((releases * signal).sum()),
            weight=float(np.square(signal).sum()),
            squares=float(np.square(releases).sum()),
            numbers=releases.size,
        )
        return signal
