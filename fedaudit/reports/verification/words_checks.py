"""What a report calls its groups and the favourable outcome, against its spec."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedaudit.reports.document.checks import Check, check, same, value_at
from fedaudit.reports.document.outcome_words import with_words


def words_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether outcome and groups are called what the spec calls them; nothing of a report whose
    version had no words."""
    stated = value_at(report, "fairness")
    sections = stated if isinstance(stated, list) else []
    if not any(isinstance(one, Mapping) and "favourable" in one for one in sections):
        return
    try:
        agree = same(_named(sections), _named(with_words(report)))
    except (KeyError, TypeError, AttributeError, ValueError):
        agree = False
    yield check(
        "report.words",
        agree,
        good="the favourable outcome and the groups are called what the spec calls them",
        bad="the favourable outcome or a group is not called what the spec calls it",
    )


def _named(sections: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        [
            section["favourable"],
            [[group["value"], group.get("label")] for group in section["groups"]],
        ]
        for section in sections
    ]
