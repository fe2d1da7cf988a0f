"""What the attacks of a report do not show."""

from collections.abc import Sequence

from fedaudit.reports.document.attacks.attack_section import AttackSection

_NONE = "No attack was run against this model: nothing here says what an adversary recovers."
_NO_GUARANTEE = (
    "An attack that found nothing shows that this one, with what it knew, found nothing: another "
    "may find more, and none of its figures is a guarantee."
)
_CONFIDENTIAL = (
    "What the attacks found follows from training data, and no guarantee covers it: neither the "
    "figures that are printed here nor the files that were stored beside this report."
)
_FIRST_SEED = "Attacks were on the first of the {repeats} seeds; of the others they say nothing."


def attack_limits(attacks: Sequence[AttackSection], *, repeats: int) -> list[str]:
    """The sentences about the attacks that were made, or that none was."""
    done = [one for one in attacks if one.status == "done"]
    if not done:
        return [_NONE]
    first = [_FIRST_SEED.format(repeats=repeats)] if repeats > 1 else []
    return [_NO_GUARANTEE, _CONFIDENTIAL, *first]
