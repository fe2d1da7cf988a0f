"""Rounds of any training loop: reserved before anyone trains, and declared afterwards."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from warnings import warn

from fedaudit_client.client import Client
from fedaudit_client.errors import ClientError
from fedaudit_client.wire import Json

if TYPE_CHECKING:
    from fedaudit_client.adapters.canaries import Canaries, PlantedCanaries

Event = Mapping[str, Any]
"""What a round releases, as the ledger's rounds state it: `kind` and the fields that go with it."""


def terms_for(
    event: Event,
    *,
    name: str,
    population: int,
    server_adds_noise: bool = False,
    delta: float | None = None,
    budget: float | None = None,
) -> dict[str, Any]:
    """The terms of a ledger whose rounds release such an event of whole clients.

    Without `server_adds_noise` clients add it to their uploads, and figures hold against the
    server as well. `budget`: the most that one client may spend, an epsilon at `delta` or, of
    laplace-l2, a leakage; None for no bound. Raises ValueError where the event has no such figure.
    """
    kind, observer = event["kind"], "final_model" if server_adds_noise else "server"
    terms = {"name": name, "population": population, "unit": "client", "observer": observer}
    if kind == "gaussian-distance" and not server_adds_noise:
        raise ValueError(f"{kind} is noise of a trusted server: set `server_adds_noise`")
    if kind in ("gaussian-distance", "none"):
        return {**terms, "mechanism": kind}
    if kind == "laplace-l2":
        metric = {one: event[one] for one in ("radius", "clip")}
        bounded = {} if budget is None else {"budget": {"leakage": budget}}
        return {**terms, "mechanism": kind, "metric": metric, **bounded}
    if kind != "gaussian" and not server_adds_noise:
        raise ValueError(
            f"{kind}: the server sees which clients send, so sampling hides no client from it; "
            "declare gaussian, or let the server add the noise (`server_adds_noise`)"
        )
    if delta is None:
        raise ValueError(f"{kind} is counted as an epsilon: give `delta`, such as 1e-5")
    mechanism = "gaussian-central" if server_adds_noise else "gaussian-local"
    # A unit that joins a sample by a coin may be absent; in a fixed number one is replaced.
    adjacency = "add-or-remove-one" if kind == "poisson-gaussian" else "replace-one"
    return {**terms, "mechanism": mechanism, **of_epsilon(adjacency, delta=delta, budget=budget)}


def of_epsilon(
    adjacency: str, *, delta: float, budget: float | None, accountant: str = "rdp"
) -> dict[str, Any]:
    """The terms by which an epsilon is counted."""
    bounded = {} if budget is None else {"budget": {"epsilon": budget}}
    return {"adjacency": adjacency, "accountant": accountant, "delta": delta, **bounded}


class RoundRefused(ClientError):  # noqa: N818 an answer of the ledger, and no fault of the caller
    """A round may not run, or its result may not be used."""

    def __init__(self, round_: int, why: str, refused: Mapping[str, str] | None = None) -> None:
        each = "".join(f"\n  {name}: {reason}" for name, reason in (refused or {}).items())
        super().__init__(f"round {round_} is refused: {why}{each}")
        self.round = round_
        self.refused = dict(refused or {})
        """Each client that was refused, and why."""


_CONTRADICTED = (
    "canaries contradict the noise that is declared: the training adds less of it, or clips less "
    "tightly"
)


