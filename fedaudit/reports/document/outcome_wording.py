"""Wording of groups and favourable outcomes, from the labels and rules of a spec.

A label never stands for a rule alone: the rule follows in brackets, so that whoever reads the words
can see what was counted.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from fedaudit.spec.fairness import Favourable, GroupRule, Rule
from fedaudit.spec.labels import label_of

Labels = Mapping[str, Mapping[str, str]]

_MOST_VALUES = 8


def favourable_in_words(
    favourable: Favourable | None, *, target: str, labels: Labels, positive: str | None = None
) -> str | None:
    """The favourable outcome, as `not re-arrested (two_year_recid = 0)`.

    `positive`: the positive class, which is favourable where there is no rule. None where no
    outcome is favourable. Rules of several groups are separated by semicolons.
    """
    if favourable is None:
        if positive is None:
            return None
        return _rule_in_words(Rule(op="in", value=[positive]), target=target, labels=labels)
    if isinstance(favourable, Rule):
        return _rule_in_words(favourable, target=target, labels=labels)
    return "; ".join(
        f"for {_group_of(one, labels)}: {_rule_in_words(one, target=target, labels=labels)}"
        for one in favourable
    )


def group_in_words(attribute: str, value: str, *, labels: Labels) -> str:
    """A group as it stands in a sentence: its label, or `SEX 1` for a code that says nothing."""
    label = label_of(labels.get(attribute, {}), value)
    if label is not None:
        return label
    return value if value[:1].isalpha() else f"{attribute} {value}"


def _group_of(rule: GroupRule, labels: Labels) -> str:
    ((attribute, value),) = rule.group.items()
    return group_in_words(attribute, value, labels=labels)


def _rule_in_words(rule: Rule, *, target: str, labels: Labels) -> str:
    condition = _condition(rule, target)
    label = rule.label or _joined_labels(rule, labels.get(target, {}))
    return condition if label is None else f"{label} ({condition})"


def _joined_labels(rule: Rule, labels: Mapping[str, str]) -> str | None:
    """The labels of the classes that a rule lists, if each has one."""
    values = [_text(value) for value in rule.value] if isinstance(rule.value, list) else []
    found = [label for value in values if (label := label_of(labels, value)) is not None]
    return _alternatives(found) if values and len(found) == len(values) else None


def _condition(rule: Rule, target: str) -> str:
    match rule.op:
        case "in":
            values = rule.value if isinstance(rule.value, list) else [rule.value]
            return f"{target} = {_alternatives([_text(value) for value in values])}"
        case "ge":
            return f"{target} >= {_text(rule.value)}"
        case "le":
            return f"{target} <= {_text(rule.value)}"
        case _:
            assert_never(rule.op)


def _alternatives(values: Sequence[str]) -> str:
    if len(values) > _MOST_VALUES:
        return f"{', '.join(values[:_MOST_VALUES])} or {len(values) - _MOST_VALUES} others"
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


def _text(value: object) -> str:
    """A value as people write it: 7000 for 7000.0."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole and isinstance(value, float) else str(value)
