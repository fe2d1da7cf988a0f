"""Groups and favourable outcomes in words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.reports.checks import MALFORMED, Check, same, value_at
from fedaudit.spec.fairness import Favourable, Rule
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.labels import label_of
from fedaudit.spec.sources import Source, SourceTraits

Labels = Mapping[str, Mapping[str, str]]
_MOST_VALUES = 8


def favourable_in_words(
    favourable: Favourable | None, *, target: str, labels: Labels, positive: str | None = None
) -> str | None:
    """The favourable outcome, as `not re-arrested (two_year_recid = 0)`. `positive`: the positive
    class, which is favourable where there is no rule. None where no outcome is favourable. Rules of
    several groups are separated by semicolons."""
    if favourable is None and positive is not None:
        favourable = Rule(op="in", value=[positive])
    if favourable is None:
        return None
    if isinstance(favourable, Rule):
        return _rule_in_words(favourable, target=target, labels=labels)
    return "; ".join(
        f"for {group_in_words(attribute, value, labels=labels)}: "
        f"{_rule_in_words(one, target=target, labels=labels)}"
        for one in favourable
        for attribute, value in one.group.items()
    )


def group_in_words(attribute: str, value: str, *, labels: Labels) -> str:
    """A group in a sentence: its label, or `SEX 1` for a code that says nothing."""
    label = label_of(labels.get(attribute, {}), value)
    if label is not None:
        return label
    return value if value[:1].isalpha() else f"{attribute} {value}"


_SIGNS = {"in": "=", "ge": ">=", "le": "<="}


def _rule_in_words(rule: Rule, *, target: str, labels: Labels) -> str:
    values = [_text(one) for one in (rule.value if isinstance(rule.value, list) else [rule.value])]
    condition = f"{target} {_SIGNS[rule.op]} {alternatives(values)}"
    named = [label_of(labels.get(target, {}), value) for value in values]
    label = rule.label
    if not label and isinstance(rule.value, list) and None not in named:
        label = alternatives([str(one) for one in named])
    return f"{label} ({condition})" if label else condition


def alternatives(values: Sequence[str]) -> str:
    """`a, b or c`; of many values the first and how many others."""
    if len(values) > _MOST_VALUES:
        return f"{', '.join(values[:_MOST_VALUES])} or {len(values) - _MOST_VALUES} others"
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


def _text(value: object) -> str:
    """A value as people write it: 7000 for 7000.0."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole and isinstance(value, float) else str(value)


_BETWEEN = ", "
_FAVOURABLE: TypeAdapter[Any] = TypeAdapter(Favourable | None)
_SOURCE: TypeAdapter[Any] = TypeAdapter(FederationSpec)
_UNNAMED_POSITIVE = "the positive class"


def group_words(report: Mapping[str, Any], *, attribute: str, value: str) -> str:
    """A group in a sentence: `male`, or `SEX 1` for a code without a label."""
    parts = _parts(report, attribute).get(value, [(attribute, value)])
    return _parts_in_words(parts, labels_of_spec(value_at(report, "spec")))


