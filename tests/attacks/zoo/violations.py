"""Violations of guarantees: each sabotages the real code in one place."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fedaudit.attacks.replay.replay_finding import Stage
from fedaudit.training.base.cell import Cell

Sabotage = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Violation:
    """One way to break a guarantee, and what a replay ought to say of it."""

    name: str
    cell: Callable[[], Cell]
    sabotage: Sabotage
    stage: Stage
    """The stage that broke."""
    check: str
    """The check that finds it."""


ZOO: dict[str, Violation] = {}


def violation(
    cell: Callable[[], Cell], *, stage: Stage, check: str
) -> Callable[[Sabotage], Sabotage]:
    """Puts a sabotage into the zoo; its docstring's first line is its name."""

    def keep(sabotage: Sabotage) -> Sabotage:
        name = (sabotage.__doc__ or "").strip().splitlines()[0].rstrip(".")
        assert name
        assert name not in ZOO
        ZOO[name] = Violation(name, cell, sabotage, stage, check)
        return sabotage

    return keep
