"""A draft record of the Differential Privacy Deployments Registry, complete up to tier 3.

The fields and their allowed values are those of the registry's deployments-schema.yaml. Its texts
are Markdown, so values from the report are escaped. Facts that a run cannot know are not invented:
the text says that they are not stated, and the notes list every field that a person has to fill.
"""

import re
from typing import Any

from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import Document, number_at, text_at, texts_at
from fedaudit.reports.readings.markdown import bullets, plain
from fedaudit.reports.readings.reading import ReportReading, rendered
from fedaudit.reports.sections.guarantee import charges_everyone

_PREPARATION = "/deployment/implementation/preprocessing_and_hyperparameter_tuning"
_FOR_A_PERSON = {
    "/deployment/basic/data_curators": "who publishes the model",
    "/deployment/basic/intended_use": "what it is for",
    "/deployment/basic/data_product_region": "which region or whose law",
    "/deployment/basic/data_product_sector": "left out: the schema has no value for unknown",
    "/deployment/basic/publication_date": "here the day on which training ended",
    "/deployment/deployment_model/release_type": "right only if this model is published once",
    "/deployment/deployment_model/release_type_details": "plans for the same data",
    "/deployment/accounting/post_processing": "what is done to the model afterwards",
    _PREPARATION: "how settings were chosen",
    "/deployment/implementation/mechanisms": "who may see the data, and how that is kept",
    "/deployment/implementation/justification": "why these choices",
    "/deployment/administrative/sources": "links to the model and to papers",
    "/deployment/administrative/registry_authors": "who completes this record",
}
_NO_DEPLOYMENT = (
    "This run has no privacy guarantee: it is no deployment of differential privacy and does not "
    "belong in the registry."
)


_LISTS = ("data_curators", "registry_authors")


def registry(document: Document) -> dict[str, Any]:
    """The record of a report, to be completed by a person."""
    found: dict[str, dict[str, Any]] = {}

    def field(section: str, name: str, caller: Any) -> str:
        said = plain(caller())
        found.setdefault(section, {})[name] = [said] if name in _LISTS else said
        return ""

    day = re.match(r"\d{4}-\d{2}-\d{2}", text_at(document, "provenance", "finished_at") or "")
    rendered(
        "registry.txt",
        document,
        field=field,
        variant=_variant(document),
        neighbours=_neighbours(document),
        day=day and day.group(),
        charges_everyone=charges_everyone,
    )
    if _variant(document) is None:
        del found["dp_variant"]["variant_name"]
    found["privacy_loss"]["privacy_parameters"] = _parameters(document)
    found["administrative"]["notes"] = _notes(document)
    return {"url_slug": _slug(document), "status": "Draft", "tier": 3, "deployment": found}


REGISTRY = ReportReading(
    name="registry",
    title="Deployments registry",
    note=(
        "A record of the Differential Privacy Deployments Registry. What the run cannot know is "
        "marked, for you to fill in."
    ),
    make=registry,
    schema={
        "type": "object",
        "description": "A record of the Differential Privacy Deployments Registry.",
        "required": ["url_slug", "status", "tier", "deployment"],
    },
)


def _slug(document: Document) -> str:
    """The experiment's name and the end of its id, which distinguishes runs of the same name."""
    id_ = text_at(document, "experiment", "id") or "unknown"
    name = text_at(document, "experiment", "name") or "experiment"
    words = re.findall(r"[a-z0-9]+", f"{name} {id_[-12:]}".lower())
    return "-".join(words)[:100]


def _variant(document: Document) -> str | None:
    """None without a guarantee: the schema has no value for that."""
    if not facts.is_protected(document):
        return None
    proven = facts.kind(document) == "formal" and facts.epsilon_max(document) is not None
    return "Approximate DP" if proven else "Custom"


def _neighbours(document: Document) -> str:
    adjacency = text_at(document, "guarantee", "adjacency")
    if adjacency is not None:
        return adjacency_words(adjacency)
    return text_at(document, "guarantee", "reasons", "adjacency") or "unknown"


def _parameters(document: Document) -> dict[str, float]:
    epsilon = facts.epsilon_max(document)
    delta = number_at(document, "guarantee", "delta")
    if not facts.is_protected(document) or epsilon is None or delta is None:
        return {}
    return {"epsilon": epsilon, "delta": delta}


def _notes(document: Document) -> str:
    """What a person has to fill or confirm, by JSON pointer, the verdict and the limits."""
    missing = dict(_FOR_A_PERSON)
    if _variant(document) is None:
        missing["/deployment/dp_variant/variant_name"] = "left out: there is no guarantee"
    verdict = plain(text_at(document, "verdict") or "")
    paragraphs = [
        [] if facts.is_protected(document) else [_NO_DEPLOYMENT],
        ["To be filled in or confirmed by a person:"],
        bullets(f"`{pointer}`: {what}" for pointer, what in missing.items()),
        [verdict],
        bullets(map(plain, texts_at(document, "limits"))),
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines).strip()
