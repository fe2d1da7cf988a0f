"""Sensitive attributes of rows, their intersections, and which outcome is favourable for a row, by
the spec's rules in the target's own units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats, Ints16
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.spec.errors import Faults, FieldError, error_at, listed_values, pointer, raise_errors
from fedaudit.spec.fairness import GroupRule, Groups, Rule, RuleOp
from fedaudit.spec.labels import as_read, find_classes, number_in

if TYPE_CHECKING:
    # It brings Arrow, which the API starts without.
    from fedaudit.federations.reading.table_rows import TableRows

MAX_GROUPS = 1000


def read_sensitive(
    rows: "TableRows",
    names: Sequence[str],
    columns: Mapping[str, str] | None = None,
    *,
    edges: Mapping[str, Sequence[float]] | None = None,
) -> tuple[tuple[Attribute, ...], tuple[str, ...]]:
    """The attributes, and a note for each that is missing in some rows.

    `columns` gives the column of an attribute whose name differs, `edges` where numeric attributes
    are cut into groups. What is no column, as the turns of images, is left out. Raises
    InvalidInputError at /fairness/sensitive/i or /fairness/edges/name.
    """
    attributes: list[Attribute] = []
    notes: list[str] = []
    faults = Faults()
    for place, name in enumerate(names):
        column = (columns or {}).get(name, name)
        if column not in rows.columns:
            continue
        with faults.noting():
            where = pointer("fairness", "sensitive", place)
            one = _read(rows, name, column, where, edges=(edges or {}).get(name))
            if missing := int(np.count_nonzero(one.codes < 0)):
                notes.append(f"rows without a value of {name!r}, in no group: {missing}")
            attributes.append(one)
    faults.end()
    return tuple(attributes), tuple(notes)


def _read(
    rows: "TableRows", name: str, column: str, where: str, *, edges: Sequence[float] | None
) -> Attribute:
    """One attribute. Groups between edges are declared, so that those without rows are included."""
    numbers = None
    if edges is None:
        levels = rows.levels(column, where, numeric=True)
        values, codes = levels.values, levels.codes
    else:
        numbers = rows.numbers(column, pointer("fairness", "edges", name), missing_allowed=True)
        values, places = group_names(edges), np.searchsorted(edges, numbers, side="right")
        codes = np.where(np.isnan(numbers), -1, places)
    if len(values) > MAX_GROUPS:
        raise error_at(
            where,
            f"{name!r} has {len(values)} distinct values, and {MAX_GROUPS} groups are allowed; "
            "bring them into fewer groups, numbers by `edges`",
        )
    if (codes < 0).all():
        raise error_at(where, f"{name!r} is empty in every row; name another column")
    return Attribute(name, values, codes.astype(np.int16), numbers)


def group_names(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of the groups between ascending edges: `<40`, `40 to <60`, `>=60`."""
    # The shortest text of each: 40 for 40.0, 0.5, 1e+20.
    texts = [repr(float(edge) + 0.0).removesuffix(".0") for edge in edges]
    between = [f"{low} to <{high}" for low, high in pairwise(texts)]
    return (f"<{texts[0]}", *between, f">={texts[-1]}")


def compared(
    attributes: Sequence[Attribute], fairness: Groups, *, exclude: bool = True
) -> tuple[Attribute, ...]:
    """The attributes with the groups that are compared: values joined by `fairness.groups`, and
    those of `fairness.exclude` in no group.

    Joined groups come where the first of their values was. Without `exclude` left-out values are
    looked for, and stay. Raises InvalidInputError below /fairness/groups and /fairness/exclude.
    """
    faults = [fault for one in attributes for fault in _unknown_values(one, fairness)]
    raise_errors(faults)
    return tuple(_compared(one, fairness, exclude=exclude) for one in attributes)


def _unknown_values(attribute: Attribute, fairness: Groups) -> list[FieldError]:
    name, known, faults = attribute.name, attribute.values, []
    groups = fairness.groups.get(name, {})
    asked = [(("groups", name, group), values) for group, values in groups.items()]
    for where, values in (*asked, (("exclude", name), fairness.exclude.get(name, []))):
        for place, value in enumerate(values):
            if value not in known:
                message = f"{name!r} has no value {value!r}; it has {listed_values(known)}"
                faults.append(FieldError(pointer("fairness", *where, place), message))
    joined = {value for values in groups.values() for value in values}
    others = {as_read(value) for value in known if value not in joined}
    for group in groups:
        if as_read(group) in others:
            message = f"{group!r} is another value of {name!r}; join it too, or use another name"
            faults.append(FieldError(pointer("fairness", "groups", name, group), message))
    return faults


