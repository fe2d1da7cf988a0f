"""Why training ended, worded for each place that states it."""

from typing import Literal

StoppedBy = Literal["rounds", "patience", "budget", "diverged"]

SENTENCES: dict[StoppedBy, str] = {
    "rounds": "Training ended with round {rounds}, the last one",
    "patience": "Training ended with round {rounds}, when its patience ran out",
    "budget": (
        "Training ended with round {rounds}: the next would have passed privacy.epsilon_budget"
    ),
    "diverged": "Training diverged in round {rounds}",
}
"""In the verdict."""
ON_PAGES: dict[StoppedBy, str] = {
    "rounds": "all rounds done",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "diverged": "divergence",
}
IN_TABLES: dict[StoppedBy, str] = {
    "rounds": "all of them",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "diverged": "diverged",
}
"""After the number of rounds, on the command line."""
