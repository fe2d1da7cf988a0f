"""What attacks found after a report was signed, and how the report has to be judged then."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fedaudit.ledger.statements import Envelope, SigningKey
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.gates import Gate


def judged_later(
    report: Mapping[str, Any], sections: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The document with what was found later among its attacks, and its gates and verdict anew.
    `sections`: of every later attack, whatever it found: no one chooses among them, so that of
    several attacks of a kind the worst decides. Raises KeyError or TypeError for a document without
    the sections of a report."""
    if not sections:
        return dict(report)
    found: dict[str, Any] = {**report, "attacks": [*(report.get("attacks") or []), *sections]}
    gates = [Gate.model_validate(gate) for gate in report["spec"]["gates"]]
    found["gates"] = evaluate(gates, found)
    found["gate_outcome"] = overall(found["gates"])
    return found | judged(found)


PAYLOAD_TYPE = "application/vnd.fedaudit.later-attacks+json"
VERSION = 1
Basis = Literal["repeated", "stored-model", "companions"]
"""What was attacked: the run, repeated to the same ledger; its stored hypotheses, where its noise
cannot be drawn again; or runs beside it alone, by today's code."""


@dataclass(frozen=True, kw_only=True)
class LaterStatement:
    """What one request for attacks found. Hashes are in hexadecimal."""

    experiment_id: str
    number: int
    """Of the request, from 1; one that is missing was not tried."""
    report_hash: str
    ledger_hash: str
    basis: Basis
    asked: list[Mapping[str, Any]]
    """The attacks, with every default explicit."""
    attacks: list[Mapping[str, Any]]
    """What became of each, as sections of a report."""
    asked_by: Mapping[str, Any]
    """Key and person, as they were then."""
    asked_at: str
    finished_at: str
    """By the clocks of the service and of the worker, in UTC."""
    code_version: str
    backend: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def sign(self, key: SigningKey, *, after: Envelope | None) -> Envelope:
        """In an envelope: canonical JSON (RFC 8785), signed by the service. `after`: the statement
        before, None for the first, which follows from the report."""
        previous = self.report_hash if after is None else link_of_statement(after)
        fields = {"later_attacks_version": VERSION, "previous": previous, **self.fields()}
        return Envelope.sign(PAYLOAD_TYPE, canonical_json(fields), key)


def statement_in(envelope: Envelope) -> tuple[LaterStatement, str]:
    """The statement and what it names as its `previous`; the signature is not checked here. Raises
    ValueError where the envelope does not hold a statement of this version."""
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ValueError(f"has the payload type {envelope.payload_type[:80]!r}")
    try:
        value = json.loads(envelope.payload)
    except (ValueError, RecursionError):
        raise ValueError("has a payload that is no JSON") from None
    if not isinstance(value, dict) or value.pop("later_attacks_version", None) != VERSION:
        raise ValueError(f"is no statement on later attacks of version {VERSION}")
    previous = value.pop("previous", None)
    if not isinstance(previous, str):
        raise ValueError("names no statement or report before it")
    return statement_of(value), previous


def statement_of(value: Any) -> LaterStatement:
    """The inverse of `LaterStatement.fields`. Raises ValueError for a value of another form."""
    if not isinstance(value, dict) or set(value) != set(LaterStatement.__dataclass_fields__):
        raise ValueError("lacks a field of a statement on later attacks, or has another one")
    number, attacks = value["number"], value["attacks"]
    if not (type(number) is int and number >= 1):
        raise ValueError("has a number that is none")
    if not (isinstance(attacks, list) and all(isinstance(one, dict) for one in attacks)):
        raise ValueError("has attacks that are no list of sections")
    return LaterStatement(**value)


def link_of_statement(envelope: Envelope) -> str:
    """What the statement after this one names as its `previous`."""
    return hashlib.sha256(envelope.payload).hexdigest()
