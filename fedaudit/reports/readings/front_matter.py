"""The YAML in front of a model card, with the keys that Hugging Face's `ModelCardData` knows.

What a run cannot know has no key: a licence, a pipeline, the id of a public data set. `model-index`
needs a public data set as well. Our own statements are below `fedaudit`.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.reports.document.checks import value_at
from fedaudit.reports.document.guarantee_facts import guarantee_words
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import Document, number_at, part_at, text_at

Value = str | Sequence[str] | Mapping[str, str]

_MARKUP = frozenset('"\\<>&`')


def front_matter(document: Document) -> list[str]:
    """The lines of it, with the two lines of dashes around."""
    return ["---", *_yaml(_keys(document)), "---"]


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
