"""The forms in which kinds of recipients require a report: impact ratios, NIST SP 800-226, model
card, registry of deployments, and questions of European texts."""

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

import yaml

from fedaudit.fairness.gaps import is_below_four_fifths
from fedaudit.number_text import plain
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.facts import Document, ReportName, parts_at, text_at, texts_at
from fedaudit.reports.readings.reading import ReportReading, Topic, questions_reading, rendered
from fedaudit.reports.sections.guarantee import SIMULATED, charges_everyone, guarantee_words
from fedaudit.reports.sections.part import Part, Share, figure_rows
from fedaudit.reports.sections.utility import Utility
from fedaudit.reports.verdict.cost import Bound, cost_part
from fedaudit.spec.metrics import RATES

_OF_RATIOS = (
    "A table of figures, not legal advice and no bias audit: the law asks for an independent "
    "auditor and for data of the tool's own use. No outcome of it means compliance or a breach."
)
_WHICH_ROWS = {
    False: "Rates come from rows held out of training, pooled over clients: test data, not the "
    "history of a tool in use.",
    True: "Rates come from the rows of the audited table. Whether they were held out of training, "
    "and whether they are of the tool's use, is not known here.",
}
"""Keyed by whether the report is of an audit of predictions, which has no training."""

Reading = Literal["below four fifths", "at least four fifths"]


class ImpactRatioCategory(Part):
    """One row of a table; a suppressed category shows its name alone."""

    category: str
    """The group's label, or its code where it has none."""
    value: str | None
    """The code in the data."""
    suppressed: bool
    rate: Share | None
    impact_ratio: Share | None
    """The rate over the highest rate among the categories that are shown."""
    four_fifths: Reading | None
    reason: str | None


class ImpactRatioTable(Part):
    """The categories of one attribute."""

    attribute: str
    intersection_of: list[str] | None
    """The attributes whose combinations these are; None for a single attribute."""
    categories: list[ImpactRatioCategory]
    highest_rate: Share | None
    below_four_fifths: int
    suppressed_categories: int
    missing_rows: int | None
    """Rows of the whole federation without a value; None where the report does not state it."""


class ImpactRatioReading(Part):
    """A report's rates as tables of impact ratios."""

    reading: Literal["impact-ratio"] = "impact-ratio"
    report: ReportName
    notice: str
    rate: Literal["selection", "scoring"] | None
    """Selection for a classifier, scoring for a numeric target."""
    rate_definition: str
    tables: list[ImpactRatioTable]
    """Single attributes first, then intersections."""
    notes: list[str]


def impact_ratio(document: Document) -> ImpactRatioReading:
    """The tables of a report, one for each of its sensitive attributes, as in a bias audit under
    Local Law 144.

    New York City's rules (6 RCNY 5-300 and 5-301): the selection rate of a category is the share of
    it that is selected, its scoring rate the share that scores above the sample's median, and its
    impact ratio that rate over the highest one. Audits state how many belong to no known category
    and which categories were omitted as too small. Four fifths is the threshold of 29 CFR 1607.4
    (D); the local law itself sets none.
    """
    tables = [_table(document, section) for section in parts_at(document, "fairness")]
    tables.sort(key=lambda one: one.intersection_of is not None)
    loss = text_at(document, "spec", "training", "loss")
    rate: Literal["selection", "scoring"] | None = None
    if loss is not None:
        rate = "selection" if loss == "cross-entropy" else "scoring"
    return ImpactRatioReading(
        report=facts.report_name(document),
        notice=_OF_RATIOS,
        rate=rate,
        rate_definition=_definition(document, rate),
        tables=tables,
        notes=_notes(document, tables),
    )


IMPACT_RATIO = ReportReading(
    name="impact-ratio",
    title="Impact ratios",
    note=_OF_RATIOS,
    as_of=date(2026, 11, 21),
    make=lambda document: impact_ratio(document).model_dump(mode="json"),
    schema=ImpactRatioReading,
)


def _table(document: Document, section: Document) -> ImpactRatioTable:
    attribute = text_at(section, "attribute") or "not named"
    groups = parts_at(section, "groups")
    shown = [rate for rate in map(_shown_rate, groups) if rate is not None]
    highest = max(shown, default=None)
    categories = [_category(group, highest, compared=len(shown)) for group in groups]
    return ImpactRatioTable(
        attribute=attribute,
        intersection_of=texts_at(section, "intersection_of") or None,
        categories=categories,
        highest_rate=highest,
        below_four_fifths=sum(one.four_fifths == "below four fifths" for one in categories),
        suppressed_categories=sum(one.suppressed for one in categories),
        missing_rows=_missing_rows(document, attribute),
    )


