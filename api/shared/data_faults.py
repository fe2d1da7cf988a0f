"""What callers who may not read federations learn of data that do not fit a spec: nothing.

A fault found in data quotes them: a row, a cell, the values of a column. Anyone who may submit
specs could read a table cell by cell by asking for what does not fit. Every fault of loading or
planning passes here on its way out, and every stored reason on its way back.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from api.shared.security import Caller
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sources import FileSource

REDACTED = (
    "the data do not fit this part of the spec; what is wrong quotes the data, and this API key "
    "lacks the scope federations:read: ask someone whose key has it to validate the spec or to "
    "register the file anew"
)
_QUOTING_REASONS = ("invalid-data", "worker-error")
"""Ends of experiments whose stored detail may quote data."""


def reads_data(caller: Caller) -> bool:
    """Whether messages to a caller may quote data."""
    return caller.may("federations:read")


@contextmanager
def faults_for(caller: Caller, spec: ExperimentSpec) -> Iterator[None]:
    """Let faults of a spec's data pass to callers who may read them; redact them for any other.
    Data that the spec itself makes up disclose nothing about anyone."""
    try:
        yield
    except InvalidInputError as error:
        if reads_data(caller) or not isinstance(spec.federation, FileSource):
            raise
        # Each field once, since how many faults it has says something of the data too.
        shown = (
            fault if fault.of_spec else FieldError(fault.pointer, REDACTED, of_spec=True)
            for fault in error.errors
        )
        raise InvalidInputError(list(dict.fromkeys(shown))) from None


def shown_detail(reason: str | None, detail: str | None, *, caller: Caller) -> str | None:
    """The stored detail of an experiment's end, as the caller may see it."""
    if detail is None or reason not in _QUOTING_REASONS or reads_data(caller):
        return detail
    return REDACTED


def shown_reasons(
    reasons: Sequence[Mapping[str, Any]] | None, *, caller: Caller
) -> list[dict[str, Any]]:
    """Why a federation was rejected, as the caller may see it."""
    stored = [dict(reason) for reason in reasons or ()]
    if reads_data(caller) or not stored:
        return stored
    return [{"pointer": "/federation", "message": REDACTED}]


def shown_faults(
    faults: Sequence[Mapping[str, Any]] | None, *, caller: Caller
) -> list[dict[str, Any]]:
    """Why an audit failed, as the caller may see it: what quotes data names the field alone."""
    stored = list(faults or ())
    if not reads_data(caller):
        stored = [
            {**one, "message": one["message"] if one.get("of_spec") else REDACTED} for one in stored
        ]
    shown = {(one["pointer"], one["message"]): one for one in stored}
    return [{"pointer": pointer, "message": message} for pointer, message in shown]
