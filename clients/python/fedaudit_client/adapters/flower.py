"""Keep a ledger from within Flower: a strategy around the user's own, the noise that its wrappers
add, whose a node is, and canaries. Needs the extra `flower`."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Result,
    Strategy,
)

from fedaudit_client.adapters import plain
from fedaudit_client.adapters.canaries import Canaries, Floats
from fedaudit_client.errors import NotFoundError

_FIXED = (DifferentialPrivacyClientSideFixedClipping, DifferentialPrivacyServerSideFixedClipping)


@dataclass(frozen=True)
class AveragedNoise:
    """Noise that the server adds to a mean, of standard deviation multiplier * clip / calibrated.

    A mean of m updates moves by clip / m where one of them does, so fewer than the wrapper
    assumes have proportionally less noise.
    """

    multiplier: float
    calibrated: int
    """The number of clients that the wrapper assumes."""
    weight_key: str
    """The metric by which the mean is weighted: it has to be the same for all."""

    def event(self, count: int, *, drawn: int, population: int | None) -> dict[str, Any]:
        """What the mean of `count` updates releases; with a population, of a secret sample of
        `drawn` of them."""
        if self.multiplier == 0:
            return {"kind": "none"}
        multiplier = self.multiplier * count / self.calibrated
        if population is None:
            return {"kind": "gaussian", "noise_multiplier": multiplier}
        sample = {"clients": drawn, "population": population}
        return {"kind": "fixed-gaussian", **sample, "noise_multiplier": multiplier}


def averaged_noise(strategy: Strategy, terms: Mapping[str, Any]) -> AveragedNoise:
    """The noise of the wrapper with fixed clipping in a strategy.

    Raises ValueError where there is none whose noise is known to be that of a mean, or where the
    ledger's figures are meant to hold against the server, which adds it.
    """
    found = [one for one in chain(strategy) if isinstance(one, _FIXED)]
    if len(found) != 1:
        raise ValueError(
            "what rounds release is not known: inside the strategy there is "
            f"{'none' if not found else 'more than one'} of Flower's wrappers with fixed clipping; "
            'state `event`, such as {"kind": "gaussian", "noise_multiplier": 1.0}, or '
            '{"kind": "none"} where there is no noise'
        )
    [wrapper] = found
    if type(wrapper).aggregate_train not in [one.aggregate_train for one in _FIXED]:
        raise ValueError(
            f"{type(wrapper).__name__} changes the noise of Flower's wrapper, in a way that is not "
            "known; state `event`, such as "
            '{"kind": "gaussian-distance", "noise_multiplier": 0.01} for noise that is divided by '
            "the distance of the clients"
        )
    base = wrapper.strategy
    if type(base).aggregate_train is not FedAvg.aggregate_train:
        raise ValueError(
            f"{type(base).__name__} does not average updates as FedAvg does, so the wrapper's "
            "noise is not in proportion to what one client moves; state `event`"
        )
    if terms["observer"] != "final_model" or terms["unit"] != "client":
        raise ValueError(
            "the server adds the noise and sees updates without it, for whole clients; open a "
            "ledger with the observer final_model and the unit client, or state `event`"
        )
    return AveragedNoise(
        float(wrapper.noise_multiplier), int(wrapper.num_sampled_clients), base.weighted_by_key
    )


def terms_for(
    strategy: Strategy,
    *,
    name: str,
    population: int,
    delta: float | None = None,
    budget: float | None = None,
    by_distance: bool = False,
) -> dict[str, Any]:
    """The terms of a ledger for a strategy with one of Flower's wrappers with fixed clipping.

    `population`: how many clients there are. `budget`: the most epsilon at `delta` that one of
    them may spend. `by_distance`: the server divides its noise by the distance of the clients, so
    that there is no epsilon; rounds then state `event`. Raises ValueError where the wrapper's
    noise is not known to be that of a mean.
    """
    terms = plain.terms_for(
        {"kind": "gaussian-distance" if by_distance else "gaussian"},
        name=name,
        population=population,
        server_adds_noise=True,
        delta=delta,
        budget=budget,
    )
    if not by_distance:
        averaged_noise(strategy, terms)
    return terms


def chain(strategy: Strategy) -> Iterator[Any]:
    found: Any = strategy
    while found is not None:
        yield found
        found = getattr(found, "strategy", None)


RECORD = "fedaudit"
QUERY = "query.fedaudit"
Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]


def subject_mod(subject: str | Callable[[Context], str]) -> Mod:
    """A mod of a ClientApp that adds to each reply whose node it is, under a name that lasts."""

    def with_subject(
        message: Message, context: Context, call_next: Callable[[Message, Context], Message]
    ) -> Message:
        reply = call_next(message, context)
        if not reply.has_error():
            name = subject if isinstance(subject, str) else subject(context)
            reply.content[RECORD] = ConfigRecord({"subject": name})
        return reply

    return with_subject


def say_subject(message: Message, context: Context) -> Message:
    """What a ClientApp with `subject_mod` answers `ask_subjects` by:
    `app.query("fedaudit")(say_subject)`."""
    return Message(content=RecordDict(), reply_to=message)


def ask_names(
    nodes: Sequence[int], grid: Grid, known: dict[int, str], *, seconds: float
) -> set[int]:
    """Ask nodes whose names are not `known`, to which they are added; returns those that did not
    answer.

    Twice: the first question may start them, which takes a minute on a busy machine.
    """
    silent = {node for node in nodes if node not in known}
    for _ in range(2):
        questions = [
            Message(content=RecordDict(), message_type=QUERY, dst_node_id=node) for node in silent
        ]
        if questions:
            for reply in grid.send_and_receive(questions, timeout=seconds):
                node = int(reply.metadata.src_node_id)
                silent.discard(node)
                records = {} if reply.has_error() else reply.content.config_records
                name = records.get(RECORD, {}).get("subject")
                # The first is kept: a client has one budget, not one per name.
                if isinstance(name, str) and name:
                    known.setdefault(node, name)
    return silent


_PASSES = 2
"""Copies of the round cost no privacy; under replace-one the noise of one epsilon is twice as
large, so that half of it is found only half as well in one pass."""


class CanaryReplies:
    """Replies of canaries, as many at a time as clients answered, which copies of the strategy
    aggregate beside each round: clipped, averaged and noised by Flower's own code, with the state
    that it has in that round.

    In the round itself a canary would have to take the place of a client. So the copies have to do
    what the strategy does; what the strategy alone does to real replies is not tested.
    """

    def __init__(self, strategy: Strategy, ledger: plain.Ledger, audit: Canaries) -> None:
        """Raises ValueError where the server does not see the clip, or cannot be copied."""
        clips = DifferentialPrivacyServerSideFixedClipping
        found = [one for one in chain(strategy) if isinstance(one, clips)]
        if len(found) != 1:
            raise ValueError(
                "canaries need Flower's wrapper with server-side fixed clipping: what clients clip "
                "or noise by themselves is not seen here; leave `audit` out"
            )
        try:
            deepcopy(strategy)
        except TypeError as error:
            raise ValueError(f"canaries need a strategy that can be copied: {error}") from error
        self.planted = ledger.canaries(audit, clip=float(found[0].clipping_norm))
        self._strategy = strategy
        self._arrays: list[Floats] = []

    def begin(self, arrays: ArrayRecord) -> None:
        """Keep what the round starts from."""
        self._arrays = [np.asarray(one, dtype=np.float64) for one in arrays.to_numpy_ndarrays()]

    def send(self, server_round: int, replies: Sequence[Message]) -> None:
        """Before the round's own replies are aggregated."""
        before = deepcopy(self._strategy)
        *_, innermost = chain(before)
        if hasattr(innermost, "train_metrics_aggr_fn"):
            innermost.train_metrics_aggr_fn = lambda *_: MetricRecord()
        start = np.concatenate([one.ravel() for one in self._arrays])

        def release(rows: Floats) -> Floats:
            sent = [
                self._reply(reply, start + row) for reply, row in zip(replies, rows, strict=True)
            ]
            arrays, _ = deepcopy(before).aggregate_train(server_round, sent)
            if arrays is None:
                raise ValueError("the strategy releases nothing of canaries, so nothing is tested")
            whole = [np.asarray(one).ravel() for one in arrays.to_numpy_ndarrays()]
            found: Floats = (np.concatenate(whole) - start) * len(rows)
            return found

        with _quiet():
            self.planted.beside(release, n=len(start), group=len(replies), passes=_PASSES)

    def _reply(self, reply: Message, values: Floats) -> Message:
        """The same reply with other parameters."""
        records: dict[str, Any] = {}
        for name, record in reply.content.items():
            if isinstance(record, ArrayRecord):
                sizes = np.cumsum([one.size for one in self._arrays])[:-1]
                parts = zip(self._arrays, np.split(values, sizes), strict=True)
                fresh = ArrayRecord([part.reshape(one.shape) for one, part in parts])
                records[name] = ArrayRecord(dict(zip(record.keys(), fresh.values(), strict=True)))
            else:
                records[name] = record
        found = copy(reply)
        found.content = RecordDict(records)
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Flower logs a line for each reply that it clips."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@dataclass
class _Asked:
    """A round whose clients were asked to train."""

    round: plain.OpenRound
    names: Mapping[int, str]
    """The client charged for each node."""
    drawn: int
    """How many the inner strategy had drawn."""
    sent: list[str] | None = None
    """Whose updates are in the result; None before there is one."""


