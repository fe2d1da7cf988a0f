"""Wording for `participations_max`: rounds of the busiest client, or rounds charged to all."""

from typing import assert_never

from fedaudit.privacy.mechanisms.registry import known_facts


def charges_everyone(mechanism: str | None) -> bool:
    """Whether every client is charged for every round because it is secret who took part.

    The name is a stored one; one that this version does not know is not said to do so.
    """
    facts = known_facts(mechanism)
    if facts is None:
        return False
    match facts.subject_kind:
        case "population":
            return True
        case "client" | "record_group":
            return False
        case _:
            assert_never(facts.subject_kind)


def participation_label(mechanism: str | None, *, of_clients: str) -> str:
    """What the figure counts, for a table; `of_clients`: its name where clients are charged."""
    return "rounds charged to everyone" if charges_everyone(mechanism) else of_clients