def _shown_rate(group: Document) -> float | None:
    if value_at(group, "suppressed") is True:
        return None
    rate = facts.number_at(group, "selection_rate")
    return rate if rate is not None and 0 <= rate <= 1 else None


def _category(group: Document, highest: float | None, *, compared: int) -> ImpactRatioCategory:
    """One row. `compared`: the number of categories that show a rate."""
    rate, ratio = _shown_rate(group), None
    reading: Reading | None = None
    reason: str | None = None
    if rate is None or highest is None:
        reason = text_at(group, "reasons", "selection_rate") or "the report has no rate"
    elif compared < 2:
        reason = "no other category shows a rate to compare with"
    elif highest == 0:
        reason = "no category has a favourable outcome, so there is no ratio"
    else:
        ratio = rate / highest
        reading = "below four fifths" if is_below_four_fifths(ratio) else "at least four fifths"
    return ImpactRatioCategory(
        category=facts.group_name(group),
        value=text_at(group, "value"),
        suppressed=value_at(group, "suppressed") is True,
        rate=rate,
        impact_ratio=ratio,
        four_fifths=reading,
        reason=reason,
    )


def _missing_rows(document: Document, attribute: str) -> int | None:
    """The numbers in the notes on the data; they name an attribute only where rows lack it."""
    if not isinstance(value_at(document, "data", "notes"), list):
        return None
    beginning = f"rows without a value of {attribute!r}, in no group: "
    for note in texts_at(document, "data", "notes"):
        count = note.removeprefix(beginning)
        if count != note:
            return int(count) if count.isdecimal() else None
    return 0


def _definition(document: Document, rate: str | None) -> str:
    rule = facts.favourable_outcome(document)
    rows = "audited rows" if _is_audit(document) else "held-out rows"
    common = f"The share of a category's {rows} whose prediction is favourable: {rule}."
    if rate != "scoring":
        return common
    return (
        f"{common} The rules of the local law count scores above the sample's median, which this "
        "report does not have: its scoring rate is theirs only where the value above is the median."
    )


def _is_audit(document: Document) -> bool:
    return text_at(document, "subject") == "predictions"


def _notes(document: Document, tables: list[ImpactRatioTable]) -> list[str]:
    size = facts.number_at(document, "spec", "fairness", "minimum_group_size")
    small = "the report's minimum" if size is None else f"{size:g} scored rows"
    audit, notes = _is_audit(document), []
    if value_at(document, "utility", "degenerate") is True:
        why = text_at(document, "utility", "reasons", "degenerate")
        notes.append(
            f"The model decides nothing ({why}), so its ratios say nothing of how it would treat "
            "people."
        )
    notes += [
        _WHICH_ROWS[audit],
        f"A category with fewer than {small} is suppressed, and another with it where its figures "
        "would follow; either may have the highest rate or the lowest. The local law's own limit "
        "is 2 % of the data, and it wants the figures of a category so left out.",
        "How many rows and selections a category has is confidential and not part of a report"
        + ("." if audit else "; the scope ledger:read gives the counts of every round."),
    ]
    if not audit:
        notes.append("Missing values are counted over all rows of the federation, held out or not.")
    if not any(one.intersection_of for one in tables):
        notes.append(
            "There is no table of intersections: name the attributes to be combined in "
            "fairness.intersections, as [[sex, race]]."
        )
    if isinstance(value_at(document, "spec", "fairness", "favourable"), list):
        notes.append("The favourable outcome is another one for each group: see rate_definition.")
    if not tables:
        notes.append("The report names no sensitive attribute, so there is no table.")
    return notes


_OF_NIST = (
    "Statements of one audit report, put in the order of NIST SP 800-226. NIST has reviewed none "
    "of it, and this is no evaluation: what is not shown here has to be found elsewhere."
)


class NistTopic(Topic):
    """One stone of the pyramid."""

    layer: Literal["top", "middle", "base"]


class NistReading(Part):
    """A report read by NIST SP 800-226."""

    # "Guidelines for Evaluating Differential Privacy Guarantees" (March 2025) orders what a claim
    # rests on as a pyramid: its figures on top, what can undermine them in the middle, and the
    # ground below. The topics follow it and its hazards; the questions are this project's words.

    reading: Literal["nist-800-226"] = "nist-800-226"
    report: ReportName
    notice: str
    topics: list[NistTopic]
    """Topics from the top of the pyramid down."""


