"""What canaries in a training elsewhere show so far, round after round.

Every number is measured in the noise that the ledger declares, whatever it is in each round: a
canary then comes through with at most the deviation of what is beside it, if the noise is as
declared. That is tested after each round by likelihood ratios that may be looked at after each
(`known_noise_e_value`).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from fedaudit.arrays import Bools
from fedaudit.privacy.lower_bounds.e_values import ENOUGH_ALONE, known_noise_e_value
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit
from fedaudit.spec.declared_ledgers import CanaryScores

CLAIMED = 1.0
"""What a canary sends, over the deviation of the declared noise, in units of that noise."""

TOGETHER = 0.9
"""What is staked on all releases together; the rest is staked on single rounds."""


@dataclass(frozen=True)
class CanaryEvidence:
    """The evidence after so many rounds; stored with each round, and covered by the chain."""

    product: float = 0.0
    weight: float = 0.0
    squares: float = 0.0
    numbers: int = 0
    """Numbers as in `SignalFit`, over all rounds with canaries."""
    rounds: int = 0
    """Rounds with canaries in every release."""
    present: str = ""
    """The coins of the newest canaries."""
    scores: tuple[float, ...] = ()
    """[canaries]: logarithms of likelihood ratios, but for a factor."""
    releases: int = 0
    passes: int = 1
    """Passes of the newest round."""
    squared_ratio: float = 0.0
    """Sum for these canaries over the releases that they were in, a ratio being the clip over the
    deviation of the declared noise."""
    singly: float = 1.0
    """The e-value of single rounds, in each of which noise may be missing that others have."""
    looks: int = 0
    """Rounds with any canaries."""
    e_value: float = 1.0
    """E-value of all releases together and of single rounds."""
    alarm_round: int | None = None
    """The first after which the evidence was enough."""

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Self:
        """Read what is stored; None is no evidence."""
        if stored is None:
            return cls()
        return cls(**{**stored, "scores": tuple(stored["scores"])})

    def as_dict(self) -> dict[str, Any]:
        """Return what is stored; one pass is stored as by versions that know no others."""
        found = {**asdict(self), "scores": list(self.scores)}
        if self.passes == 1:
            del found["passes"]
        return found

    @property
    def fit(self) -> SignalFit:
        """How the canaries come through beside the noise."""
        return SignalFit(self.product, self.weight, self.squares, self.numbers)

    @property
    def coins(self) -> Bools:
        """[canaries]"""
        return np.array([one == "1" for one in self.present])

    def after(self, found: CanaryScores, *, round_: int, multiplier: float, steps: int) -> Self:
        """Add one more round of noise with this multiplier. Canaries with other coins are new ones:
        each of them is scored by its own releases alone."""
        variance = multiplier * multiplier
        same = found.present == self.present
        before = np.array(self.scores) if same else 0.0
        fit = SignalFit(self.product, self.weight, self.squares, self.numbers)
        own = {name: getattr(found, name) / variance for name in ("product", "weight", "squares")}
        fit.add(**own, numbers=found.numbers)
        alone = known_noise_e_value(SignalFit(**own, numbers=found.numbers), claimed=CLAIMED)
        # Of the stake on single rounds: 1 / (k ln(k)^2), k from 2 up, adds up to less than 2.11.
        k = self.looks + 2
        singly = self.singly + 1 / (2.11 * k * math.log(k) ** 2) * (alone - 1)
        together = known_noise_e_value(fit, claimed=CLAIMED)
        e_value = TOGETHER * together + (1 - TOGETHER) * singly
        crossed = round_ if e_value >= ENOUGH_ALONE else None
        return type(self)(
            **asdict(fit),
            rounds=self.rounds + (found.releases == steps),
            present=found.present,
            scores=tuple((before + np.array(found.scores) / variance).tolist()),
            releases=found.releases + (self.releases if same else 0),
            passes=found.passes,
            squared_ratio=found.releases / variance + (self.squared_ratio if same else 0.0),
            singly=singly,
            looks=self.looks + 1,
            e_value=e_value,
            alarm_round=crossed if self.alarm_round is None else self.alarm_round,
        )


def by_round(stored: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> tuple[float, bool]:
    """The weight of the fit as of canaries that are spread evenly over the rounds, and whether no
    two rounds measured the same noise; from events, and what is stored of each round."""
    before, canaries, ratios, shown = CanaryEvidence(), list[float](), list[float](), set[str]()
    for event, found in stored:
        after, variance = CanaryEvidence.of(found), event["noise_multiplier"] ** 2
        ratios.append(event["steps"] / variance)
        # In each release, as often as they went through copies of it.
        entered = (after.weight - before.weight) / ratios[-1]
        canaries.append(min(len(after.present) * after.passes, entered))
        own = after.product - before.product, after.squares - before.squares
        shown.add(" ".join(f"{variance * one:.6g}" for one in own))
        before = after
    return min(canaries) * sum(ratios), len(shown) == len(ratios)
