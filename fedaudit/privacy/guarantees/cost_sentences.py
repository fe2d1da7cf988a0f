"""How much a cost is, said with its doubts: unproven figures and noise that is not secret."""

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.cost_scale import MOST, cost_words, doubts

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
    is_epsilon: bool,
) -> str:
    """`cost_words`; where the guarantee is not in force or not proven, how much it would be.

    A small exponent that holds within a radius alone is no measure of protection.
    """
    if not bounds_every_dataset and exponent is not None and exponent <= MOST:
        return _WITHIN_THE_RADIUS
    sentence = cost_words(exponent, guessed=guessed, delta=delta, is_epsilon=is_epsilon)
    would = doubts(kind, in_force=in_force)
    return sentence.replace("That is", f"{would}that would be", 1) if would else sentence
