"""How a command ends, and how it says what went wrong."""

from enum import IntEnum
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from fedaudit.reports.sections.part import GateOutcome


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
