"""Tables of more columns than a terminal has place for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import HORIZONTALS
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.display.output import print_records, standard_output

_HEAD_WIDTH = 16


@dataclass(frozen=True)
class Column:
    """A head, which breaks at its joints where it is long, and a cell for each row.

    `cells` may have markup of rich; the head is plain text.
    """

    head: str
    cells: Sequence[str]


def print_columns(
    key: Column, described: Sequence[Column], measured: Sequence[Column] = ()
) -> None:
    """As many tables as the terminal needs, each with the key of every row.

    What describes the rows stands beside their figures where all fit, or where it leaves half of
    the width to them; otherwise in a table of its own before these.
    """
    console = standard_output()
    first = [key, *described]
    if _fitting(first, measured, console) == len(measured) or _width(first) <= console.width / 2:
        _print_parts(first, measured, console)
        return
    _print_parts([key], described, console)
    if measured:
        _print_parts([key], measured, console)


def _print_parts(first: list[Column], rest: Sequence[Column], console: Console) -> None:
    for part in _parts(first, rest, console) if rest else [[]]:
        print_records(_table([*first, *part]))


def _parts(
    first: list[Column], rest: Sequence[Column], console: Console
) -> Iterator[Sequence[Column]]:
    while rest:
        # A column that fits nowhere has a table of its own, which is printed as well as it can be.
        taken = max(_fitting(first, rest, console), 1)
        yield rest[:taken]
        rest = rest[taken:]


def _fitting(first: list[Column], rest: Sequence[Column], console: Console) -> int:
    """How many of the rest fit beside the first ones; -1 where not even these fit."""
    fits = -1
    for taken in range(len(rest) + 1):
        if _width([*first, *rest[:taken]]) > console.width:
            break
        fits = taken
    return fits


def _width(columns: Sequence[Column]) -> int:
    console = standard_output()
    wide = console.options.update(width=1000)
    return console.measure(_table(columns), options=wide).maximum


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(escape(_broken(column.head)))
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _broken(head: str) -> str:
    """A long name on several lines, broken after its joints: `equalized_odds_`, `difference`,
    `[group]`."""
    lines = [""]
    for piece in head.replace(".", ".\n").replace("_", "_\n").replace("[", "\n[").split("\n"):
        if lines[-1] and len(lines[-1]) + len(piece) > _HEAD_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)
