"""The service's HTTP interface as Python calls."""

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self

import httpx

from fedaudit.client.errors import NotConfiguredError, ProblemError, UnreachableError
from fedaudit.client.events import ENDED, Event, lines_of, parse_events
from fedaudit.client.transport import Transport, path_part

if TYPE_CHECKING:
    from fedaudit.reports.readings.reading_choice import ReadingName

Json = dict[str, Any]
Table = Literal["ledger", "rounds", "fairness"]

_TABLES = {"ledger": "privacy-ledger", "rounds": "rounds", "fairness": "fairness"}
# The service sends a comment every 15 seconds where nothing happens.
_SILENCE_SECONDS = 45.0
_CONNECT_SECONDS = 10.0
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0
_SUBMISSIONS = 3
# The service answers an upload once the file is on its disk.
_STORING_SECONDS = 600.0


class Client:
    """Calls one service with one key; to be closed, or used as a context manager.

    Every call raises UnreachableError where nobody answers and ProblemError where the service
    refuses. Answers are the service's JSON.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = Transport(url, api_key, timeout=timeout, http_transport=http_transport)

    @classmethod
    def from_environment(cls) -> Self:
        """By FEDAUDIT_URL and FEDAUDIT_API_KEY. Raises NotConfiguredError naming what lacks."""
        values = []
        for name in ("FEDAUDIT_URL", "FEDAUDIT_API_KEY"):
            value = os.environ.get(name, "").strip()
            if not value:
                raise NotConfiguredError(
                    f"{name} is not set; set it to what `fedaudit up` printed when it was ready"
                )
            values.append(value)
        return cls(*values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # -- experiments ------------------------------------------------------------------------------

    def submit(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Queue an experiment; the answer is the experiment.

        Tried again where the connection breaks: a key, made here unless given, keeps it from
        being queued twice.
        """
        key = idempotency_key or str(uuid.uuid4())
        for attempt in range(_SUBMISSIONS):
            try:
                return self._transport.json(
                    "POST", "experiments", json=spec, headers={"Idempotency-Key": key}
                )
            except UnreachableError:
                if attempt == _SUBMISSIONS - 1:
                    raise
                sleep(_FIRST_WAIT_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def project(self, spec: Mapping[str, Any]) -> Json:
        """What an experiment would cost; nothing is stored."""
        return self._transport.json(
            "POST", "experiments", json=spec, params={"validate_only": "true"}
        )

    def get(self, experiment_id: str) -> Json:
        """One experiment."""
        return self._transport.json("GET", _experiment(experiment_id))

    def list(self, **filters: Any) -> Iterator[Json]:
        """Every experiment that the filters let through, page after page, newest first.

        The filters are the service's query parameters; bounds as `**{"leakage_max[lte]": 40}`.
        """
        return self._items("experiments", filters)

    def cancel(self, experiment_id: str) -> Json:
        """Ask for an end; the answer is the experiment as it then is."""
        return self._transport.json("POST", f"{_experiment(experiment_id)}/cancel")

    def retry(self, experiment_id: str) -> Json:
        """Queue a failed or cancelled experiment's spec again; the answer is the new one."""
        return self._transport.json("POST", f"{_experiment(experiment_id)}/retry")

    def watch(
        self, experiment_id: str, *, after: int = 0, patience_seconds: float = 60.0
    ) -> Iterator[Event]:
        """The experiment's events above number `after`, as they happen, until it ends.

        A broken connection is taken up again where it was left. So is a stream for which the
        service has no place, or that it cannot serve just now (429, 503), once the time that it
        names is over. Raises UnreachableError after `patience_seconds` without the service, and
        ProblemError where a place would take longer.
        """
        heard, wait, ended = monotonic(), _FIRST_WAIT_SECONDS, False
        while True:
            first, asked = after, 0.0
            try:
                for event in self._events(experiment_id, after):
                    after, heard, wait = event.id, monotonic(), _FIRST_WAIT_SECONDS
                    yield event
                    if event.is_last:
                        return
                if ended and after == first:
                    return
                # The stream ended well without a last event: that one came before `after`, or the
                # service is stopping, and another stream has the rest.
                ended = self.get(experiment_id)["status"] in ENDED
                heard = monotonic()
                if ended:
                    continue
            except UnreachableError:
                if monotonic() - heard > patience_seconds:
                    raise
            except ProblemError as error:
                asked = error.retry_after_seconds or 0.0
                if not error.is_temporary or monotonic() + asked - heard > patience_seconds:
                    raise
            sleep(max(wait, asked))
            wait = min(2 * wait, _MAX_WAIT_SECONDS)

    def wait(self, experiment_id: str) -> Json:
        """The experiment, once it has ended."""
        for _ in self.watch(experiment_id):
            pass
        return self.get(experiment_id)

    # -- what experiments leave -------------------------------------------------------------------

    def report(self, experiment_id: str) -> Json:
        """The report document."""
        return self._transport.json("GET", f"{_experiment(experiment_id)}/report.json")

    def report_page(self, experiment_id: str) -> str:
        """The report as one HTML page."""
        return self._transport.request("GET", f"{_experiment(experiment_id)}/report.html").text

    def reading(self, experiment_id: str, name: "ReadingName") -> Json | str:
        """The report in the form that its reader has to fill: JSON, or Markdown for a card."""
        path, asked = f"{_experiment(experiment_id)}/report", {"reading": name}
        return self._transport.json_or_markdown("GET", path, params=asked)

    def reports(self, **filters: Any) -> Iterator[Json]:
        """Every report that the filters let through, with its figures, newest first.

        The filters are the service's query parameters: `attribute="sex"`, `sort="-accuracy"`,
        bounds as `**{"equalized_odds_difference[lte]": 0.1}`.
        """
        return self._items("reports", filters)

    def compare(
        self,
        experiment_ids: Sequence[str],
        *,
        fairness: str | None = None,
        utility: str | None = None,
    ) -> Json:
        """Two to fifty experiments side by side, with Pareto fronts over those two figures."""
        asked = {"experiment_id": list(experiment_ids), "fairness": fairness, "utility": utility}
        found = {name: value for name, value in asked.items() if value is not None}
        return self._transport.json("GET", "comparisons", params=found)

    def verification(self, experiment_id: str) -> Json:
        """What the service found when it checked the report against the stored ledger."""
        return self._transport.json("GET", f"{_experiment(experiment_id)}/report/verification")

    def download_bundle(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write everything that offline verification needs into a file, as a zip."""
        with self._transport.stream(f"{_experiment(experiment_id)}/bundle") as response:
            for chunk in response.iter_bytes():
                file.write(chunk)

    def signing_keys(self) -> "Sequence[Json]":
        """The service's public keys, also the retired ones, as the service itself gives them."""
        items: Sequence[Json] = self._transport.json("GET", "signing-keys")["items"]
        return items

    @contextmanager
    def export(
        self,
        experiment_id: str,
        table: Table,
        *,
        form: Literal["csv", "ndjson", "parquet"] = "ndjson",
    ) -> Iterator[Iterator[bytes]]:
        """A whole table as the bytes of a file, read while the block runs."""
        path = f"{_experiment(experiment_id)}/{_TABLES[table]}.{form}"
        with self._transport.stream(path) as response:
            yield response.iter_bytes()

    @contextmanager
    def record_table(self, experiment_id: str) -> Iterator[Iterator[bytes]]:
        """What every record of a `record-personalised` run spent, as the bytes of a CSV file."""
        with self._transport.stream(f"{_experiment(experiment_id)}/record-table") as response:
            yield response.iter_bytes()

    def rows(self, experiment_id: str, table: Table) -> Iterator[Json]:
        """Every row of a table."""
        with self.export(experiment_id, table) as chunks:
            for line in lines_of(chunks):
                yield _decoded(line)

    # -- gates ------------------------------------------------------------------------------------

    def evaluate_gates(
        self,
        experiment_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> Json:
        """Whether the experiment meets these gates, or a stored policy's; else its own."""
        body: Json = {"experiment_id": experiment_id}
        if gates is not None:
            body["gates"] = list(gates)
        if policy is not None:
            body["policy"] = policy
        return self._transport.json("POST", "gates/evaluations", json=body)

    def policies(self) -> Iterator[Json]:
        """Every policy of the key's project, by name."""
        return self._items("gates/policies", {})

    def policy(self, name: str) -> Json:
        """One policy."""
        return self._transport.json("GET", _policy(name))

    def put_policy(self, name: str, policy: Mapping[str, Any]) -> Json:
        """Store a policy's `description` and `gates` under a name, or replace it."""
        return self._transport.json("PUT", _policy(name), json=dict(policy))

    def delete_policy(self, name: str) -> None:
        """Delete a policy."""
        self._transport.request("DELETE", _policy(name))

    # -- federations and keys ---------------------------------------------------------------------

    def register(self, registration: Mapping[str, Any]) -> Json:
        """Register a file below the service's sources folder; the answer is the federation."""
        return self._transport.json("POST", "federations", json=registration)

    def upload(self, file: IO[bytes], registration: Mapping[str, Any], *, file_name: str) -> Json:
        """Upload a file with its registration; the answer is the federation.

        The file is sent as it is read, whatever its size. Repeating an upload does no harm: the
        same content is the same federation.
        """
        described = (None, json.dumps(registration), "application/json")
        return self._transport.json(
            "POST",
            "federations",
            # In this order: the service refuses what is wrong before the file is sent.
            files=[
                ("registration", described),
                ("file", (file_name, file, "application/octet-stream")),
            ],
            timeout=httpx.Timeout(_SILENCE_SECONDS, read=_STORING_SECONDS),
        )

    def federations(self, **filters: Any) -> Iterator[Json]:
        """Every federation of the key's project that the filters let through, newest first."""
        return self._items("federations", filters)

    def federation(self, federation_id: str) -> Json:
        """One federation."""
        return self._transport.json("GET", _federation(federation_id))

    def profiled(self, federation_id: str) -> Json:
        """The federation, once it is no longer being profiled."""
        wait = _FIRST_WAIT_SECONDS
        while (found := self.federation(federation_id))["status"] == "profiling":
            sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)
        return found

    def profile(self, federation_id: str) -> Json:
        """What a federation's data looks like."""
        return self._transport.json("GET", f"{_federation(federation_id)}/profile")

    def delete_federation(self, federation_id: str) -> None:
        """Delete a federation's file and profile; what was spent on the data stays."""
        self._transport.request("DELETE", _federation(federation_id))

    def budgets(self, federation_id: str) -> "Sequence[Json]":
        """The budgets on a federation's data."""
        path = f"{_federation(federation_id)}/budget"
        items: Sequence[Json] = self._transport.json("GET", path)["items"]
        return items

    def set_budget(self, federation_id: str, budget: Mapping[str, Any]) -> "Sequence[Json]":
        """Set one budget: `book`, `figure` and `total`; the answer is all of them."""
        path = f"{_federation(federation_id)}/budget"
        items: Sequence[Json] = self._transport.json("PUT", path, json=budget)["items"]
        return items

    def set_simulation(self, federation_id: str, simulation: str) -> Json:
        """Whether noise may be simulated: `allowed` or `forbidden`; gives the federation."""
        asked = {"simulation": simulation}
        return self._transport.json("PUT", f"{_federation(federation_id)}/simulation", json=asked)

    def disclosure(self, federation_id: str) -> Json:
        """What may be asked of a federation's groups: its policy, and the service's floor."""
        return self._transport.json("GET", f"{_federation(federation_id)}/disclosure")

    def set_disclosure(self, federation_id: str, policy: Mapping[str, Any]) -> Json:
        """Set the whole policy, `{}` for none; the answer is the policy."""
        return self._transport.json("PUT", f"{_federation(federation_id)}/disclosure", json=policy)

    def keys(self) -> "Sequence[Json]":
        """The project's API keys, without their secrets."""
        items: Sequence[Json] = self._transport.json("GET", "api-keys")["items"]
        return items

    def create_key(self, *, name: str, scopes: Sequence[str]) -> Json:
        """A new key; `key` in the answer is shown this once."""
        return self._transport.json("POST", "api-keys", json={"name": name, "scopes": list(scopes)})

    def revoke_key(self, key_id: str) -> None:
        """End a key."""
        self._transport.request("DELETE", f"api-keys/{path_part(key_id)}")

    def _items(self, path: str, filters: Mapping[str, Any]) -> Iterator[Json]:
        parameters = {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._transport.json("GET", path, params=parameters)
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            parameters["cursor"] = page["next_cursor"]

    def _events(self, experiment_id: str, after: int) -> Iterator[Event]:
        path = f"{_experiment(experiment_id)}/events"
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx.Timeout(_CONNECT_SECONDS, read=_SILENCE_SECONDS)
        with self._transport.stream(path, headers=headers, timeout=timeout) as response:
            try:
                yield from parse_events(lines_of(response.iter_bytes()))
            except ValueError as error:
                raise UnreachableError(
                    f"{response.url} sends no events of this service: {error}"
                ) from None


def _experiment(experiment_id: str) -> str:
    return f"experiments/{path_part(experiment_id)}"


def _federation(federation_id: str) -> str:
    return f"federations/{path_part(federation_id)}"


def _policy(name: str) -> str:
    return f"gates/policies/{path_part(name)}"


def _decoded(line: str) -> Json:
    try:
        row: Json = json.loads(line)
    except ValueError as error:
        raise UnreachableError(f"the service sent a row that is no JSON: {error}") from None
    return row
