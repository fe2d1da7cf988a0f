"""A model card in Markdown, from a report alone.

YAML stands in front of it, as on the Hugging Face Hub, with the keys that `ModelCardData` knows.
What a run cannot know has no key: a licence, a pipeline, the id of a public data set. `model-index`
needs a public data set as well. Our own statements are below `fedaudit`.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.reports.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import (
    NOT_STATED,
    Document,
    number_at,
    part_at,
    parts_at,
    text_at,
)
from fedaudit.reports.readings.reading import ReportReading, rendered
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.spec.metrics import RATES

Value = str | Sequence[str] | Mapping[str, str]

_MARKUP = frozenset('"\\<>&`')
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
    names = (text_at(section, "attribute") for section in parts_at(document, "fairness"))
    privacy = [
        facts.NOT_FOR_RELEASE if facts.is_simulated(document) else None,
        f"Guarantee: {facts.kind(document) or 'unknown'}, of the mechanism "
        f"{facts.mechanism(document) or 'unknown'}.",
        *facts.spent(document),
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
    make=model_card,
    schema=None,
)


def _keys(document: Document) -> dict[str, Value]:
    found: dict[str, Value] = {"library_name": "fedaudit"}
    name = text_at(document, "experiment", "name")
    if name is not None:
        found["model_name"] = name
    found["tags"] = ["federated-learning", *_earned(document)]
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


def _earned(document: Document) -> list[str]:
    """People search for this word, so it stands for a proven epsilon of secret noise alone. A
    document that does not have a report's form proves nothing."""
    proven = (
        facts.kind(document) == "formal"
        and facts.epsilon_max(document) is not None
        and text_at(document, "spec", "privacy", "noise") == "release"
        and value_at(document, "guarantee", "conditions", "epsilon_max") is None
    )
    return ["differential-privacy"] if proven else []


def _guarantee(document: Document) -> str:
    if facts.kind(document) is None:
        return "unknown"
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
    """In double quotes on one line, without a character that YAML refuses or that a viewer which
    takes the lines for Markdown would mark up."""
    escaped = (
        one if one.isprintable() and one not in _MARKUP else f"\\U{ord(one):08x}" for one in text
    )
    return f'"{"".join(escaped)}"'
