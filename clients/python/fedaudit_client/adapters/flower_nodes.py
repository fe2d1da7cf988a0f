"""Whose a node of Flower is: what a ClientApp says of itself. Needs the extra `flower`."""

from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid

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
                silent.discard(int(reply.metadata.src_node_id))
                _learn(reply, known)
    return silent


def _learn(reply: Message, known: dict[int, str]) -> None:
    """The first name of a node is kept: a client has one budget, not one per name."""
    if reply.has_error():
        return
    record = reply.content.config_records.get(RECORD)
    name = None if record is None else record.get("subject")
    if isinstance(name, str) and name:
        known.setdefault(int(reply.metadata.src_node_id), name)
