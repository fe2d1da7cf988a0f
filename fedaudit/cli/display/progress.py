"""Progress bars on standard error, where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def rounds_bar(name: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of an experiment; call what it gives with the rounds done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _bars() as bars:
        bar = bars.add_task(_plain(name), total=total, unit="rounds")
        yield lambda done: bars.update(bar, completed=done)


@contextmanager
def cells_bar(name: str, *, cells: int, rounds: int) -> Iterator[Callable[[int, int], None]]:
    """A bar over the cells of a sweep and one over the rounds of all of them; call what it gives
    with the cells that have ended and the rounds done."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    with _bars() as bars:
        of_cells = bars.add_task(_plain(name), total=cells, unit="cells ended")
        of_rounds = bars.add_task("", total=rounds, unit="rounds")

        def advance(ended: int, done: int) -> None:
            bars.update(of_cells, completed=ended)
            bars.update(of_rounds, completed=done)

        yield advance


def _bars() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fedaudit.cli.display.output import standard_error

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=standard_error(), transient=True)


def _plain(name: str) -> str:
    from rich.markup import escape

    return escape(name)