class Ledger:
    """A ledger of the service, as the one training that declares its rounds here sees it.

    Rounds are numbered from behind the last one that was declared before: a training that is run
    again releases anew, and is charged anew. Not for several threads, nor for two trainings at a
    time.
    """

    def __init__(self, client: Client, ledger_id: str) -> None:
        """Raises NotFoundError where there is no such ledger."""
        self._client = client
        self.terms: Json = client.ledger(ledger_id)
        """The ledger as it was when this object was made: its terms, and what it came to."""
        self.id = ledger_id
        self.next_round: int = self.terms["last_round"] + 1
        """The number that comes behind the last declared round."""
        self.alarm_round: int | None = self.terms.get("alarm_round")
        """The round in which canaries contradicted the declared noise."""
        self.events: list[Event] = []
        """Events of the rounds that were declared by this object."""

    @classmethod
    def open(cls, client: Client, terms: Event) -> Self:
        """A new ledger on these terms. Raises ValidationError for terms that do not fit."""
        return cls(client, client.create_ledger(terms)["id"])

    def current(self) -> Json:
        """The ledger as it is now."""
        return self._client.ledger(self.id)

    def canaries(self, audit: "Canaries", *, clip: float) -> "PlantedCanaries":
        """Canaries for contributions that are clipped to `clip`. Needs numpy. Raises ValueError
        where the ledger declares no noise that they could test."""
        from fedaudit_client.adapters.canaries import PlantedCanaries

        if self.terms["delta"] is None:
            raise ValueError(f"canaries test Gaussian noise, not {self.terms['mechanism']}")
        replaces = self.terms["adjacency"] == "replace-one"
        return PlantedCanaries(audit, clip=clip, replaces=replaces)

    def reserve(
        self,
        number: int,
        *,
        event: Event,
        participants: Sequence[str],
        canaries: "PlantedCanaries | None" = None,
    ) -> "OpenRound":
        """Reserve a round before training. Raises RoundRefused if no client is admitted."""
        if isinstance(participants, str):
            raise TypeError("participants: give a list of names, not one text")
        answer = self._client.reserve_round(self.id, number, event=event, participants=participants)
        refused = {one["subject"]: one["reason"] for one in answer["refused"]}
        if not answer["admitted"]:
            why = answer["reason"] or "no client has enough budget"
            raise RoundRefused(number, why, None if answer["reason"] else refused)
        return OpenRound(self, number, event, tuple(answer["admitted"]), refused, canaries)

    def release(self, round_: int) -> None:
        """Give back what is held for a round of which nothing was released."""
        self._client.release_round(self.id, round_)

    def declare(self, rounds: Sequence[Mapping[str, Any]]) -> None:
        """Enter rounds that ran, in ascending order. The same again changes nothing."""
        answer = self._client.declare_rounds(self.id, rounds)
        self.events += [one["event"] for one in rounds if one["round"] >= self.next_round]
        self.next_round = max(self.next_round, rounds[-1]["round"] + 1)
        alarms = [one["alarm_round"] for one in answer["rounds"] if one.get("alarm_round")]
        if alarms and self.alarm_round is None:
            self.alarm_round = alarms[0]
            warn(f"round {alarms[0]} of ledger {self.id}: {_CONTRADICTED}", stacklevel=2)

    def stop_on_alarm(self, canaries: "PlantedCanaries | None") -> None:
        """Raises NoiseContradicted after an alarm, where the audit asks to `stop`."""
        if canaries is not None and canaries.audit.stop and self.alarm_round is not None:
            from fedaudit_client.adapters.canaries import NoiseContradicted

            raise NoiseContradicted(f"round {self.alarm_round}: {_CONTRADICTED}")

    @contextmanager
    def round(
        self,
        number: int | None = None,
        *,
        event: Event,
        participants: Sequence[str],
        canaries: "PlantedCanaries | None" = None,
    ) -> Iterator["OpenRound"]:
        """One round: reserved on entry, declared on exit.

        An exception in the block declares the round too, with all who did not answer as failures:
        what they sent before it cannot be known here. Only after `withdraw` is nothing charged.
        The exception has a note that says which. `canaries`: that were in its releases. Raises
        RoundRefused if no client is admitted, and ConflictError where the number is in the chain
        already; None takes the next one. NoiseContradicted: as `Ledger.stop_on_alarm`.
        """
        number = self.next_round if number is None else number
        opened = self.reserve(number, event=event, participants=participants, canaries=canaries)
        try:
            yield opened
        except BaseException as error:
            opened.fail(error)
            raise
        opened.end()


