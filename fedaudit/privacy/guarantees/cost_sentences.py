"""How much a privacy cost is: what a guess may gain by it.

An epsilon, and the exponent of metric privacy where it bounds every two datasets, bound how much an
observation can change the odds between two datasets: by a factor of e^epsilon. A guess between two
that are equally likely is right half of the time without the observation, and with it at most

    (e^epsilon + delta) / (e^epsilon + 1)

of the time (Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy",
section 2). The levels are ranges of that rate, and no judgement: what is enough depends on who
would guess, and what they gain by it. Beyond an exponent of 20 nothing is excluded in practice:
somebody who gave a dataset a chance of one in a million could be 99.8 % sure of it afterwards.
"""

import math
from typing import Literal, assert_never

from fedaudit.privacy.accounting.privacy_events import GuaranteeKind

CostLevel = Literal["up-to-75", "up-to-95", "nearly-all", "nothing", "unbounded"]
LEVELS: dict[CostLevel, str] = {
    "up-to-75": "a guess is right up to 75% of the time",
    "up-to-95": "a guess is right up to 95% of the time",
    "nearly-all": "nearly every guess may be right",
    "nothing": "too large to protect anyone",
    "unbounded": "nothing bounds it",
}
"""The table of the scale, as in the docs. Of the first three, lists and tiles have the guess."""
GOAL, MOST = 10.0, 20.0
"""What is suggested where a cost is too large to protect anyone, the upper end of the tiers of
Ponomareva et al., "How to DP-fy ML" (JAIR 77, 2023, section 5.2); and from where on one does."""
_RATES = (0.75, 0.95)
_EXACT_ODDS = 12.0


def cost_level(exponent: float | None, *, delta: float = 0.0) -> CostLevel:
    """How much a bound of e^exponent is; None for no bound at all."""
    if exponent is None or not math.isfinite(exponent):
        return "unbounded"
    right = 1 - _wrong(exponent, delta)
    if right <= _RATES[0]:
        return "up-to-75"
    if right <= _RATES[1]:
        return "up-to-95"
    return "nearly-all" if exponent <= MOST else "nothing"


def level_ends(*, delta: float) -> tuple[float, ...]:
    """The largest exponent of each level that bounds something, in the order of LEVELS."""
    rates = ((right - delta) / (1 - right) for right in _RATES)
    return (*(math.log(odds) if odds > 1 else 0.0 for odds in rates), MOST)


def level_words(
    exponent: float, *, delta: float, kind: GuaranteeKind, in_force: bool | None
) -> str:
    """The words of lists and tiles, with their doubts as in verdicts."""
    doubt = doubts(kind, in_force=in_force is not False).lower()
    level = cost_level(exponent, delta=delta)
    if level in ("nothing", "unbounded"):
        return doubt + LEVELS[level]
    return f"{doubt}a guess is right at most {guess_words(exponent, delta=delta)}% of the time"


def doubts(kind: GuaranteeKind, *, in_force: bool) -> str:
    """The start of a sentence on a bound that is not proven, or whose noise was not secret."""
    found = ["were it proven"] * (kind == "heuristic") + ["were the noise secret"] * (not in_force)
    return f"{' and '.join(found).capitalize()}, " if found else ""


def _wrong(exponent: float, delta: float) -> float:
    """The least share of guesses that are wrong."""
    odds = math.exp(-exponent)
    return (1 - delta) * odds / (1 + odds)


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
    up."""
    return _percent(exponent, delta, less=0)


def _percent(exponent: float, delta: float, *, less: int) -> str:
    wrong = _wrong(exponent, delta)
    digits = max(0, math.ceil(-math.log10(wrong)) - 2) if wrong > 0 else 0
    scale = 10.0**digits
    return f"{math.ceil((1 - wrong) * 100 * scale - 1e-9) / scale - less:.{digits}f}"


def cost_words(exponent: float | None, *, guessed: str, delta: float = 0.0) -> str:
    """How much a bound is, in a few sentences. `guessed`: what it keeps uncertain, as in "whether a
    client's data were used"."""
    level = cost_level(exponent, delta=delta)
    if exponent is None or level == "unbounded":
        return "Nothing bounds what was disclosed."
    if level == "nothing":
        return (
            f"That is practically no protection: the odds of a guess at {guessed} may change "
            f"by a factor of {odds_words(exponent)}."
        )
    # Only now: beyond the levels left, the share of wrong guesses need not be a number.
    often = guess_words(exponent, delta=delta)
    right = f"right at most {often}% of the time{' in place of 50%' * (often != '50')}."
    match level:
        case "up-to-75" | "up-to-95":
            gain = _percent(exponent, delta, less=50)
            return (
                f"That is a gain of at most {gain} percentage point{'s' * (gain != '1')} for a "
                f"guess at {guessed}, both being equally likely: {right}"
            )
        case "nearly-all":
            wrong = _wrong(exponent, delta)
            little = "very weak" if wrong > 0.001 else "hardly any protection"
            return (
                f"That is {'weak' if wrong > 0.01 else little}: a guess at {guessed}, both being "
                f"equally likely, is {right}"
            )
        case _:
            assert_never(level)


_WITHIN_THE_RADIUS = (
    "How much that protects cannot be said: it holds between updates within a radius that nothing "
    "keeps them in, so the radius that was chosen decides the figure."
)


def guessed_words(
    *, unit: str, adjacency: str | None, bounds_every_dataset: bool, hypotheses: int
) -> str:
    """What a bound keeps uncertain, for `cost_words`.

    `adjacency`: of an epsilon; None for metric privacy, which then either bounds every two datasets
    of a `unit`, or updates within the radius alone.
    """
    if adjacency == "add-or-remove-one":
        return f"whether a {unit}'s data were used"
    if adjacency is not None:
        return f"which of two versions of a {unit}'s data was used"
    if not bounds_every_dataset:
        return f"which of two updates within the radius a {unit} made"
    alike = " that choose the same hypotheses" if hypotheses > 1 else ""
    return f"which of two datasets{alike} a {unit} has"


def doubted_cost_words(
    exponent: float | None,
    *,
    guessed: str,
    delta: float,
    kind: GuaranteeKind,
    in_force: bool,
    bounds_every_dataset: bool,
) -> str:
    """`cost_words`; where the guarantee is not in force or not proven, how much it would be.

    A small exponent that holds within a radius alone is no measure of protection.
    """
    if not bounds_every_dataset and exponent is not None and exponent <= MOST:
        return _WITHIN_THE_RADIUS
    sentence = cost_words(exponent, guessed=guessed, delta=delta)
    would = doubts(kind, in_force=in_force)
    return sentence.replace("That is", f"{would}that would be", 1) if would else sentence
