"""A progress bar on standard error, where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def rounds_bar(name: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of an experiment; call what it gives with the rounds done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fedaudit.cli.display.output import standard_error

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=standard_error(), transient=True) as bars:
        bar = bars.add_task(escape(name), total=total)
        yield lambda done: bars.update(bar, completed=done)
