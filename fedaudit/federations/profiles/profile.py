"""Summarise a federation in a few figures, and what of them may be shown beside earlier ones.

A profile counts the groups of an attribute and states how many of each have a favourable outcome.
Two profiles that cut one column at 83 and at 84, or judge by rules that differ a little, give the
few rows in between away, and reading the file again costs nothing. So the first cut of a column
that was shown stays the only one: of another one nothing is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups import compared
from fedaudit.spec.errors import InvalidInputError, listed, pointer
from fedaudit.spec.fairness import Groups, without_label

_HIDDEN = "small groups, and what would give them away, are not shown"

Warnings = list[dict[str, str]]
"""Objects {pointer, message}: the data are usable, but the caller should know."""


class _Outcomes(NamedTuple):
    scored: NDArray[np.bool_]
    """[rows]: those that a rule applies to."""
    favourable: NDArray[np.bool_]
    no_rule: str | None
    """Why no outcome is favourable; None where there is a rule."""


def _attribute_figures(
    federation: Federation, attribute: Attribute, outcomes: _Outcomes, rule: DisclosureRule
) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Sizes and base rates of an attribute's groups, and the rows of each. `protecting` names large
    groups that are hidden since a smaller one would follow from them."""
    codes, values, groups = attribute.codes, attribute.values, len(attribute.values)
    known, first = codes >= 0, federation.first[:-1]
    highest = np.maximum.reduceat(codes, first)
    lowest = np.minimum.reduceat(np.where(known, codes, groups), first)
    rows, scored, favourable = (
        np.bincount(codes[known & counted], minlength=groups)
        for counted in (known, outcomes.scored, outcomes.scored & outcomes.favourable)
    )
    missing = int(np.count_nonzero(~known))
    shown = rule.decide(rows, of="rows").shown
    # Rows without a value are a group too: the class sizes minus what the rates add up to would
    # reveal its outcomes. And rates of a rare outcome would reveal how rare it is.
    rarest = min(int(favourable.sum()), int((scored - favourable).sum()))
    rated = shown & rule.decide(np.append(scored, missing)).shown[:-1]
    rated &= outcomes.no_rule is None and not rule.is_small(rarest)
    reasons = {}
    if not shown.all():
        reasons["groups"] = _HIDDEN
    if not rated.all():
        reasons["base_rates"] = outcomes.no_rule or _HIDDEN
    figures: dict[str, Any] = {
        "of": "client" if (lowest >= highest).all() else "record",
        "groups": _with_gaps(values, rows, shown),
        "missing": missing,
        "base_rates": _with_gaps(values, favourable / np.maximum(scored, 1), rated),
        "reasons": reasons,
    }
    sizes = zip(values, shown, rows.tolist(), strict=True)
    protecting = [one for one, is_shown, size in sizes if not is_shown and rule.is_large(size)]
    return figures | ({"protecting": protecting} if protecting else {}), rows


def _warnings(
    where: str,
    groups: str,
    names: Sequence[str],
    rows: NDArray[np.int64],
    rule: DisclosureRule,
    *,
    so: str,
) -> Warnings:
    """A warning of small groups, or classes."""
    small = [name for name, size in zip(names, rows.tolist(), strict=True) if rule.is_small(size)]
    of = f"{groups} of {rule.decide(rows, of='rows').too_few}"
    return [{"pointer": where, "message": f"{of}: {listed(small)}; {so}"}] if small else []


def _so(figures: Mapping[str, Any]) -> str:
    """What follows from small groups of an attribute, and what helps."""
    protecting = figures.get("protecting", [])
    with_them = f", nor those of {listed(protecting)} that protect them" if protecting else ""
    return (
        f"reports will not show their figures{with_them}; join them with others under "
        "`fairness.groups`, or leave them out under `fairness.exclude`"
    )


def _with_gaps(
    names: Sequence[str], figures: NDArray[np.generic], shown: NDArray[np.bool_]
) -> dict[str, Any]:
    """The figures by name, null where they are suppressed."""
    values = zip(names, figures.tolist(), shown.tolist(), strict=True)
    return {name: figure if is_shown else None for name, figure, is_shown in values}


NUMERIC_TARGET = "the target is a number"
_MAX_NAMED_CLASSES = 100
_ALWAYS_NAMED_CLASSES = 20
_ROWS_PER_NAMED_CLASS = 10


