"""Tables of figures in docs, each written by the command that measured them."""

import os
import re
from argparse import ArgumentParser
from pathlib import Path

from benchmarks.machine import machine

DOCS = Path(__file__).parents[1] / "docs"
PERFORMANCE = "evidence/performance.md"


def add_write_option(parser: ArgumentParser) -> None:
    """The option that asks for `write`."""
    parser.add_argument("--write", action="store_true", help="the table into its page of docs")


def write(name: str, table: str, *, page: str) -> None:
    """Replaces what is between the marks of a name on a page of docs."""
    begin, end = f"<!--begin:{name}-->", f"<!--end:{name}-->"
    path = DOCS / page
    before, rest = path.read_text("utf-8").split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")


def write_measured(name: str, *tables: str) -> None:
    """The same on the page of performance, with what they were measured on."""
    found = machine()
    on = f"{found['processor']} ({found['cpu_capability']}), load {os.getloadavg()[1]:.1f}"
    write(name, "\n\n".join((*map(tight, tables), on)), page=PERFORMANCE)


def tight(table: str) -> str:
    """A table without spaces around its bars, and with dashes in its intervals."""
    return re.sub(r" *\| *", "|", table.strip()).replace(" to ", "–")