@dataclass
class OpenRound:
    """A round that is reserved."""

    ledger: Ledger
    number: int
    event: Event
    """What it releases; where fewer answer, it may be another than was reserved."""
    admitted: tuple[str, ...]
    """Who may train."""
    refused: Mapping[str, str]
    """Who may not, and why."""
    canaries: "PlantedCanaries | None" = None
    _answered: tuple[str, ...] | None = field(default=None, init=False)
    _groups: Mapping[str, Any] = field(default_factory=dict, init=False)
    _withdrawn: bool = field(default=False, init=False)

    def answered(self, names: Sequence[str], *, groups: Mapping[str, Any] | None = None) -> None:
        """State who sent an update, where not all did, and how the model predicted by group.

        Raises ValueError for a client that was not admitted.
        """
        strangers = sorted(set(names) - set(self.admitted))
        if strangers:
            raise ValueError(f"{', '.join(strangers)}: not admitted to round {self.number}")
        self._answered = tuple(names)
        self._groups = groups or {}

    def withdraw(self) -> None:
        """State that nothing was released: no client was asked, or no observer saw uploads and no
        model was released."""
        self._withdrawn = True

    def end(self) -> None:
        """Declare the round, or give it back where it was withdrawn. Raises NoiseContradicted as
        `Ledger.stop_on_alarm`."""
        self.settle(self.admitted if self._answered is None else self._answered)
        if not self._withdrawn:
            self.ledger.stop_on_alarm(self.canaries)

    def fail(self, error: BaseException) -> None:
        """The same of a round that broke, with a note on the exception."""
        answered = self._answered or ()
        fate = f"is declared and charged: {len(self.admitted)} asked, {len(answered)} sent"
        if self._withdrawn:
            fate = "was withdrawn, and no client is charged"
        try:
            self.settle(answered)
        except ClientError as failure:
            fate = f"is reserved for a day at most and was not declared: {failure}"
        error.add_note(f"fedaudit: round {self.number} of ledger {self.ledger.id} {fate}")

    def settle(self, answered: Sequence[str]) -> None:
        """Declare the round with those who answered, or give it back where it was withdrawn."""
        if self._withdrawn:
            self.ledger.release(self.number)
            return
        declared = {
            "round": self.number,
            "event": dict(self.event),
            "participants": list(answered),
            "failures": [name for name in self.admitted if name not in set(answered)],
            "groups": dict(self._groups),
            **(self.canaries.taken() if self.canaries else {}),
        }
        self.ledger.declare([declared])


_COUNTS = "fedaudit/"
_COUNTED = ("true_positives", "false_positives", "true_negatives", "false_negatives")
Counts = dict[tuple[str, str], list[int]]


def taken_counts(metrics: MutableMapping[str, Any]) -> Counts:
    """The counts by group that one client sent among its metrics; they are taken out of these.

    Raises ValueError for a metric that is none of the form above.
    """
    found: Counts = {}
    for key in [key for key in metrics if key.startswith(_COUNTS)]:
        attribute, _, group = key.removeprefix(_COUNTS).partition("/")
        value = metrics.pop(key)
        are_counts = (
            isinstance(value, list)
            and len(value) == len(_COUNTED)
            and all(isinstance(one, int) and one >= 0 for one in value)
        )
        if not (attribute and group and are_counts):
            raise ValueError(f"{key} = {value!r}: not four counts as {_COUNTS}ATTRIBUTE/GROUP")
        found[attribute, group] = [int(one) for one in value]
    return found


def total_counts(clients: Iterable[Counts]) -> dict[str, dict[str, dict[str, int]]]:
    """The sum over clients, as a declared round has it in `groups`."""
    sums: Counts = {}
    for counts in clients:
        for key, values in counts.items():
            known = sums.get(key, [0] * len(_COUNTED))
            sums[key] = [a + b for a, b in zip(known, values, strict=True)]
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (attribute, group), values in sums.items():
        found.setdefault(attribute, {})[group] = dict(zip(_COUNTED, values, strict=True))
    return found