NIST_800_226 = questions_reading(
    "nist-800-226",
    title="NIST SP 800-226",
    notice=_OF_NIST,
    as_of=date(2026, 11, 24),
    schema=NistReading,
)


def model_card(document: Document) -> str:
    """The card; sections that a person has to write say so."""
    names = (text_at(section, "attribute") for section in parts_at(document, "fairness"))
    privacy = [
        SIMULATED if facts.is_simulated(document) else None,
        f"Guarantee: {_guarantee(document)}, of the mechanism "
        f"{facts.mechanism(document) or 'unknown'}.",
        cost_part(document),
        text_at(document, "guarantee", "statement"),
        *facts.attacks(document),
    ]
    return rendered(
        "model_card.txt",
        document,
        front_matter=f"---\n{_yaml(_keys(document))}---",
        attributes=[name for name in names if name],
        data=facts.federation(document) or f"{facts.NOT_STATED}.",
        utilities=figure_rows(Utility, document["utility"]),
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


def _keys(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = {"library_name": "fedaudit"}
    name = text_at(document, "experiment", "name")
    if name is not None:
        found["model_name"] = name
    # People search for this tag, so it requires a proven epsilon with secret noise.
    proven = _variant(document) == "Approximate DP"
    found["tags"] = ["federated-learning", *(["differential-privacy"] if proven else [])]
    if facts.number_at(document, "utility", "accuracy") is not None:
        found["metrics"] = ["accuracy"]
    stated = {
        "experiment_id": text_at(document, "experiment", "id"),
        "spec_hash": text_at(document, "provenance", "spec_hash"),
        "mechanism": facts.mechanism(document),
        "guarantee": _guarantee(document),
        "spent": cost_part(document),
        "gate_outcome": text_at(document, "gate_outcome") or "no gate was given",
    }
    found["fedaudit"] = {key: value for key, value in stated.items() if value is not None}
    return found


def _guarantee(document: Document) -> str:
    simulated = facts.is_simulated(document)
    section = facts.part_at(document, "guarantee")
    return guarantee_words({**section, "in_force": False} if simulated else section)


def _yaml(values: Mapping[str, Any]) -> str:
    """The values, every text in quotes and without what Markdown takes for marks of HTML."""
    text = yaml.safe_dump(values, default_style='"', sort_keys=False, width=math.inf)
    return text.translate({ord(mark): f"\\x{ord(mark):02x}" for mark in "<>&`"})


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
    "This run has no privacy guarantee in force that bounds anything: it is no deployment of "
    "differential privacy and does not belong in the registry."
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
    parameters: dict[str, Any] = {}
    if _variant(document) == "Approximate DP":
        delta = document["guarantee"]["delta"]
        parameters = {"epsilon": Bound(document).exponent, "delta": delta}
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
    """None without a guarantee in force: the schema has no value for that."""
    if facts.is_simulated(document) or not facts.is_protected(document):
        return None
    proven = bool(document["privacy"]["epsilon"]) and not facts.is_doubtful(document)
    return "Approximate DP" if proven else "Custom"


def _registry_notes(document: Document) -> str:
    """What a person has to fill or confirm, by JSON pointer, the verdict and the limits."""
    missing = dict(_FOR_A_PERSON)
    if _variant(document) is None:
        missing["/deployment/dp_variant/variant_name"] = "left out: there is no guarantee in force"
    verdict = plain(text_at(document, "verdict") or "")
    paragraphs = [
        [] if _variant(document) else [_NO_DEPLOYMENT],
        ["To be filled in or confirmed by a person:"],
        [f"- `{pointer}`: {what}" for pointer, what in missing.items()],
        [verdict],
        [f"- {plain(one)}" for one in texts_at(document, "limits")],
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
"""The formats, by name, that the command line, the HTTP interface and the pages offer."""

if TYPE_CHECKING:
    ReadingName = str
else:
    # The names themselves, for code that validates a name or publishes a schema of it.
    ReadingName = Literal[tuple(READINGS)]


def reading(document: Mapping[str, Any], name: ReadingName) -> dict[str, Any] | str:
    """A stored report in the named format: JSON-able values, and Markdown for `model-card`.
    Raises KeyError for a name that is not registered."""
    return READINGS[name].make(document)
