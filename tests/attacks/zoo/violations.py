"""Violations of guarantees: each sabotages the real code in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fedaudit.attacks.replay.replay_finding import Stage
from fedaudit.training.base.cell import Cell

Sabotage = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Violation:
    """One way to break a guarantee, and what a replay ought to report of it."""

    name: str
    cell: Callable[[], Cell]
    sabotage: Sabotage
    stage: Stage
    """The stage that broke."""
    check: str
    """The check that finds it."""
    module: str
    """The module of the zoo that it is in."""


ZOO: dict[str, Violation] = {}


def violation(
    cell: Callable[[], Cell], stage: Stage, check: str, *, at: tuple[Any, str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a sabotage into the zoo; its docstring's first line is its name.

    `at`: the owner and name of what it replaces; it is called with the real one before the
    arguments. Otherwise it is given a monkeypatch.
    """

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        name = (function.__doc__ or "").strip().splitlines()[0].rstrip(".")
        assert name
        assert name not in ZOO
        sabotage: Sabotage = function if at is None else replacing(*at, function)
        ZOO[name] = Violation(name, cell, sabotage, stage, check, function.__module__)
        return function

    return keep


def replacing(owner: Any, name: str, function: Callable[..., Any]) -> Sabotage:
    """A sabotage that puts a function in the place of another one, which it is given first."""
    real = getattr(owner, name)

    def sabotage(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, name, lambda *given, **named: function(real, *given, **named))

    return sabotage