def _compared(attribute: Attribute, fairness: Groups, *, exclude: bool) -> Attribute:
    name = attribute.name
    called = {value: group for group, own in fairness.groups.get(name, {}).items() for value in own}
    out = fairness.exclude.get(name, []) if exclude else []
    if not called and not out:
        return attribute
    kept = [called.get(value, value) for value in attribute.values if value not in out]
    values = tuple(dict.fromkeys(kept))
    if len(values) < 2:
        field, count = ("exclude" if out else "groups"), "one group" if values else "no group"
        raise error_at(
            pointer("fairness", field, name),
            f"leaves {count} of {name!r}, so nothing is compared; name fewer values, or leave "
            f"{name!r} out of `sensitive`",
        )
    place = {value: position for position, value in enumerate(values)}
    of_code = [-1 if one in out else place[called.get(one, one)] for one in attribute.values]
    codes = np.array([*of_code, -1], dtype=np.int16)[attribute.codes]  # -1 is the last
    return replace(attribute, values=values, codes=codes, data=attribute.data or attribute)


def left_out_rows(attributes: Sequence[Attribute], fairness: Groups) -> Bools | None:
    """The rows [rows] that `fairness.exclude` leaves out; None where it names none."""
    found = None
    for one in attributes:
        data, out = one.data or one, fairness.exclude.get(one.name, [])
        if out:
            own = np.isin(data.codes, [data.values.index(value) for value in out])
            found = own if found is None else found | own
    return found


_BETWEEN = ", "


def with_intersections(
    federation: Federation, combinations: Mapping[str, Sequence[str]]
) -> Federation:
    """The federation with one more attribute for each of the combinations, in their order.

    `combinations`: the name of each and the attributes that it combines. A row that lacks a value
    of one of them belongs to no combination; a note counts such rows. Raises InvalidInputError at
    /fairness/intersections/i where there would be too many groups.
    """
    if not combinations:
        return federation
    added, notes = [], []
    for place, (name, parts) in enumerate(combinations.items()):
        where = pointer("fairness", "intersections", place)
        added.append(_combined(name, [federation.attribute(part) for part in parts], where))
        missing = int(np.count_nonzero(added[-1].codes < 0))
        if missing:
            notes.append(f"rows without a value of {name!r}, in no group: {missing}")
    return replace(
        federation, attributes=(*federation.attributes, *added), notes=(*federation.notes, *notes)
    )


def _combined(name: str, parts: Sequence[Attribute], where: str) -> Attribute:
    """Groups in the order of the parts' values; the last part changes fastest."""
    sizes = [len(part.values) for part in parts]
    if prod(sizes) > MAX_GROUPS:
        raise error_at(
            where,
            f"{' x '.join(map(str, sizes))} combinations are {prod(sizes)} groups, and "
            f"{MAX_GROUPS} are allowed; combine fewer attributes, or bring them into fewer groups",
        )
    values = tuple(_BETWEEN.join(one) for one in product(*(part.values for part in parts)))
    if len(set(values)) < len(values):
        raise error_at(
            where,
            "two combinations would have the same name, since values contain commas; rename the "
            "values",
        )
    of_parts = np.stack([part.codes for part in parts])
    codes = np.ravel_multi_index(tuple(np.maximum(of_parts, 0)), sizes)
    return Attribute(name, values, np.where((of_parts < 0).any(0), -1, codes).astype(np.int16))


_WHERE = "/fairness/favourable"


@dataclass(frozen=True, eq=False)
class OutcomeRules:
    """Rules for target and prediction alike, and which rule applies to a row.

    A numeric target has the ops `ge` and `le`, with one bound each in `values`; a class has the op
    `in`, and `values` holds the favourable class indices.
    """

    ops: tuple[RuleOp, ...]
    values: Floats | tuple[frozenset[int], ...]
    rule_index: Ints16
    """[rows]; -1 where no rule applies to the row, which is then not scored."""

    def less(self, mean: float) -> "OutcomeRules":
        """The rules for numbers [rows] from which `mean` was taken; classes have a mean of 0."""
        if mean == 0:
            return self
        return replace(self, values=np.asarray(self.values, dtype=np.float64) - mean)

    def label(self, raw: Floats) -> Bools:
        """Where outcomes [rows] in the target's own units are favourable."""
        favourable = np.zeros(raw.shape, dtype=np.bool_)
        for index, (op, value) in enumerate(zip(self.ops, self.values, strict=True)):
            favourable |= (self.rule_index == index) & _meets(raw, op, value)
        return favourable


