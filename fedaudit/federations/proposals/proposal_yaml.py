"""A proposal as YAML that parses as a registration, with a comment beside each guess."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from fedaudit.federations.proposals.proposal import Proposal
from fedaudit.spec.errors import pointer

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_HEAD = (
    "# Proposed from the file. Comments are the reasons of guesses: read them, correct what is",
    "# wrong, then `fedaudit federations add FILE --registration THIS`.",
)


def proposal_yaml(proposal: Proposal) -> str:
    """The text; a field whose value is a guess carries the reason."""
    return "\n".join(_lines(proposal)) + "\n"


def _lines(proposal: Proposal) -> Iterator[str]:
    yield from _HEAD
    if not proposal.complete:
        yield (
            f"# Only the first {proposal.rows} rows were read: later ones may hold other values, "
            "and gaps."
        )
    registration = proposal.registration
    yield f"name: {_flow(registration['name'])}"
    yield "federation:"
    for name, value in registration["federation"].items():
        where = f"/federation/{name}"
        if name == "features":
            yield "  features:"
            for place, feature in enumerate(value):
                yield from _field("    -", feature, proposal, f"{where}/{place}", colon="")
        else:
            yield from _field(f"  {name}", value, proposal, where)
    yield from _label_stubs(proposal)
    yield from _join_stubs(proposal)
    yield from _left_out(proposal)
    yield from _fairness(proposal)


def _fairness(proposal: Proposal) -> Iterator[str]:
    fairness = proposal.registration["fairness"]
    missing_rule = proposal.guesses.get("/fairness/favourable")
    if not fairness:
        yield "# fairness: name the columns between whose groups fairness is measured, under"
        yield "#   `sensitive`; no column's name sounds sensitive."
        return
    yield "fairness:"
    yield f"  sensitive: {_flow(fairness['sensitive'])}"
    for place, name in enumerate(fairness["sensitive"]):
        reason = proposal.guesses[pointer("fairness", "sensitive", place)]
        yield f"    # {name}: {_comment(reason)}"
    if "edges" in fairness:
        yield f"  edges: {_flow(fairness['edges'])}"
        yield "    # a guess: choose edges that mean something for these people"
    if missing_rule:
        yield f"  # {_comment(missing_rule)}"


def _label_stubs(proposal: Proposal) -> Iterator[str]:
    """Labels are left for a person to write: nothing in a file says what a code means."""
    if not proposal.codes:
        return
    yield "  # labels:                # what these codes mean; reports say it in their place"
    for column, codes in proposal.codes.items():
        stub = ", ".join(f"{_flow(code)}: ..." for code in codes)
        yield f"  #   {_flow(column)}: {{{stub}}}"


def _join_stubs(proposal: Proposal) -> Iterator[str]:
    if not proposal.joinable:
        return
    yield "  # join:    # these look like one attribute in several columns; if so, name it"
    for name, groups in proposal.joinable.items():
        stub = _flow({"columns": groups, "none": "other"})
        yield f"  #   {_flow(name)}: {stub}   # under `sensitive` in their place"


def _left_out(proposal: Proposal) -> Iterator[str]:
    for column, reason in proposal.left_out.items():
        yield f"  # no feature: {_comment(column)} ({_comment(reason)})"


def _field(
    start: str, value: Any, proposal: Proposal, where: str, *, colon: str = ":"
) -> Iterator[str]:
    reason = proposal.guesses.get(where)
    line = f"{start}{colon} {_flow(value)}"
    yield line if reason is None else f"{line}   # {_comment(reason)}"


def _flow(value: Any) -> str:
    """A value on one line; a text is quoted unless it is a plain word for every reader of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(name)}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    """A column's name may hold what would end a comment's line."""
    return " ".join(text.split())
