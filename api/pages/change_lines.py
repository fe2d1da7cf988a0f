"""Changes of what is set on a federation, a line each."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from api.pages.wording import NONE, room, small_number
from api.schemas.people import ActorBody, ChangeBody


@dataclass(frozen=True)
class ChangeLine:
    """What was set, by whom and when."""

    what: str
    changed_by: ActorBody
    changed_at: datetime


def change_line(change: ChangeBody) -> ChangeLine:
    """The line of one change."""
    return ChangeLine(_what(change), change.changed_by, change.changed_at)


def _what(change: ChangeBody) -> str:
    value = change.value
    match change.setting:
        case "budget":
            return NONE if value is None else _budget(value)
        case "disclosure":
            return "what may be asked of groups: " + (
                "the policy was removed" if value is None else ", ".join(value).replace("_", " ")
            )
        case "simulation":
            return f"simulated noise: {NONE if value is None else value['simulation']}"
        case "gates":
            return "gates"
        case _:
            assert_never(change.setting)


def _budget(value: dict[str, Any]) -> str:
    """Figure, book and total first, then what else names the budget."""
    total = value["total"]
    parts = [
        f"budget of {value['figure'].replace('_', ' ')} in the {value['book']} book: "
        + ("the bound was removed" if total is None else f"total {room(total)}")
    ]
    if "delta" in value:
        parts.append(f"δ = {small_number(value['delta'])}")
    parts += [
        f"{name.replace('_', ' ')} {value[name]}"
        for name in ("adjacency", "observer", "radius", "clip", "unit_key")
        if name in value
    ]
    return ", ".join(parts)