def _meets(values: Floats, op: RuleOp, value: Any) -> Bools:
    """Where numbers satisfy a rule: `value` is its bound, or the classes that it lists."""
    met: Bools
    match op:
        case "ge":
            met = values >= value
        case "le":
            met = values <= value
        case "in":
            met = np.isin(values, list(value))
        case _:
            assert_never(op)
    return met


def outcome_rules(federation: Federation, fairness: Groups) -> OutcomeRules:
    """The rules of `fairness.favourable` on this federation.

    There are none without sensitive attributes, and none for a numeric target if the spec gives
    none: groups are then compared by their losses alone. Raises InvalidInputError below
    /fairness/favourable where a rule names no group of the data, does not fit the target, or there
    is no rule for a target of more than two classes.
    """
    favourable, classes = fairness.favourable, federation.classes
    rule_index = np.zeros(federation.rows, dtype=np.int16)
    if not fairness.sensitive or (favourable is None and not classes):
        return OutcomeRules((), np.empty(0), rule_index - 1)
    if favourable is None:
        if len(classes) != 2:
            raise error_at(
                _WHERE,
                f"the target has {len(classes)} classes; say which are favourable, as in "
                "{op: in, value: [CLASS]}",
            )
        return OutcomeRules(("in",), (frozenset({1}),), rule_index)
    rules: list[tuple[Rule, str]]
    if isinstance(favourable, Rule):
        rules = [(favourable, _WHERE)]
    else:
        rules = [(rule, f"{_WHERE}/{place}") for place, rule in enumerate(favourable)]
        rule_index = _rule_of_rows(favourable, federation)
    if classes:
        members = tuple(_class_indices(rule, classes, where) for rule, where in rules)
        return OutcomeRules(tuple("in" for _ in rules), members, rule_index)
    bounds = np.array([_bound(rule, where) for rule, where in rules])
    return OutcomeRules(tuple(rule.op for rule, _ in rules), bounds, rule_index)


def agreed_rules(federation: Federation, fairness: Groups, *, new: bool) -> OutcomeRules:
    """Rules that, if they are `new`, leave no group of their attribute out, and distinguish
    outcomes. Raises InvalidInputError as `outcome_rules`, and where they do not."""
    rules = outcome_rules(federation, fairness)
    if not new:
        return rules
    if isinstance(fairness.favourable, list):
        (name,) = fairness.favourable[0].group
        ruled = {rule.group[name] for rule in fairness.favourable}
        if left := [one for one in federation.attribute(name).values if one not in ruled]:
            why = f"no rule is for {name} {listed_values(left)}, so no figure would count these"
            raise error_at(_WHERE, f"{why}; give every group a rule")
    sets = [one for one in rules.values if isinstance(one, frozenset)]
    if any(len(one) in (0, len(federation.classes)) for one in sets):
        raise error_at(
            _WHERE,
            f"by this rule every outcome of {federation.target_name!r} is favourable, or none is "
            f"({listed_values(federation.classes)}); name those that are good for people",
        )
    return rules


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
        found = find_classes(classes, [str(label) for label in rule.value])
        known = listed_values(classes)
        faults = [
            FieldError(
                f"{where}/value/{place}", f"the target has no class {label!r}; it has {known}"
            )
            for place, (label, index) in enumerate(zip(rule.value, found, strict=True))
            if index < 0
        ]
        raise_errors(faults)
        return frozenset(found)
    numbers = [number_in(name) for name in classes]
    if None in numbers:
        raise error_at(
            f"{where}/op",
            f"the classes are no numbers ({listed_values(classes)}); use `in` with a list of "
            "classes",
        )
    met = _meets(np.array(numbers, dtype=np.float64), rule.op, float(rule.value))
    return frozenset(np.flatnonzero(met).tolist())


def _rule_of_rows(rules: Sequence[GroupRule], federation: Federation) -> Ints16:
    """Which of the rules applies to each row, by its group: -1 for none."""
    (name,) = rules[0].group  # the spec allows rules about one attribute only
    attribute = federation.attribute(name)
    rule_of_group = dict.fromkeys(attribute.values, -1)
    faults: list[FieldError] = []
    for index, rule in enumerate(rules):
        group, where = rule.group[name], f"{_WHERE}/{index}/group"
        if group not in rule_of_group:
            known = listed_values(attribute.values)
            faults.append(FieldError(where, f"{name!r} has no value {group!r}; it has {known}"))
            continue
        if rule_of_group[group] >= 0:
            faults.append(FieldError(where, f"{group!r} has a rule already; keep one of them"))
        rule_of_group[group] = index
    raise_errors(faults)
    return np.array([*rule_of_group.values(), -1], dtype=np.int16)[attribute.codes]
