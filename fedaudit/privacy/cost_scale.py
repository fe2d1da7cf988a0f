"""How much a privacy cost is: what it leaves uncertain, and what others state of theirs.

An epsilon, and the exponent of metric privacy where it bounds every two datasets, bound how much an
observation can change the odds between two datasets: by a factor of e^epsilon. The first two levels
are the tiers of Ponomareva et al., "How to DP-fy ML" (JAIR 77, 2023, section 5.2): at most 1 is
strong, at most 10 reasonable, beyond it weak to none. Beyond 20 we call it practically nothing:
somebody who gave a dataset a chance of one in a million could be 99.8 % sure of it afterwards.
"""

import math
from dataclasses import dataclass
from typing import Literal, assert_never

CostLevel = Literal["strong", "reasonable", "weak", "nothing", "unbounded"]
STRONG, REASONABLE, WEAK = 1.0, 10.0, 20.0
_EXACT_ODDS = 12.0


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What somebody states of a deployment."""

    name: str
    epsilon: tuple[float, float]
    """Smallest and largest."""
    delta: float
    unit: str
    source: str


DEPLOYMENTS = (
    Deployment(
        name="language models of Google's keyboard, trained by federated learning",
        epsilon=(0.994, 13.69),
        delta=1e-10,
        unit="person",
        source="Google Research blog, Advances in private training for production on-device "
        "language models, 21 February 2024",
    ),
    Deployment(
        name="assistive writing models of Microsoft",
        epsilon=(4.0, 4.0),
        delta=1e-7,
        unit="person",
        source="registry.opendp.org, entry Assistive AI",
    ),
    Deployment(
        name="births in Israel in 2014",
        epsilon=(9.98, 9.98),
        delta=0.0,
        unit="birth",
        source="registry.opendp.org, entry Israel's National Registry of Live Births of 2014",
    ),
    Deployment(
        name="emoji frequencies of Apple, on the device",
        epsilon=(4.0, 4.0),
        delta=0.0,
        unit="event",
        source="registry.opendp.org, entry Popular Emojis",
    ),
    Deployment(
        name="audience statistics of LinkedIn, in a month",
        epsilon=(34.9, 34.9),
        delta=7e-9,
        unit="person",
        source="registry.opendp.org, entry Audience Engagement API",
    ),
)
"""Deployments that state an epsilon, as their sources do. Units and observers differ."""


def cost_level(exponent: float | None) -> CostLevel:
    """How much a bound of e^exponent is worth; None for no bound at all."""
    if exponent is None or not math.isfinite(exponent):
        return "unbounded"
    if exponent <= STRONG:
        return "strong"
    if exponent <= REASONABLE:
        return "reasonable"
    return "weak" if exponent <= WEAK else "nothing"


def odds_words(exponent: float) -> str:
    """The factor e^exponent in words, rounded up."""
    if exponent > _EXACT_ODDS:
        return f"e^{math.ceil(exponent)}"
    factor = math.exp(exponent)
    digits = max(0, 1 - math.floor(math.log10(factor)))
    step = 10.0**-digits
    return f"{math.ceil(factor / step - 1e-9) * step:,.{digits}f}"


def guess_words(exponent: float, *, delta: float = 0.0) -> str:
    """How often a guess between two equally likely datasets is right at most, in percent, rounded
    up: (e^epsilon + delta) / (e^epsilon + 1)."""
    odds = math.exp(-exponent)
    wrong = (1 - delta) * odds / (1 + odds)
    digits = max(0, math.ceil(-math.log10(wrong)) - 2) if wrong > 0 else 0
    scale = 10.0**digits
    return f"{math.ceil((1 - wrong) * 100 * scale - 1e-9) / scale:.{digits}f}%"


def cost_words(exponent: float | None, *, guessed: str, delta: float = 0.0) -> str:
    """One sentence on how much a bound is. `guessed`: what it keeps uncertain, as in "whether a
    client's data were used"."""
    level = cost_level(exponent)
    if exponent is None or level == "unbounded":
        return "Nothing bounds what was disclosed."
    if level == "nothing":
        return (
            f"That is practically no protection: the odds of a guess at {guessed} may change "
            f"by a factor of {odds_words(exponent)}, which excludes practically nothing."
        )
    # Only now: beyond the levels left, the share of wrong guesses need not be a number.
    right = (
        f"a guess at {guessed}, both being equally likely, is right at most "
        f"{guess_words(exponent, delta=delta)} of the time"
    )
    match level:
        case "strong":
            return f"That is strong protection: {right}."
        case "reasonable":
            return f"That is reasonable protection: {right}."
        case "weak":
            return f"That is weak protection: {right}."
        case _:
            assert_never(level)
