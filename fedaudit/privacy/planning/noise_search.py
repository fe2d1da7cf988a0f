"""The smallest noise multiplier with which a run stays within a budget that was asked for.

Noise multipliers of four significant digits are tried, so that what is found reads well and was
itself projected. A figure falls as the noise grows, about as a power of it, which says where to try
next; bisection of their order, which is one of the logarithm, ends the search in any case.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.spec.errors import FieldError, InvalidInputError

Figure = Callable[[float], float]
"""What a run is projected to spend, by its noise multiplier."""

_DIGITS = 4
_FIRST: int = 10 ** (_DIGITS - 1)
_OF_A_DECADE = 9 * _FIRST
_GUESSES = 12


@dataclass(frozen=True, kw_only=True)
class TargetedFigure:
    """The projected figure that a target bounds."""

    name: Literal["epsilon", "leakage"]
    """Also the target's field below `privacy.target`."""
    terms: str
    """Of what it is the figure, in words."""
    figures: tuple[Figure, ...]
    """The last one counts. Each is a quicker approximation of the next: its result is where the
    search for the next begins."""
    decades: tuple[int, int]
    """Noise multipliers may be from 10 to the one to 10 to the other."""

    def projected(self, noise_multiplier: float) -> float:
        """The figure, by the accountant of the run."""
        return self.figures[-1](noise_multiplier)

    def least_noise(self, target: float) -> float:
        """The smallest noise multiplier, of four significant digits, at which the figure is at
        most `target`. Raises InvalidInputError where no multiplier in the range is enough."""
        lowest, highest = (decade * _OF_A_DECADE for decade in self.decades)
        found: int | None = 0
        for figure in self.figures:
            start = highest if found is None else found
            found = _smallest_place(figure, target, lowest=lowest, highest=highest, start=start)
        if found is not None:
            return _multiplier(found)
        most = _multiplier(highest)
        least = at_most(self.projected(most), digits=3)
        message = (
            f"cannot be met: with the largest noise multiplier, {most:g}, {self.terms} come to "
            f"{self.name} {least}; ask for at least that, or for fewer rounds"
        )
        if self.name == "epsilon":
            message += ", a larger delta, or `accountant: pld` where it applies"
        raise InvalidInputError([FieldError(f"/privacy/target/{self.name}", message, of_spec=True)])


def _smallest_place(
    figure: Figure, target: float, *, lowest: int, highest: int, start: int
) -> int | None:
    """The first of the multipliers' places at which the figure fits the target; None where none
    does."""
    too_low, fitting, place, tried = lowest - 1, highest + 1, start, 0
    noise, spent, power = 0.0, 0.0, 1.0
    while True:
        tried, last = tried + 1, (noise, spent)
        noise = _multiplier(place)
        spent = figure(noise)
        if spent <= target:
            fitting = place
        else:
            too_low = place
        if fitting - too_low == 1:
            return fitting if fitting <= highest else None
        place = (too_low + fitting) // 2
        if tried < _GUESSES and 0 < spent < math.inf:
            # Between two places a figure is about a power of the noise.
            if 0 < last[1] < math.inf and last[1] != spent:
                power = max(0.5, math.log(last[1] / spent) / math.log(noise / last[0]))
            place = _place(noise * min(spent / target, 1e9) ** (1 / power))
        place = max(too_low + 1, min(fitting - 1, place))


def _place(noise_multiplier: float) -> int:
    """The nearest place."""
    decade = math.floor(math.log10(noise_multiplier))
    beyond = round(noise_multiplier / math.pow(10, decade) * _FIRST) - _FIRST
    return decade * _OF_A_DECADE + beyond


def _multiplier(place: int) -> float:
    """The number at a place, 1 at 0: exactly as its four digits are written."""
    decade, beyond = divmod(place, _OF_A_DECADE)
    return float(f"{_FIRST + beyond}e{decade - _DIGITS + 1}")
