"""What goes to standard output (results) and to standard error (everything else)."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.failures import usage_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A file or pipe has no width; rich would wrap at 80 columns, or at COLUMNS where that is set.
_WIDTH_WITHOUT_TERMINAL = 132
_WIDEST = 1000


def standard_output() -> "Console":
    """The console for results that people read. NO_COLOR is honoured."""
    return _console(stderr=False)


def print_table(table: "Table") -> None:
    """A table on standard output. On a terminal that is too narrow for it lines run over the edge:
    rich would fold figures in pieces, and leave whole columns out."""
    console = standard_output()
    wide = console.options.update(width=_WIDEST)
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table, soft_wrap=True)


def standard_error() -> "Console":
    """The console for progress and remarks."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    sized = stream.isatty() or "COLUMNS" in os.environ
    width = None if sized else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=not sized)


def say(message: str) -> None:
    """A remark on standard error."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def write_line(text: str) -> None:
    """A line of results on standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_json(value: Any, *, pretty: bool = True) -> None:
    """A JSON document on standard output."""
    write_line(json_text(value, pretty=pretty))


def json_text(value: Any, *, pretty: bool = True) -> str:
    """JSON without NaN; `pretty` puts a field on a line."""
    import json

    indent = 2 if pretty else None
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def yaml_text(value: Any) -> str:
    """YAML in the order of the value, texts of several lines as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)


def write_bytes(content: bytes, out: Path | None) -> None:
    """The content into a file, or to standard output where none is named.

    Raises CommandError where the file cannot be written.
    """
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        out.write_bytes(content)
    except OSError as error:
        raise usage_error(f"--out: cannot write {out}: {error.strerror}") from None
    say(f"written to {out}")


def writable_folder(path: Path) -> Path:
    """The folder, made if it is missing. Raises CommandError where it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage_error(f"--out: cannot make the folder {path}: {error.strerror}") from None
    return path
