"""Which outcome is favourable for a row, by the spec's rules in the target's own units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.levels import find_class, number_in
from fedaudit.spec.errors import FieldError, error_at, listed_values, raise_errors
from fedaudit.spec.fairness import GroupRule, Groups, Rule, RuleOp

_WHERE = "/fairness/favourable"


@dataclass(frozen=True, eq=False)
class OutcomeRules:
    """Rules for target and prediction alike, and which rule applies to a row.

    A numeric target has the ops `ge` and `le`, with one bound each in `values`; a class has the op
    `in`, and `values` holds the favourable class indices.
    """

    ops: tuple[RuleOp, ...]
    values: NDArray[np.float64] | tuple[frozenset[int], ...]
    rule_index: NDArray[np.int16]
    """[rows]; -1 where no rule applies to the row, which is then not scored."""

    def label(self, raw: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Where outcomes [rows] in the target's own units are favourable."""
        favourable = np.zeros(raw.shape, dtype=np.bool_)
        for index, (op, value) in enumerate(zip(self.ops, self.values, strict=True)):
            spoken_of = self.rule_index == index
            match op:
                case "in":
                    holds = np.isin(raw, list(value))
                case "ge" | "le":
                    holds = meets_bound(raw, op, value)
                case _:
                    assert_never(op)
            favourable |= spoken_of & holds
        return favourable


def meets_bound(values: NDArray[np.float64], op: RuleOp, bound: float) -> NDArray[np.bool_]:
    """Where numbers satisfy a bound. Raises ValueError for a rule that lists values."""
    match op:
        case "ge":
            return values >= bound
        case "le":
            return values <= bound
        case "in":
            raise ValueError("a list of values is no bound")
        case _:
            assert_never(op)


Rules = tuple[tuple[RuleOp, ...], NDArray[np.float64] | tuple[frozenset[int], ...]]
"""`ops` and `values` of `OutcomeRules`."""
RuleOfGroup = tuple[str, NDArray[np.int16]]
"""An attribute, and the rule of each of its groups, [groups + 1]: -1 for none, as for no group."""


def outcome_rules(federation: Federation, fairness: Groups) -> OutcomeRules:
    """The rules of `fairness.favourable` on this federation.

    There are none without sensitive attributes, and none for a numeric target if the spec gives
    none: groups are then compared by their losses alone. Raises InvalidInputError as
    `rules_of_groups` does.
    """
    groups = {one.name: one.values for one in federation.attributes}
    (ops, values), by_group = rules_of_groups(fairness, federation.classes, groups)
    if by_group is None:
        rule_index = np.full(federation.rows, 0 if ops else -1, dtype=np.int16)
    else:
        name, rule_of_group = by_group
        rule_index = rule_of_group[federation.attribute(name).codes]
    return OutcomeRules(ops, values, rule_index)


def rules_of_groups(
    fairness: Groups, classes: tuple[str, ...], groups: Mapping[str, Sequence[str]]
) -> tuple[Rules, RuleOfGroup | None]:
    """The rules of `fairness.favourable`, and whose each is, where not all are everybody's.

    `classes`: of the target, none for a number; `groups`: of each attribute. Raises
    InvalidInputError below /fairness/favourable where a rule names no group of the data, does not
    fit the target, or there is no rule for a target of more than two classes.
    """
    favourable = fairness.favourable
    if not fairness.sensitive or (favourable is None and not classes):
        return ((), np.empty(0)), None
    if favourable is None:
        if len(classes) != 2:
            raise error_at(
                _WHERE,
                f"the target has {len(classes)} classes; say which are favourable, as in "
                "{op: in, value: [CLASS]}",
            )
        return (("in",), (frozenset({1}),)), None
    if isinstance(favourable, Rule):
        return _rules([(favourable, _WHERE)], classes), None
    places = [f"{_WHERE}/{place}" for place in range(len(favourable))]
    by_group = _rule_of_group(favourable, places, groups)
    return _rules(list(zip(favourable, places, strict=True)), classes), by_group


def _rules(rules: Sequence[tuple[Rule, str]], classes: tuple[str, ...]) -> Rules:
    if classes:
        members = tuple(_class_indices(rule, classes, where) for rule, where in rules)
        return tuple("in" for _ in rules), members
    bounds = np.array([_bound(rule, where) for rule, where in rules])
    return tuple(rule.op for rule, _ in rules), bounds


def _bound(rule: Rule, where: str) -> float:
    if isinstance(rule.value, list | str):
        raise error_at(
            f"{where}/op",
            "the target is a number, and a prediction never equals a listed value exactly; use "
            "`ge` or `le` with a number",
        )
    return float(rule.value)


def _class_indices(rule: Rule, classes: tuple[str, ...], where: str) -> frozenset[int]:
    """The favourable classes; `ge` and `le` compare numeric classes."""
    if isinstance(rule.value, list):
        found = [
            (place, label, find_class(classes, label)) for place, label in enumerate(rule.value)
        ]
        raise_errors(
            [
                FieldError(
                    f"{where}/value/{place}",
                    f"the target has no class {label!r}; it has {listed_values(classes)}",
                )
                for place, label, index in found
                if index is None
            ]
        )
        return frozenset(index for _, _, index in found if index is not None)
    numbers = [number_in(name) for name in classes]
    bound = float(rule.value)
    members: set[int] = set()
    for index, number in enumerate(numbers):
        if number is None:
            raise error_at(
                f"{where}/op",
                f"the classes are no numbers ({listed_values(classes)}); use `in` with a list of "
                "classes",
            )
        if meets_bound(np.array(number), rule.op, bound):
            members.add(index)
    return frozenset(members)


def _rule_of_group(
    rules: Sequence[GroupRule], places: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> RuleOfGroup:
    (name,) = rules[0].group  # the spec allows rules about one attribute only
    values = list(groups[name])
    rule_of_group = np.full(len(values) + 1, -1, dtype=np.int16)  # the last: no group
    faults: list[FieldError] = []
    for index, (rule, where) in enumerate(zip(rules, places, strict=True)):
        group, pointed = rule.group[name], f"{where}/group"
        if group not in values:
            message = f"{name!r} has no value {group!r}; it has {listed_values(values)}"
            faults.append(FieldError(pointed, message))
            continue
        position = values.index(group)
        if rule_of_group[position] >= 0:
            faults.append(FieldError(pointed, f"{group!r} has a rule already; keep one of them"))
        rule_of_group[position] = index
    raise_errors(faults)
    return name, rule_of_group