class FedauditStrategy(Strategy):
    """Reserves each round of a strategy before its clients are asked, and declares it before its
    result is used.

    The outermost strategy: Flower's own wrappers for differential privacy lie inside it. Clients
    that are refused get no message. `RoundRefused` ends the run if no client is admitted.
    """

    def __init__(
        self,
        inner: Strategy,
        ledger: plain.Ledger,
        *,
        event: plain.Event | None = None,
        fixed_size_sample: bool = False,
        ask_subjects: bool = False,
        ask_seconds: float = 60.0,
        group_counts: bool = False,
        audit: Canaries | None = None,
    ) -> None:
        """`event`: what each round releases; None takes the noise of the
        wrapper with fixed clipping that is found in `inner`.

        `fixed_size_sample` counts on amplification: nodes are drawn evenly from all of the
        ledger's population, and secretly. `ask_subjects` asks nodes who they are before they
        train (`say_subject`), those that do not answer within `ask_seconds` once more, and leaves
        out those that do not say. `group_counts` holds each
        round back until its model was evaluated, to declare how it predicted by group. `audit`:
        canaries beside each round (`CanaryReplies`). Raises ValueError where the event is not
        known, or does not fit, or canaries cannot see what it rests on.
        """
        if type(inner).start is not Strategy.start:
            raise ValueError(f"{type(inner).__name__} has its own loop; rounds cannot be observed")
        self.inner = inner
        self.ledger = ledger
        self._event = dict(event) if event is not None else None
        self._noise = None if event is not None else averaged_noise(inner, ledger.terms)
        self._fixed_size = fixed_size_sample
        if fixed_size_sample:
            *_, innermost = chain(inner)
            draws_evenly = type(innermost).configure_train is FedAvg.configure_train
            if self._noise is None or not draws_evenly:
                raise ValueError(
                    "`fixed_size_sample` needs a wrapper's noise and FedAvg's own drawing"
                )
        self._ask_seconds = ask_seconds if ask_subjects else None
        self._counts = group_counts
        self._canaries = None if audit is None else CanaryReplies(inner, ledger, audit)
        self._subjects: dict[int, str] = {}
        self._asked: _Asked | None = None

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner strategy's."""
        if name == "inner":  # Before __init__, as when it is copied.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def start(self, *arguments: Any, **named: Any) -> Result:
        """Run `Strategy.start`; whatever ends it, what was released has been declared."""
        try:
            return super().start(*arguments, **named)
        finally:
            self._settle()

    def summary(self) -> None:
        """Log the inner strategy's summary."""
        self.inner.summary()

    # -- training ----------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The inner strategy's messages to those who are admitted. Raises RoundRefused."""
        self._settle()
        messages = list(self.inner.configure_train(server_round, arrays, config, grid))
        if not messages:
            return messages
        number = self.ledger.next_round
        nodes = [int(message.metadata.dst_node_id) for message in messages]
        names = self._names(number, nodes, grid)
        if self._fixed_size:
            connected, population = len(list(grid.get_node_ids())), self.ledger.terms["population"]
            if connected < population:
                raise plain.RoundRefused(
                    number,
                    f"{connected} nodes are connected, and the sample is declared as drawn from "
                    f"{population}; wait for them, or leave out `fixed_size_sample`",
                )
        asked = self._reserved(number, names, drawn=len(messages))
        if self._canaries is not None:
            self._canaries.begin(arrays)
        self._asked = asked
        return [one for one in messages if int(one.metadata.dst_node_id) in asked.names]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The inner strategy's aggregate, which leaves this method once it is declared. Raises
        RoundRefused where it would have less noise than there is room for."""
        received = list(replies)
        found: tuple[ArrayRecord | None, MetricRecord | None]
        if self._asked is None or self._noise is None:
            self._declare([one for one in received if not one.has_error()])
            found = self.inner.aggregate_train(server_round, received)
            return found
        sent = [one for one in received if not one.has_error()]
        if sent:
            self._check_noise(self._asked, self._noise, sent)
            if self._canaries is not None:
                self._canaries.send(server_round, sent)
        found = self.inner.aggregate_train(server_round, received)
        if found[0] is None:
            # Flower's wrappers release nothing where a client failed.
            if self._canaries is not None:
                self._canaries.planted.forget()
            self._settle()
        else:
            self._declare(sent)
        return found

    def _declare(self, sent: Sequence[Message]) -> None:
        """Declare the round by these replies, at once or with its counts by group."""
        asked = self._asked
        if asked is None:
            return
        nodes = {int(one.metadata.src_node_id) for one in sent}
        asked.round.event = self._event_of(len(sent), asked.drawn)
        asked.sent = [name for node, name in asked.names.items() if node in nodes]
        if not self._counts:
            self._settle()

    def _check_noise(self, asked: _Asked, noise: AveragedNoise, sent: Sequence[Message]) -> None:
        """Before anything is aggregated. Raises RoundRefused."""
        metrics = [one for reply in sent for one in reply.content.metric_records.values()]
        if len({one.get(noise.weight_key) for one in metrics}) > 1:
            raise plain.RoundRefused(
                asked.round.number,
                f"clients have different {noise.weight_key!r}, and the noise is that of a mean "
                "without weights; let every client send the same, as 1, or state `event`",
            )
        event = self._event_of(len(sent), asked.drawn)
        if event != asked.round.event:
            number, everyone = asked.round.number, [*asked.names.values()]
            found = self.ledger.reserve(number, event=event, participants=everyone)
            if found.refused:
                why = f"only {len(sent)} answered, and a mean of fewer has less noise"
                raise plain.RoundRefused(number, why, found.refused)

    def _reserved(self, number: int, names: dict[int, str], *, drawn: int) -> _Asked:
        """A mean of fewer has less noise in proportion, so it is asked until all are admitted."""
        while True:
            opened = self.ledger.reserve(
                number,
                event=self._event_of(len(names), drawn),
                participants=[*names.values()],
                canaries=None if self._canaries is None else self._canaries.planted,
            )
            if not opened.refused:
                return _Asked(opened, names, drawn)
            names = {node: name for node, name in names.items() if name not in opened.refused}

    def _event_of(self, count: int, drawn: int) -> plain.Event:
        if self._noise is None:
            assert self._event is not None
            return self._event
        population = self.ledger.terms["population"] if self._fixed_size else None
        return self._noise.event(count, drawn=drawn, population=population)

    # -- who is who --------------------------------------------------------------------------------

    def _names(self, number: int, nodes: Sequence[int], grid: Grid) -> dict[int, str]:
        if self._ask_seconds is None:
            return {node: str(node) for node in nodes}
        silent = ask_names(nodes, grid, self._subjects, seconds=self._ask_seconds)
        names = {node: self._subjects[node] for node in nodes if node in self._subjects}
        if not names:
            raise plain.RoundRefused(
                number,
                f"no node says whose it is: {len(nodes) - len(silent)} of {len(nodes)} answered "
                "without a name, so register `say_subject` and `subject_mod` in the ClientApp; "
                f"{len(silent)} did not answer within {self._ask_seconds:g} seconds, asked twice, "
                "so give slow ones a larger `ask_seconds`",
            )
        twice = {name for name in names.values() if [*names.values()].count(name) > 1}
        if twice:
            raise plain.RoundRefused(
                number, f"several nodes say that they are {', '.join(sorted(twice))}"
            )
        return names

    # -- evaluation --------------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The inner strategy's messages."""
        messages = list(self.inner.configure_evaluate(server_round, arrays, config, grid))
        if not messages:
            self._settle()
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Declare the counts by group, which the inner strategy does not see, and aggregate."""
        received = list(replies)
        taken = [
            plain.taken_counts(record)
            for reply in received
            if not reply.has_error()
            for record in reply.content.metric_records.values()
        ]
        self._settle(plain.total_counts(taken))
        found: MetricRecord | None = self.inner.aggregate_evaluate(server_round, received)
        return found

    def _settle(self, groups: Mapping[str, Any] | None = None) -> None:
        """Declare the round that is open. One without a result charges no one where only the
        wrapper would have released something, and everyone who was asked where others may have
        seen uploads."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        by_server = self._noise is not None and self.ledger.terms["observer"] != "server"
        if asked.sent is None and by_server:
            with suppress(NotFoundError):  # Refused when it was reserved anew.
                self.ledger.release(asked.round.number)
        else:
            asked.round.answered(asked.sent or (), groups=groups)
            asked.round.end()
