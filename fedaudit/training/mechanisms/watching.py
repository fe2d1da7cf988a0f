"""Somebody who looks on while a mechanism is applied; ordinarily there is nobody.

An onlooker takes a mechanism's place by a wrapper of its own, of the same kind, which hands every
call on to the mechanism and sees what goes in and what comes out. Engines build their protections
from what stands here, so that what is looked at is the path that every run takes, and a run that
nobody looks at takes it without a step more.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fedaudit.training.mechanisms.base import TrainingMechanism

Wrap = Callable[[TrainingMechanism], TrainingMechanism]

_onlooker: ContextVar[Wrap | None] = ContextVar("onlooker", default=None)


@contextmanager
def watching(wrap: Wrap) -> Iterator[None]:
    """Within it, this thread trains with what `wrap` makes of each mechanism."""
    token = _onlooker.set(wrap)
    try:
        yield
    finally:
        _onlooker.reset(token)


def watched(mechanism: TrainingMechanism) -> TrainingMechanism:
    """The mechanism as it is trained with: itself, where nobody looks on."""
    wrap = _onlooker.get()
    return mechanism if wrap is None else wrap(mechanism)
