"""The smallest noise multiplier with which a run stays within a budget that was asked for.

Noise multipliers of four significant digits are tried, so that what is found reads well and was
itself projected. A figure falls as the noise grows; bisection of their order is bisection of the
logarithm, to within a thousandth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.spec.errors import FieldError, InvalidInputError

Figure = Callable[[float], float]
"""What a run is projected to spend, by its noise multiplier."""

_DIGITS = 4
_FIRST = 10 ** (_DIGITS - 1)
_OF_A_DECADE = 9 * _FIRST


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
        found: int | None = None
        for figure in self.figures:
            found = _smallest_place(figure, target, lowest=lowest, highest=highest, start=found)
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
    figure: Figure, target: float, *, lowest: int, highest: int, start: int | None
) -> int | None:
    """The first of the multipliers' places at which the figure fits the target; None where none
    does. The search widens from `start`, or begins with all places."""

    def fits(place: int) -> bool:
        return figure(_multiplier(place)) <= target

    fitting, too_low, step = highest if start is None else start, lowest - 1, 1
    while not fits(fitting):
        if fitting == highest:
            return None
        too_low, fitting, step = fitting, min(fitting + step, highest), 2 * step
    while start is not None and too_low < lowest < fitting:
        lower = max(fitting - step, lowest)
        if fits(lower):
            fitting, step = lower, 2 * step
        else:
            too_low = lower
    while fitting - too_low > 1:
        middle = (fitting + too_low) // 2
        if fits(middle):
            fitting = middle
        else:
            too_low = middle
    return fitting


def _multiplier(place: int) -> float:
    """The number at a place, 1 at 0: exactly as its four digits are written."""
    decade, beyond = divmod(place, _OF_A_DECADE)
    return float(f"{_FIRST + beyond}e{decade - _DIGITS + 1}")
