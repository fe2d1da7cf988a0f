"""Report texts in Markdown, escaped so that they display literally."""

import re
from collections.abc import Iterable

# An underscore between letters or digits has no effect in Markdown.
_MARKS = re.compile(r"[\\`*\[\]{}<>&$|#~]|(?<![^\W_])_|_(?![^\W_])")


def plain(text: str) -> str:
    """The text on one line, every mark of Markdown, HTML and LaTeX escaped."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


def bullets(items: Iterable[str]) -> list[str]:
    """A list of lines that are already Markdown."""
    return [f"- {item}" for item in items]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table of cells that are already Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