def with_words(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fairness sections of a report with their outcome and the groups' labels in words."""
    outcome, labels = derived_outcome(report), labels_of_spec(value_at(report, "spec"))
    given = {"favourable": outcome, "favourable_reason": NO_OUTCOME if outcome is None else None}
    worded = []
    for section in report["fairness"]:
        names = {
            value: _parts_in_words(parts, labels)
            for value, parts in _parts(report, section["attribute"]).items()
            # In a combination the parts without a label have their codes.
            if any(label_of(labels.get(part, {}), one) is not None for part, one in parts)
        }
        groups = [{**group, "label": names.get(group["value"])} for group in section["groups"]]
        worded.append({**section, **given, "groups": groups})
    return worded


def for_readers(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report with labels for the codes of groups, for pages and charts; the JSON keeps both."""
    worded = []
    for section in report["fairness"]:
        names = {one["value"]: one.get("label") or one["value"] for one in section["groups"]}
        groups = [{**group, "value": names[group["value"]]} for group in section["groups"]]
        reference = section["reference_group"]
        reference = names.get(reference, reference)
        worded.append({**section, "reference_group": reference, "groups": groups})
    return {**report, "fairness": worded}


def derived_outcome(report: Mapping[str, Any]) -> str | None:
    """The favourable outcome by the report's spec and the name of its positive class."""
    positive = value_at(report, "data", "positive_class")
    words = outcome_of_spec(value_at(report, "spec"), positive_class=positive)
    unnamed = words is None and value_at(report, "spec", "fairness", "favourable") is None
    return _UNNAMED_POSITIVE if unnamed and _classifies(value_at(report, "spec")) else words


def positive_in_words(report: Mapping[str, Any]) -> str:
    """The class that is predicted above the threshold, whatever is favourable."""
    federation = {"federation": value_at(report, "spec", "federation")}
    positive = value_at(report, "data", "positive_class")
    return outcome_of_spec(federation, positive_class=positive) or _UNNAMED_POSITIVE


def outcome_of_spec(spec: Any, *, positive_class: Any) -> str | None:
    """The favourable outcome by the parts `federation` and `fairness` of a spec or registration.
    `positive_class`: which of two classes is favourable without a rule, where known."""
    try:
        rule = _FAVOURABLE.validate_python(value_at(spec, "fairness", "favourable"))
    except ValidationError:
        return None
    positive = value_at(spec, "federation", "positive") or positive_class
    traits = _traits(spec)
    return favourable_in_words(
        rule,
        target="the target" if traits is None else traits.target_name,
        labels=labels_of_spec(spec),
        positive=positive if isinstance(positive, str) else None,
    )


def outcome_of_profile(profile: Mapping[str, Any], registration: Any) -> str | None:
    """The outcome whose shares a federation's profile shows, in words; None where none is
    favourable."""
    classes = profile.get("classes") or []
    positive = classes[1] if len(classes) == 2 else None
    if registration is None:
        target = profile.get("target", "")
        return favourable_in_words(None, target=target, labels={}, positive=positive)
    return outcome_of_spec(registration, positive_class=positive)


def labels_of_spec(spec: Any) -> Labels:
    """The labels of a spec or registration of any version; none where it has none."""
    found = value_at(spec, "federation", "labels")
    return found if isinstance(found, Mapping) else {}


def _classifies(spec: Any) -> bool:
    """`ExperimentSpec.classifies` for a spec of any version."""
    if value_at(spec, "training", "loss") == "cross-entropy":
        return True
    traits = _traits(spec)
    return value_at(spec, "model", "kind") == "logistic" or (
        traits is not None and traits.target == "class"
    )


def _traits(spec: Any) -> SourceTraits | None:
    """Traits of the spec's data; None where this version does not know their source."""
    try:
        source: Source = _SOURCE.validate_python(value_at(spec, "federation"))
    except ValidationError:
        return None
    return source.traits


def _section_of(report: Mapping[str, Any], attribute: str) -> Mapping[str, Any]:
    sections = value_at(report, "fairness")
    for section in sections if isinstance(sections, list) else []:
        if isinstance(section, Mapping) and section.get("attribute") == attribute:
            return section
    return {}


def _parts(report: Mapping[str, Any], attribute: str) -> dict[str, list[tuple[str, str]]]:
    """The attributes and values that each group combines: of a plain attribute itself alone."""
    parts = _section_of(report, attribute).get("intersection_of") or [attribute]
    values = [
        [group["value"] for group in _section_of(report, part).get("groups", [])] for part in parts
    ]
    return {_BETWEEN.join(one): list(zip(parts, one, strict=True)) for one in product(*values)}


def _parts_in_words(parts: Sequence[tuple[str, str]], labels: Labels) -> str:
    return _BETWEEN.join(group_in_words(part, one, labels=labels) for part, one in parts)


def words_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether outcome and groups are called what the spec calls them."""
    try:
        agree = same(_named(report["fairness"]), _named(with_words(report)))
    except MALFORMED:
        agree = False
    yield Check.of(
        "report.words",
        agree,
        good="the favourable outcome and the groups are called what the spec calls them",
        bad="the favourable outcome or a group is not called what the spec calls it",
    )


def _named(sections: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        [one["favourable"], [[group["value"], group.get("label")] for group in one["groups"]]]
        for one in sections
    ]
