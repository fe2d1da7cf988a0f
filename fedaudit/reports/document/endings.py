"""Why training ended, worded for each place that states it."""

from typing import assert_never, get_args

from fedaudit.spec.training import StoppedBy

SENTENCES: dict[StoppedBy, str] = {
    "rounds": "Training ended with round {rounds}, the last one",
    "patience": "Training ended with round {rounds}, when its patience ran out",
    "budget": (
        "Training ended with round {rounds}: the next would have passed privacy.epsilon_budget"
    ),
    "audit": (
        "Training ended with round {rounds}, in which canaries beside it proved its noise too small"
    ),
    "diverged": "Training diverged in round {rounds}",
}
"""In the verdict."""
ON_PAGES: dict[StoppedBy, str] = {
    "rounds": "all rounds done",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "audit": "canaries proved the noise too small",
    "diverged": "divergence",
}
IN_TABLES: dict[StoppedBy, str] = {
    "rounds": "all of them",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "audit": "noise proved too small",
    "diverged": "diverged",
}
"""Behind the number of rounds, on the command line."""


def known_ending(name: object) -> StoppedBy | None:
    """The ending of that name. None of any other: a document may come from anywhere."""
    endings: tuple[StoppedBy, ...] = get_args(StoppedBy)
    return next((ending for ending in endings if ending == name), None)


def chosen_by_losses(stopped_by: StoppedBy | None) -> bool:
    """Whether losses on held-out rows ended the run before its last round, without noise.

    What is proven is then the epsilon of all rounds that were planned. None, an ending that this
    version does not know, is not said to be one.
    """
    match stopped_by:
        case "patience" | "diverged":
            return True
        # An audit goes by coins and noise of its own, and what clients sent is taken off before.
        case "rounds" | "budget" | "audit" | None:
            return False
        case _:
            assert_never(stopped_by)
