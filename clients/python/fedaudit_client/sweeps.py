"""Calls on sweeps: many experiments, asked for and looked at as one."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

import httpx

from fedaudit_client.events import ENDED
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import Request, json_as, once, path_part, text
from fedaudit_client.http.wire import Wire, last_of, polled
from fedaudit_client.result_types import (
    ListedSweep,
    SubmittedSweep,
    Sweep,
    SweepTable,
    SweepValidation,
)

# A service plans and reserves every cell before it answers.
_PLANNED = httpx.Timeout(30.0, read=600.0)
_MEDIA_TYPES = {"csv": "text/csv", "markdown": "text/markdown"}


class SweepCalls(Calls):
    """What can be done with sweeps."""

    @call
    def submit_sweep(
        self, sweep: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[SubmittedSweep]:
        """Queue an experiment for every combination of values; all are admitted, or none is.

        Tried again where no answer comes, as `submit` is.
        """
        asked = once(idempotency_key)
        body, answer = {"json": sweep}, json_as(SubmittedSweep)
        return Request("POST", "sweeps", answer, body=body, timeout=_PLANNED, **asked)

    @call
    def project_sweep(self, sweep: Mapping[str, Any]) -> Request[SweepValidation]:
        """What all cells would cost together, and whether budgets have room; nothing is stored."""
        return Request(
            "POST",
            "sweeps",
            json_as(SweepValidation),
            params={"validate_only": "true"},
            body={"json": sweep},
            timeout=_PLANNED,
            repeatable=True,
        )

    @stream
    def sweeps(self, *, limit: int | None = None) -> AsyncGenerator[ListedSweep, None]:
        """Every sweep of the key's project, newest first, without its cells.

        `limit`: how many are fetched at once; the service's own number without it.
        """
        return pages(self._wire, "sweeps", {"limit": limit}, ListedSweep)

    @call
    def sweep(self, sweep_id: str) -> Request[Sweep]:
        """One sweep: its cells, how far they are, and what they cost together."""
        return _one(sweep_id)

    @call
    def sweep_table(self, sweep_id: str) -> Request[SweepTable]:
        """A row for each combination, its figures over seeds, and which is best, and how surely."""
        headers = {"Accept": "application/json"}
        return Request("GET", f"{_path(sweep_id)}/table", json_as(SweepTable), headers=headers)

    @call
    def sweep_table_text(self, sweep_id: str, form: Literal["csv", "markdown"]) -> Request[str]:
        """The same table as the text of a file."""
        headers = {"Accept": _MEDIA_TYPES[form]}
        return Request("GET", f"{_path(sweep_id)}/table", text, headers=headers)

    @call
    def cancel_sweep(self, sweep_id: str) -> Request[Sweep]:
        """Ask for the end of every cell that has not ended; the answer is the sweep."""
        return Request("POST", f"{_path(sweep_id)}/cancel", json_as(Sweep))

    @call
    def retry_sweep(
        self, sweep_id: str, *, idempotency_key: str | None = None
    ) -> Request[SubmittedSweep]:
        """Queue every cell that failed or was cancelled again; what it spent stays spent."""
        asked = once(idempotency_key)
        path = f"{_path(sweep_id)}/retry"
        return Request("POST", path, json_as(SubmittedSweep), timeout=_PLANNED, **asked)

    @stream
    def watch_sweep(
        self, sweep_id: str, *, patience_seconds: float = 60.0
    ) -> AsyncGenerator[Sweep, None]:
        """The sweep as it is now, and every few seconds again until all cells have ended.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        return _watched(self._wire, sweep_id, patience_seconds)

    @steps
    async def wait_sweep(self, sweep_id: str, *, patience_seconds: float = 60.0) -> Sweep:
        """The sweep, once all cells have ended; `patience_seconds` as of `watch_sweep`."""
        return await last_of(_watched(self._wire, sweep_id, patience_seconds))


def _watched(wire: Wire, sweep_id: str, patience_seconds: float) -> AsyncGenerator[Sweep, None]:
    def has_ended(sweep: Sweep) -> bool:
        return sweep["status"] in ENDED

    return polled(wire, _one(sweep_id), has_ended=has_ended, patience_seconds=patience_seconds)


def _one(sweep_id: str) -> Request[Sweep]:
    return Request("GET", _path(sweep_id), json_as(Sweep))


def _path(sweep_id: str) -> str:
    return f"sweeps/{path_part(sweep_id)}"
