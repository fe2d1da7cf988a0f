"""Asking before something is done that cannot be undone."""

import sys

from fedaudit.cli.display.output import say
from fedaudit.cli.failures import CommandError, usage_error


def confirm(question: str, *, command: str) -> None:
    """Go on if the answer is yes. Raises CommandError where it is not, or nobody can be asked."""
    if not sys.stdin.isatty():
        raise usage_error(f"{command}: nobody can be asked here; say --yes")
    say(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")
