"""The report's statements in the order of NIST SP 800-226 (March 2025).

"Guidelines for Evaluating Differential Privacy Guarantees" orders what a claim rests on as a
pyramid: its figures on top, what can undermine them in the middle, and the ground below. The topics
follow it and the hazards it names; the questions are this project's words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from fedaudit.number_text import plain
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.facts import (
    NOT_STATED,
    Document,
    ReportName,
    number_at,
    part_at,
    parts_at,
    report_name,
    text_at,
    texts_at,
)
from fedaudit.reports.readings.impact_ratio import IMPACT_RATIO
from fedaudit.reports.readings.questions import Topic, asked, questions_reading
from fedaudit.reports.readings.reading import ReportReading, bullets, rendered
from fedaudit.reports.sections.guarantee import charges_everyone, guarantee_words
from fedaudit.reports.sections.part import Part
from fedaudit.spec.metrics import RATES

NOTICE = (
    "Statements of one audit report, put in the order of NIST SP 800-226. NIST has reviewed none "
    "of it, and this is no evaluation: what is not shown here has to be looked at elsewhere."
)


class NistTopic(Topic):
    """One stone of the pyramid."""

    layer: Literal["top", "middle", "base"]


class NistReading(Part):
    """A report read by NIST SP 800-226."""

    reading: Literal["nist-800-226"] = "nist-800-226"
    report: ReportName
    notice: str
    topics: list[NistTopic]
    """From the top of the pyramid down."""


def nist_800_226(document: Document) -> NistReading:
    """What a report states on each topic, and what it does not show."""
    topics = asked("nist_800_226.txt", document)
    return NistReading(
        report=report_name(document),
        notice=NOTICE,
        topics=[NistTopic.model_validate(one) for one in topics],
    )


NIST_800_226 = ReportReading(
    name="nist-800-226",
    title="NIST SP 800-226",
    note=NOTICE,
    as_of=date(2026, 11, 24),
    make=lambda document: nist_800_226(document).model_dump(mode="json"),
    schema=NistReading,
)


Value = str | Sequence[str] | Mapping[str, str]

_MARKUP = frozenset('"\\<>&`')
_UTILITY = (
    "validation_loss",
    "baseline_loss",
    "accuracy",
    "baseline_accuracy",
    "accuracy_over_baseline",
    "prediction_share",
    "threshold",
    "auc",
    "balanced_accuracy",
    "precision",
    "recall",
    "brier",
)
"""The baseline is a prediction that ignores every feature."""


def model_card(document: Document) -> str:
    """The card; sections that a person has to write say so."""
    names = (text_at(section, "attribute") for section in parts_at(document, "fairness"))
    privacy = [
        facts.NOT_FOR_RELEASE if facts.is_simulated(document) else None,
        f"Guarantee: {_guarantee(document)}, of the mechanism "
        f"{facts.mechanism(document) or 'unknown'}.",
        *facts.spent(document),
        *(facts.doubts(document) if facts.is_protected(document) else []),
        text_at(document, "guarantee", "statement"),
        *facts.attacks(document),
    ]
    return rendered(
        "model_card.txt",
        document,
        front_matter="\n".join(["---", *_yaml(_keys(document)), "---"]),
        attributes=[name for name in names if name],
        data=facts.federation(document) or f"{NOT_STATED}.",
        utilities=_UTILITY,
        rates=RATES,
        privacy=[one for one in privacy if one],
    )


MODEL_CARD = ReportReading(
    name="model-card",
    title="Model card",
    note="A model card in Markdown. What the run cannot know is marked, for you to fill in.",
    as_of=date(2026, 11, 24),
    make=model_card,
    schema=None,
)


def _keys(document: Document) -> dict[str, Value]:
    found: dict[str, Value] = {"library_name": "fedaudit"}
    name = text_at(document, "experiment", "name")
    if name is not None:
        found["model_name"] = name
    # People search for this tag, so it requires a proven epsilon with secret noise.
    secret = text_at(document, "spec", "privacy", "noise") == "release"
    proven = secret and _variant(document) == "Approximate DP"
    found["tags"] = ["federated-learning", *(["differential-privacy"] if proven else [])]
    if number_at(document, "utility", "accuracy") is not None:
        found["metrics"] = ["accuracy"]
    stated = {
        "experiment_id": text_at(document, "experiment", "id"),
        "spec_hash": text_at(document, "provenance", "spec_hash"),
        "mechanism": facts.mechanism(document),
        "guarantee": _guarantee(document),
        "spent": " ".join(facts.spent(document)) or "no figure",
        "gate_outcome": text_at(document, "gate_outcome") or "no gate was given",
    }
    found["fedaudit"] = {key: value for key, value in stated.items() if value is not None}
    return found


def _guarantee(document: Document) -> str:
    simulated = facts.is_simulated(document)
    section = part_at(document, "guarantee")
    return guarantee_words({**section, "in_force": False} if simulated else section)


def _yaml(values: Mapping[str, Value]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, str):
            yield f"{key}: {_quoted(value)}"
        elif isinstance(value, Mapping):
            yield f"{key}:"
            yield from (f"  {name}: {_quoted(text)}" for name, text in value.items())
        else:
            yield f"{key}:"
            yield from (f"- {_quoted(text)}" for text in value)


def _quoted(text: str) -> str:
    """In double quotes on one line, without characters that YAML refuses or Markdown marks up."""
    escaped = (
        one if one.isprintable() and one not in _MARKUP else f"\\U{ord(one):08x}" for one in text
    )
    return f'"{"".join(escaped)}"'


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
    "This run has no privacy guarantee that bounds anything: it is no deployment of differential "
    "privacy and does not belong in the registry."
)


_LISTS = ("data_curators", "registry_authors")


def registry(document: Document) -> dict[str, Any]:
    """The record of a report, to be completed by a person."""
    found: dict[str, dict[str, Any]] = {}

    def field(section: str, name: str, caller: Any) -> str:
        said = plain(caller())
        found.setdefault(section, {})[name] = [said] if name in _LISTS else said
        return ""

    adjacency = text_at(document, "guarantee", "adjacency")
    neighbours = text_at(document, "guarantee", "reasons", "adjacency") or "unknown"
    if adjacency is not None:
        neighbours = adjacency_words(adjacency)
    day = re.match(r"\d{4}-\d{2}-\d{2}", text_at(document, "provenance", "finished_at") or "")
    rendered(
        "registry.txt",
        document,
        field=field,
        variant=_variant(document),
        neighbours=neighbours,
        day=day and day.group(),
        charges_everyone=charges_everyone,
    )
    if _variant(document) is None:
        del found["dp_variant"]["variant_name"]
    epsilon, delta = facts.epsilon_max(document), number_at(document, "guarantee", "delta")
    if (planned := facts.epsilon_planned(document)) is not None:
        epsilon = planned
    known = _variant(document) == "Approximate DP" and epsilon is not None and delta is not None
    parameters = {"epsilon": epsilon, "delta": delta} if known else {}
    found["privacy_loss"]["privacy_parameters"] = parameters
    found["administrative"]["notes"] = _registry_notes(document)
    # The end of the id distinguishes runs of the same name.
    id_ = text_at(document, "experiment", "id") or "unknown"
    name = text_at(document, "experiment", "name") or "experiment"
    words = re.findall(r"[a-z0-9]+", f"{name} {id_[-12:]}".lower())
    return {"url_slug": "-".join(words)[:100], "status": "Draft", "tier": 3, "deployment": found}


REGISTRY = ReportReading(
    name="registry",
    title="Deployments registry",
    note=(
        "A record of the Differential Privacy Deployments Registry. What the run cannot know is "
        "marked, for you to fill in."
    ),
    as_of=date(2026, 11, 24),
    make=registry,
    schema={
        "type": "object",
        "description": "A record of the Differential Privacy Deployments Registry.",
        "required": ["url_slug", "status", "tier", "deployment"],
    },
)


def _variant(document: Document) -> str | None:
    """None without a guarantee: the schema has no value for that."""
    if not facts.is_protected(document):
        return None
    proven = facts.epsilon_max(document) is not None and not facts.doubts(document)
    return "Approximate DP" if proven else "Custom"


def _registry_notes(document: Document) -> str:
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


ANNEX_IV = questions_reading(
    "annex-iv",
    title="EU AI Act, Annex IV",
    notice=(
        "Statements of one audit report, put in the order of Annex IV of Regulation (EU) "
        "2024/1689, as published in July 2024. It is a part of technical documentation at most, no "
        "conformity assessment and no legal advice; whether a system is of high risk is not asked."
    ),
    as_of=date(2026, 11, 26),
)
EDPB_28_2024 = questions_reading(
    "edpb-28-2024",
    title="EDPB Opinion 28/2024",
    notice=(
        "Statements of one audit report beside the questions of Opinion 28/2024 of the European "
        "Data Protection Board (17 December 2024) on AI models. Whether a model is anonymous is "
        "for its controller to show and for an authority to assess; nothing here says that it is."
    ),
    as_of=date(2026, 11, 26),
)
_ALL = (REGISTRY, NIST_800_226, IMPACT_RATIO, MODEL_CARD, ANNEX_IV, EDPB_28_2024)

READINGS: dict[str, ReportReading] = {one.name: one for one in _ALL}
"""By name. The command line, the HTTP interface and the pages offer the formats registered here."""

if TYPE_CHECKING:
    ReadingName = str
else:
    # The names themselves, for code that validates a name or publishes a schema of it.
    ReadingName = Literal[tuple(READINGS)]


def reading(document: Mapping[str, Any], name: ReadingName) -> dict[str, Any] | str:
    """A stored report in the named format: JSON-able values, and Markdown for `model-card`.
    Raises KeyError for a name that is not registered."""
    return READINGS[name].make(document)