def profile(federation: Federation, fairness: Groups | None = None) -> dict[str, Any]:
    """Sizes and names, as JSON, as in `RegisteredData.profile`.

    No value of a feature or of a numeric target appears in it, and small groups are suppressed.
    Values that experiments leave out stay groups here, since all rows are counted. Raises
    InvalidInputError where `fairness` does not fit the data.
    """
    fairness = fairness or Groups()
    groups = compared(federation.attributes, fairness, exclude=False)
    federation = replace(federation, attributes=groups)
    rule, warnings = size_rule(fairness), Warnings()
    attributes: dict[str, Any] = {}
    outcomes = _outcomes(federation, fairness)
    for place, one in enumerate(federation.attributes):
        attributes[one.name], rows = _attribute_figures(federation, one, outcomes, rule)
        where, has = pointer("fairness", "sensitive", place), f"{one.name!r} has groups"
        warnings += _warnings(where, has, one.values, rows, rule, so=_so(attributes[one.name]))
    classes, balance, found, reasons = _classes(federation, rule)
    warnings += found
    return {
        "rows": federation.rows,
        "clients": federation.clients,
        "rows_per_client": {
            "minimum": int(federation.counts.min()),
            "median": float(np.median(federation.counts)),
            "maximum": int(federation.counts.max()),
        },
        "features": list(federation.feature_names),
        "target": federation.target_name,
        "classes": classes,
        "class_balance": balance,
        "missing": {},
        "attributes": attributes,
        "warnings": warnings,
        "notes": list(federation.notes),
        "reasons": reasons,
    }


def _classes(
    federation: Federation, rule: DisclosureRule
) -> tuple[list[str], dict[str, int | None] | None, Warnings, dict[str, str]]:
    """Names and rows of the classes, or the reason for none.

    If classes are many relative to their rows, they are not even named: they may be measurements
    that were not recognised as numbers because of one non-numeric cell.
    """
    count = len(federation.classes)
    if not count:
        return [], None, [], {"class_balance": NUMERIC_TARGET}
    most = max(_ALWAYS_NAMED_CLASSES, federation.rows // _ROWS_PER_NAMED_CLASS)
    if count > min(most, _MAX_NAMED_CLASSES):
        why = f"there are {count} classes, too many to be named"
        return [], None, [], {"classes": why, "class_balance": why}
    rows = np.bincount(federation.raw_target.astype(np.int64), minlength=count)
    balance = _with_gaps(federation.classes, rows, rule.decide(rows, of="rows").shown)
    where, has = "/federation/target", f"{federation.target_name!r} has classes"
    so = "little can be learnt of them"
    warnings = _warnings(where, has, federation.classes, rows, rule, so=so)
    return list(federation.classes), balance, warnings, {}


def _outcomes(federation: Federation, fairness: Groups) -> _Outcomes:
    try:
        rules = outcome_rules(federation, fairness)
    except InvalidInputError as error:
        if fairness.favourable is not None:
            raise
        nothing = np.zeros(federation.rows, dtype=np.bool_)
        return _Outcomes(nothing, nothing, error.errors[0].message)
    none = None if rules.ops else f"{NUMERIC_TARGET}, and no rule says which outcome is favourable"
    return _Outcomes(rules.rule_index >= 0, rules.label(federation.raw_target), none)


Cuts = dict[str, Any]
"""By attribute: {rows, edges, favourable}, by which its groups were made, as JSON."""

_OTHER_CUT = (
    "suppressed: an earlier profile of these data showed this attribute by other edges, by another "
    "rule or of other rows, and the two together would show the few rows between; keep to the "
    "first, or ask the federation's owner for it"
)


def cuts_of(profile: Mapping[str, Any], fairness: Groups) -> Cuts:
    """By what the attributes of a profile were cut and judged."""
    judged = fairness.model_copy(update={"favourable": without_label(fairness.favourable)})
    rules = judged.model_dump(mode="json", include={"favourable"})
    return {
        name: {
            "rows": profile["rows"],
            "edges": fairness.edges.get(name),
            **({"groups": fairness.groups[name]} if name in fairness.groups else {}),
            **rules,
        }
        for name in profile["attributes"]
    }


def beside_earlier(
    profile: Mapping[str, Any], cuts: Cuts, earlier: Cuts
) -> tuple[dict[str, Any], Cuts]:
    """The profile without attributes that were cut otherwise before, and all cuts shown by now."""
    other = {name for name, cut in cuts.items() if earlier.get(name, cut) != cut}
    attributes = {
        name: _withheld(found) if name in other else found
        for name, found in profile["attributes"].items()
    }
    return {**profile, "attributes": attributes}, {**cuts, **earlier}


def _withheld(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """The attribute's names alone."""
    return {
        **{name: given for name, given in attribute.items() if name != "protecting"},
        "groups": dict.fromkeys(attribute["groups"]),
        "missing": None,
        "base_rates": dict.fromkeys(attribute["base_rates"]),
        "reasons": dict.fromkeys(("groups", "missing", "base_rates"), _OTHER_CUT),
    }
