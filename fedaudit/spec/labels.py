"""Words for the codes of columns: `labels: {SEX: {"1": male}}`."""

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from fedaudit.spec.base import Text
from fedaudit.spec.errors import Refusals, pointer, refuse_at

MAX_LABEL_LENGTH = 80
_WHERE = "/federation/labels"


def _in_plain_text(label: str) -> str:
    if not label.isprintable() or label != label.strip():
        raise ValueError(
            "must be plain text without control characters, invisible ones or space at its ends"
        )
    if "<" in label or ">" in label:
        raise ValueError("must not contain < or >; write `below 30` or `30 or more`")
    return label


LabelText = Annotated[
    str, Field(min_length=1, max_length=MAX_LABEL_LENGTH), AfterValidator(_in_plain_text)
]


def _codes_as_text(words: Any) -> Any:
    """YAML takes the code in `1: male` for a number, which is the code all the same."""
    if not isinstance(words, dict):
        return words
    texts = [
        str(code) if isinstance(code, int) and not isinstance(code, bool) else code
        for code in words
    ]
    return dict(zip(texts, words.values(), strict=True)) if len(set(texts)) == len(texts) else words


def _told_apart(labels: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    for column, words in labels.items():
        seen: dict[str, str] = {}
        codes: dict[str | float, str] = {}
        for code, label in words.items():
            where, number = pointer("federation", "labels", column, code), number_in(code)
            same = codes.setdefault(code if number is None else number, code)
            if same != code:
                raise refuse_at(where, f"is the same code as {same!r}; keep one of them")
            other = seen.setdefault(as_read(label), code)
            if other != code:
                raise refuse_at(
                    where,
                    f"the codes {other!r} and {code!r} would both be called {label!r}, and "
                    "could not be distinguished; give each another label",
                )
            if label != code and label in words:
                raise refuse_at(
                    where, f"{label!r} is itself a code of {column!r}; give it another label"
                )
    return labels


CodeLabels = Annotated[
    dict[
        Text,
        Annotated[
            dict[Text, LabelText],
            Field(min_length=1, max_length=1000),
            BeforeValidator(_codes_as_text),
        ],
    ],
    Field(max_length=30),
    AfterValidator(_told_apart),
]
"""The label of each code, by column. A code without one is shown unchanged."""


def number_in(text: str) -> float | None:
    """The finite number that a text spells, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def find_class(classes: Sequence[str], label: str | float) -> int | None:
    """The class that a label names, as text or as a number (1, 1.0 and "1" are the same)."""
    (index,) = find_classes(classes, [str(label)])
    return None if index < 0 else index


def find_classes(classes: Sequence[str], labels: Sequence[str]) -> list[int]:
    """The class that each label names, as `find_class`; -1 for an unknown label."""
    by_text = {name: index for index, name in reversed(list(enumerate(classes)))}
    by_number = {number_in(name): index for name, index in by_text.items()}
    by_number.pop(None, None)
    return [by_text.get(label, by_number.get(number_in(label), -1)) for label in labels]


def label_of(words: Mapping[str, str], value: str) -> str | None:
    """The label of a value."""
    if value in words:
        return words[value]
    place = find_class(tuple(words), value)
    return None if place is None else [*words.values()][place]


def labelled(code: str, words: Mapping[str, str]) -> str:
    """A code behind its label, if it has one: `male (1)`."""
    label = label_of(words, code)
    return code if label is None else f"{label} ({code})"


def as_read(label: str) -> str:
    """Equal for labels that a reader takes for the same: whatever their letters' case and width."""
    return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


def repeated_labels(labels: Sequence[str]) -> set[str]:
    """The labels that a reader takes for another one."""
    times = Counter(map(as_read, labels))
    return {label for label in labels if times[as_read(label)] > 1}


def refuse_other_columns(
    labels: Mapping[str, Mapping[str, str]], *, sensitive: Collection[str], target: str
) -> Refusals:
    """Labels of columns whose codes no report shows: errors of validation, at the columns."""
    for column in labels:
        if column not in sensitive and column != target:
            yield refuse_at(
                pointer("federation", "labels", column),
                f"{column!r} is neither the target ({target!r}) nor in `sensitive`; name "
                "it there, or leave its labels out",
            )
