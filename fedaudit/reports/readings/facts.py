"""Fields of a report, and statements that several readings share.

A field that a report of this kind lacks is None.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from fedaudit.number_text import number as shown
from fedaudit.privacy.mechanisms.base import MechanismFacts, NoiseOrigin, NoPrivacyMechanism
from fedaudit.privacy.mechanisms.registry import bounds_nothing, known_facts
from fedaudit.reports.checks import value_at
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import delta_gives_data_away
from fedaudit.reports.sections.outcome_words import derived_outcome
from fedaudit.reports.sections.part import Part
from fedaudit.reports.verdict.cost import Bound, sends_nothing

Document = Mapping[str, Any]

NOT_STATED = "Not stated by this run"
"""Prefix of every text for a person to replace."""


class ReportName(Part):
    """Which report was read."""

    experiment_id: str | None
    name: str | None
    spec_hash: str | None
    report_version: int | None


def report_name(document: Document) -> ReportName:
    """The fields that identify the report."""
    version = number_at(document, "report_version")
    return ReportName(
        experiment_id=text_at(document, "experiment", "id"),
        name=text_at(document, "experiment", "name"),
        spec_hash=text_at(document, "experiment", "spec_hash"),
        report_version=None if version is None else int(version),
    )


def text_at(document: Document, *path: str) -> str | None:
    """A non-empty text."""
    found = value_at(document, *path)
    return found if isinstance(found, str) and found else None


def number_at(document: Document, *path: str) -> float | None:
    """A finite number; counts stay integers."""
    found = value_at(document, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) else None


def texts_at(document: Document, *path: str) -> list[str]:
    """The texts of a list; empty where there is no list."""
    found = value_at(document, *path)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def parts_at(document: Document, *path: str) -> list[Document]:
    """The objects of a list; empty where there is no list."""
    found = value_at(document, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def part_at(document: Document, *path: str) -> Document:
    """An object; empty where there is no object."""
    found = value_at(document, *path)
    return found if isinstance(found, Mapping) else {}


def figure(value: float | None) -> str:
    """A figure for a sentence; counts in full precision."""
    if value is None:
        return "unknown"
    return str(value) if isinstance(value, int) else shown(value)


def of_rounding(document: Document) -> list[str]:
    """What the limits say of noise that a computer draws; every version begins alike."""
    return [one for one in texts_at(document, "limits") if "proven for real numbers" in one]


def settings(part: Document) -> str:
    """An object of the spec in one line: `clip 1, noise "simulation"`."""
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in part.items())


HELD_OUT = (
    "Losses, the choice of the best round and the fairness rates are taken from held-out rows "
    "without noise or guarantee."
)
HELD_OUT_ROWS = (
    "Losses and the fairness rates are taken, without noise or guarantee, from held-out rows of "
    "the clients that train."
)


def held_out(document: Document) -> str:
    """How the figures of held-out rows came about."""
    if part_at(document, "fairness_privacy"):
        return (
            "Fairness rates are computed from counts of held-out rows with noise, whose epsilon "
            "the report gives under fairness_privacy; nothing else is published of these rows, and "
            "no loss chose the round."
        )
    by_row = text_at(document, "spec", "federation", "validation_unit") == "record"
    by_client = has_guarantee(document) and text_at(document, "guarantee", "unit") != "record"
    return HELD_OUT_ROWS if by_row and by_client else HELD_OUT


def attacks(document: Document) -> list[str]:
    """What each attack on the run found, an alarm first."""
    return [
        f"{'ALARM by the attack' if part_at(one, 'alarm') else 'Attack'} "
        f"{text_at(one, 'kind') or 'of unknown kind'}: {text_at(one, 'statement') or 'unknown'}"
        for one in parts_at(document, "attacks")
    ]


def kind(document: Document) -> str:
    """formal, heuristic, declared or none."""
    return str(document["guarantee"]["kind"])


def mechanism(document: Document) -> str | None:
    """The name of the mechanism."""
    return text_at(document, "guarantee", "mechanism") or text_at(
        document, "spec", "privacy", "mechanism"
    )


def mechanism_facts(document: Document) -> MechanismFacts | None:
    """The facts about the mechanism in this version; None for a missing or unknown name."""
    return known_facts(mechanism(document))


def noise_origin(document: Document) -> NoiseOrigin | None:
    """Who adds noise; None where it is not known. The report's guarantee decides: some mechanisms
    have a baseline without noise."""
    if kind(document) == "none":
        return NoPrivacyMechanism.facts.noise_origin
    known = mechanism_facts(document)
    return None if known is None else known.noise_origin


def is_protected(document: Document) -> bool:
    """Whether the report states any guarantee that bounds something."""
    return has_guarantee(document) and not bounds_nothing(mechanism(document))


def has_guarantee(document: Document) -> bool:
    """Whether the report states any, if only of noise by which nothing is counted."""
    return kind(document) in ("formal", "heuristic")


def why_unprotected(document: Document) -> str:
    """Why nothing bounds the cost, as a clause."""
    known = mechanism_facts(document) if has_guarantee(document) else None
    return (known.unbounded if known else None) or "there is no privacy mechanism"


def is_simulated(document: Document) -> bool:
    """Whether the noise follows from the seed."""
    noise = text_at(document, "spec", "privacy", "noise")
    return has_guarantee(document) and noise == "simulation"


def favourable_outcome(document: Document) -> str:
    """The rule behind rates and gaps, in words; without a rule a numeric target has no favourable
    outcome."""
    return derived_outcome(document) or "none was declared"


def group_name(group: Document) -> str:
    """A group's label, or its code if it has none."""
    return text_at(group, "label") or text_at(group, "value") or "not named"


def is_doubtful(document: Document) -> bool:
    """Whether figures with secret noise show less than they say."""
    contradicted = bool(raised_alarms(document))
    return contradicted or delta_gives_data_away(document) or not Bound(document).is_proven


def federation(document: Document) -> str | None:
    """The federation in one sentence; None where the report lacks it."""
    data = part_at(document, "data")
    if not data:
        return None
    counted = ("rows", "clients", "training_clients", "validation_clients")
    count = {name: figure(number_at(data, name)) for name in counted}
    held_out = f"{count['validation_clients']} are held out"
    if text_at(document, "spec", "federation", "validation_unit") == "record":
        held_out = "rows of each of them are held out"
    return (
        f"{count['rows']} rows of {count['clients']} clients from the source "
        f"{text_at(data, 'source') or 'unknown'}; {count['training_clients']} clients train, "
        f"{held_out}."
    )


def client_key(document: Document) -> str | None:
    """The column that identifies clients, where the spec names one."""
    return text_at(document, "spec", "federation", "client_key")


def model(document: Document) -> str:
    """The model in one sentence."""
    size = figure(number_at(document, "data", "parameters"))
    hypotheses = figure(number_at(document, "spec", "training", "hypotheses"))
    parts = settings(part_at(document, "spec", "model")) or "unknown"
    if sends_nothing(document):
        return f"Released parameters: none; each client has its own model: {parts}."
    personal = text_at(document, "utility", "method", "personalised")
    own = "" if personal is None else f" The figures are of other models: {personal}."
    return f"Released parameters: {size}; hypotheses: {hypotheses}; model: {parts}.{own}"
