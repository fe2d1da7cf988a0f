"""A model card in Markdown, with the sections of Mitchell et al. (2019), from a report alone.

YAML stands in front of it, as on the Hugging Face Hub.
"""

from collections.abc import Iterable

from fedaudit.reports.document.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import (
    NOT_STATED,
    Document,
    figure,
    number_at,
    part_at,
    parts_at,
    settings,
    text_at,
    texts_at,
)
from fedaudit.reports.readings.front_matter import front_matter
from fedaudit.reports.readings.markdown import bullets, plain, table
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.spec.metrics import RATES

_UTILITY = (
    "validation_loss",
    "baseline_loss",
    "accuracy",
    "baseline_accuracy",
    "accuracy_over_baseline",
    "prediction_share",
)
"""The baseline is a prediction that looks at nothing."""


def model_card(document: Document) -> str:
    """The card; sections that a person has to write say so."""
    name = plain(text_at(document, "experiment", "name") or "Model without a name")
    sections = {
        "Verdict": [plain(text_at(document, "verdict") or f"{NOT_STATED}.")],
        "Model details": _details(document),
        "Intended use": [f"{NOT_STATED}: what the model is for, by whom, and what it is not for."],
        "Factors": _factors(document),
        "Metrics": _metrics(document),
        "Evaluation data": [plain(f"{_data(document)} {facts.held_out(document)}")],
        "Training data": _training_data(document),
        "Quantitative analyses": _analyses(document),
        "Privacy": _privacy(document),
        "Ethical considerations": [
            f"{NOT_STATED}: whom the use of the model may harm, and what was done about it."
        ],
        "Caveats": bullets(map(plain, texts_at(document, "limits"))) or [f"{NOT_STATED}."],
        "Evidence": _evidence(document),
    }
    lines = [*front_matter(document), "", f"# Model card: {name}"]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content]
    return "\n".join([*lines, ""])


MODEL_CARD = ReportReading(
    name="model-card",
    title="Model card",
    note="A model card in Markdown. What the run cannot know is marked, for you to fill in.",
    make=model_card,
    schema=None,
)


def _details(document: Document) -> list[str]:
    version = text_at(document, "provenance", "code_version") or "of unknown version"
    finished = text_at(document, "provenance", "finished_at") or "at an unknown time"
    training = part_at(document, "spec", "training")
    return bullets(
        map(
            plain,
            [
                facts.model(document),
                facts.trained(document),
                f"Training: {settings(training) or 'unknown'}.",
                f"Trained with fedaudit {version}, finished {finished}.",
                f"{NOT_STATED}: who is responsible for the model, its licence, where to ask.",
            ],
        )
    )


def _factors(document: Document) -> list[str]:
    names = [text_at(section, "attribute") for section in parts_at(document, "fairness")]
    stated = ", ".join(filter(None, names))
    return [plain(f"Groups by: {stated or 'no attribute was named'}.")]


def _metrics(document: Document) -> list[str]:
    rule = facts.favourable_outcome(document)
    loss = text_at(document, "spec", "training", "loss") or "unknown"
    return [
        plain(
            f"Loss: {loss}. Favourable outcome of the rates and gaps: {rule}. Names and meanings "
            "of the gaps follow Fairlearn."
        )
    ]


def _training_data(document: Document) -> list[str]:
    source = settings(part_at(document, "spec", "federation")) or "unknown"
    return bullets(
        map(plain, [_data(document), f"Source: {source}.", *texts_at(document, "data", "notes")])
    )


def _analyses(document: Document) -> list[str]:
    utility = part_at(document, "utility")
    rows = [[plain(name.replace("_", " ")), *_value(utility, name)] for name in _UTILITY]
    lines = table(["Figure", "Value", "Note"], rows)
    for section in parts_at(document, "fairness"):
        lines += ["", *_fairness(section)]
    gates = parts_at(document, "gates")
    if gates:
        stated = [[_cell(gate, name) for name in ("figure", "outcome", "reason")] for gate in gates]
        lines += ["", "### Gates", "", *table(["Figure", "Outcome", "Reason"], stated)]
    return lines


def _fairness(section: Document) -> list[str]:
    attribute = plain(text_at(section, "attribute") or "an attribute that is not named")
    groups = [
        [plain(facts.group_name(group)), *(_rate(group, rate) for rate in RATES)]
        for group in parts_at(section, "groups")
    ]
    gaps = [
        [plain(name.replace("_", " ")), *_gap(metric)]
        for name, metric in part_at(section, "metrics").items()
    ]
    return [
        f"### By {attribute}",
        "",
        *table(["Group", *(rate.words for rate in RATES.values())], groups),
        "",
        *table(["Gap", "Value", "Interval", "Note"], gaps),
    ]


def _privacy(document: Document) -> list[str]:
    stated: Iterable[str | None] = [
        facts.NOT_FOR_RELEASE if facts.is_simulated(document) else None,
        f"Guarantee: {facts.kind(document) or 'unknown'}, of the mechanism "
        f"{facts.mechanism(document) or 'unknown'}.",
        *facts.spent(document),
        text_at(document, "guarantee", "statement"),
        *facts.attacks(document),
    ]
    return bullets(plain(one) for one in stated if one)


def _evidence(document: Document) -> list[str]:
    stated = {
        "Experiment": text_at(document, "experiment", "id"),
        "Spec hash": text_at(document, "provenance", "spec_hash"),
        "Data fingerprint": text_at(document, "provenance", "data_fingerprint"),
        "Ledger hash": text_at(document, "integrity", "ledger_hash"),
        "Signing key": text_at(document, "integrity", "key_id") or "not signed",
    }
    return bullets(f"{name}: {plain(value or 'unknown')}" for name, value in stated.items())


def _data(document: Document) -> str:
    return facts.federation(document) or f"{NOT_STATED}."


def _value(part: Document, name: str) -> list[str]:
    return [_number(number_at(part, name)), plain(text_at(part, "reasons", name) or "")]


def _gap(metric: Document) -> list[str]:
    low, high = (number_at(metric, "interval", end) for end in ("low", "high"))
    interval = "–" if low is None or high is None else f"{figure(low)} to {figure(high)}"
    notes = [text_at(metric, name) for name in ("reason", "interval_reason")]
    return [_number(number_at(metric, "value")), interval, plain("; ".join(filter(None, notes)))]


def _rate(group: Document, name: str) -> str:
    if value_at(group, "suppressed") is True:
        return "suppressed"
    return _number(number_at(group, name))


def _cell(part: Document, name: str) -> str:
    return plain(text_at(part, name) or "–")


def _number(value: float | None) -> str:
    return "–" if value is None else figure(value)
