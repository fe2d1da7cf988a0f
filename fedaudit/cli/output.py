"""What goes to standard output (results) and to standard error (the rest), and how commands end."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.table import Table

    from fedaudit.attacks.attack import AttackOutcome
    from fedaudit.reports.sections.part import GateOutcome

Answer = TypeVar("Answer")


class ExitCode(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    """Also: every gate passed."""
    FAILED = 1
    """A run or a gate failed, or an attack raised an alarm."""
    USAGE = 2
    """The command or the spec is not valid."""
    NO_EVIDENCE = 3
    """A gate could not be decided."""
    UNREACHABLE = 4
    """The service cannot be reached."""
    FOUND = 5
    """A replay found what the guarantee does not allow."""


class CommandError(Exception):
    """Ends a command with a message for people and an exit code; never with a traceback."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def usage_error(message: str) -> CommandError:
    """The command cannot be carried out as it was given."""
    return CommandError(message, ExitCode.USAGE)


def gate_exit(outcome: str | None) -> ExitCode:
    """The exit code for the outcome of an experiment's gates; None where it has no gate."""
    if outcome is None:
        return ExitCode.DONE
    codes: dict[GateOutcome, ExitCode] = {
        "pass": ExitCode.DONE,
        "fail": ExitCode.FAILED,
        "insufficient_evidence": ExitCode.NO_EVIDENCE,
    }
    return codes[cast("GateOutcome", outcome)]


# A file or pipe has no width; rich would wrap at 80 columns, or at COLUMNS where that is set.
_WIDTH_WITHOUT_TERMINAL = 132
_WIDEST = 1000


def standard_output() -> "Console":
    """The console for results that people read. NO_COLOR is honoured."""
    return _console(stderr=False)


def print_columns(columns: "Mapping[str, Sequence[str]]") -> None:
    """Columns by their heads, which are plain text, on standard output; cells may have markup of
    rich.

    Where a terminal is too narrow for them, a block for each row with a column on each line: rich
    would fold figures in pieces, and leave whole columns out. A file or pipe has every width.
    """
    from rich.box import HORIZONTALS
    from rich.markup import escape
    from rich.table import Table

    heads, rows = [*map(escape, columns)], [*zip(*columns.values(), strict=True)]
    table = Table(*heads, box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    for cells in rows:
        table.add_row(*cells)
    console = standard_output()
    needed = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    if not _is_sized(sys.stdout):
        console.width = max(console.width, needed)
        console.print(table, soft_wrap=True)
    elif needed <= console.width:
        console.print(table)
    else:
        for cells in rows:
            block = Table(box=HORIZONTALS, show_header=False)
            block.add_column(no_wrap=True)
            block.add_column(overflow="fold")
            for line in zip(heads, cells, strict=True):
                block.add_row(*line)
            console.print(block)


def sections_table(
    heads: "Sequence[str]", columns: "Sequence[Mapping[str, Mapping[str, str]]]"
) -> "Table":
    """Sections with their titles, and in each a line for every label; texts are markup of rich.

    Without heads there is one column.
    """
    from rich.box import HORIZONTALS
    from rich.table import Table

    table = Table(box=HORIZONTALS, show_header=bool(heads))
    table.add_column("", no_wrap=True)
    for head in heads or [""]:
        table.add_column(head, overflow="fold")
    for title in dict.fromkeys(title for column in columns for title in column):
        found = [column.get(title, {}) for column in columns]
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for label in dict.fromkeys(label for lines in found for label in lines):
            table.add_row(f"  {label}", *(lines.get(label, "") for lines in found))
    return table


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    sized = _is_sized(sys.stderr if stderr else sys.stdout)
    width = None if sized else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=not sized)


def _is_sized(stream: TextIO) -> bool:
    return stream.isatty() or "COLUMNS" in os.environ


def say(message: str) -> None:
    """A remark on standard error."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def show_warnings(warnings: "Sequence[str]") -> None:
    """Print what the service accepted and the sender should know."""
    for warning in warnings:
        say(f"mind: {warning}")


def write_line(text: str) -> None:
    """A line of results on standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_json(value: Any, *, pretty: bool = True) -> None:
    """A JSON document on standard output."""
    write_line(json_text(value, pretty=pretty))


def write_answer(value: Answer, show: Callable[[Answer], None], *, as_json: bool) -> None:
    """An answer as JSON for programs, or as `show` prints it for people."""
    if as_json:
        write_json(value)
    else:
        show(value)


def json_text(value: Any, *, pretty: bool = True) -> str:
    """JSON without NaN; `pretty` puts a field on a line."""
    import json

    indent = 2 if pretty else None
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def json_line(value: Any, *, pretty: bool = True) -> bytes:
    """The same as a file holds it."""
    return f"{json_text(value, pretty=pretty)}\n".encode()


def write_bytes(content: bytes, out: Path | None) -> None:
    """The content into a whole file, or to standard output where none is named."""
    with whole_file(out) as file:
        file.write(content)


@contextmanager
def whole_file(out: Path | None) -> Iterator[IO[bytes]]:
    """Where to write bytes: standard output where no file is named. A file appears whole or not at
    all; a link, a device or a pipe is written through. Raises CommandError where it cannot be
    written."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _replaced(out) as file:
        yield file
    say(f"written to {out}")


@contextmanager
def _replaced(out: Path) -> Iterator[IO[bytes]]:
    is_special = out.is_symlink() or (out.exists() and not out.is_file())
    aside = out if is_special else out.with_name(f".{out.name}.partial")
    try:
        with aside.open("wb") as file:
            yield file
        if not is_special:
            os.replace(aside, out)
    except OSError as error:
        raise usage_error(f"cannot write {out}: {error.strerror}") from None
    finally:
        if not is_special:
            aside.unlink(missing_ok=True)


def writable_folder(path: Path) -> Path:
    """The folder, made if it is missing."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_below(folder: Path, name: str, pieces: Iterable[bytes]) -> str:
    """Write a whole file below the folder; returns its name. Raises CommandError as `whole_file`
    does."""
    writable_folder((folder / name).parent)
    with _replaced(folder / name) as file:
        file.writelines(pieces)
    return name


def write_attack_files(outcomes: "Sequence[AttackOutcome]", folder: Path) -> list[str]:
    """Writes them below `attacks/POSITION`; returns their paths below the folder."""
    return [
        write_below(folder, f"attacks/{position}/{name}", [data])
        for position, outcome in enumerate(outcomes)
        for name, data in outcome.files.items()
    ]


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of work whose length is not known, at a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True) as signs:
        signs.add_task(what, total=None)
        yield


@contextmanager
def progress_bars(name: str, totals: Mapping[str, int]) -> Iterator[Callable[..., None]]:
    """A bar for each total, by what is counted, at a terminal; call what it gives with the counts
    done, in their order."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_console(stderr=True), transient=True) as bars:
        heads = (escape(name), *[""] * len(totals))
        made = [
            bars.add_task(head, total=total, unit=unit)
            for head, (unit, total) in zip(heads, totals.items(), strict=False)
        ]

        def advance(*done: int) -> None:
            for bar, count in zip(made, done, strict=True):
                bars.update(bar, completed=count)

        yield advance
