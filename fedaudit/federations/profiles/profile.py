"""Summarise a federation in a few figures, and what of them may be shown beside earlier ones.

A profile counts the groups of an attribute and states how many of each have a favourable outcome.
Two profiles that cut one column at 83 and at 84, or judge by rules that differ a little, give the
few rows in between away, and reading the file again costs nothing. So the first cut of a column
that was shown stays the only one: of another one nothing is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.errors import listed
from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import compared
from fedaudit.spec.errors import InvalidInputError, pointer
from fedaudit.spec.fairness import Groups, without_label

_HIDDEN = "small groups, and what would give them away, are not shown"

Warnings = list[dict[str, str]]
"""Objects {pointer, message}: the data are usable, but the caller should know."""


@dataclass(frozen=True, eq=False)
class AttributeCounts:
    """Counts of a sensitive attribute."""

    name: str
    where: str
    """The field of the spec that names it."""
    constant: bool
    """Whether it is a client attribute: all of a client's rows have the same value."""
    values: Sequence[str]
    rows: NDArray[np.int64]
    """[groups]"""
    missing: int
    """Rows without a value."""
    scored: NDArray[np.int64]
    """[groups]: rows for which a rule decides whether their outcome is favourable."""
    favourable: NDArray[np.int64]
    """[groups]"""
    no_rule: str | None = None
    """Why no outcome is favourable; null where there is a rule."""


def attribute_figures(
    counts: AttributeCounts, rule: DisclosureRule
) -> tuple[dict[str, Any], Warnings]:
    """Sizes and base rates of an attribute's groups, and a warning of small ones. `protecting`
    names large groups that are hidden since a smaller one would follow from them."""
    sizes = rule.decide(counts.rows, of="rows")
    shown = sizes.shown
    rated = shown & _rated(counts, rule)
    rates = counts.favourable / np.maximum(counts.scored, 1)
    reasons = {}
    if not shown.all():
        reasons["groups"] = _HIDDEN
    if not rated.all():
        reasons["base_rates"] = counts.no_rule or _HIDDEN
    figures: dict[str, Any] = {
        "of": "client" if counts.constant else "record",
        "groups": _with_gaps(counts.values, counts.rows, shown),
        "missing": counts.missing,
        "base_rates": _with_gaps(counts.values, rates, rated),
        "reasons": reasons,
    }
    protecting = [
        value
        for value, is_shown, size in zip(counts.values, shown, counts.rows.tolist(), strict=True)
        if not is_shown and rule.is_large(size)
    ]
    if protecting:
        figures["protecting"] = protecting
    small = _small(counts.values, counts.rows, rule)
    if not small:
        return figures, []
    message = (
        f"{counts.name!r} has groups of {sizes.too_few}: {listed(small)}; "
        "reports will not show their figures"
    )
    return figures, [{"pointer": counts.where, "message": message}]


def class_figures(
    target: str, classes: Sequence[str], rows: NDArray[np.int64], rule: DisclosureRule
) -> tuple[dict[str, int | None], Warnings]:
    """How many rows each class has, and a warning of small ones."""
    sizes = rule.decide(rows, of="rows")
    small = _small(classes, rows, rule)
    balance = _with_gaps(classes, rows, sizes.shown)
    if not small:
        return balance, []
    message = (
        f"{target!r} has classes of {sizes.too_few}: {listed(small)}; little can be learnt of them"
    )
    return balance, [{"pointer": "/federation/target", "message": message}]


def spread(rows: NDArray[np.int64]) -> dict[str, float | int | None]:
    """Rows per client: [clients]."""
    return {
        "minimum": int(rows.min()),
        "median": float(np.median(rows)),
        "maximum": int(rows.max()),
    }


def _rated(counts: AttributeCounts, rule: DisclosureRule) -> NDArray[np.bool_]:
    """The groups whose base rates may be shown, [groups].

    Rows without a value are a group too: the class sizes minus what the rates add up to would
    reveal its outcomes. And rates of a rare outcome would reveal how rare it is.
    """
    rows = np.append(counts.scored, counts.missing)
    rated = rule.decide(rows).shown[:-1]
    favourable = int(counts.favourable.sum())
    rarest = min(favourable, int(counts.scored.sum()) - favourable)
    if counts.no_rule is not None or rule.is_small(rarest):
        return np.zeros_like(rated)
    return rated


def _small(names: Sequence[str], rows: NDArray[np.int64], rule: DisclosureRule) -> list[str]:
    return [name for name, size in zip(names, rows.tolist(), strict=True) if rule.is_small(size)]


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
    """Sizes and names, as JSON, as in `profile_registration`.

    No value of a feature or of a numeric target appears in it, and small groups are suppressed.
    Values that experiments leave out stay groups here, since all rows are counted. Raises
    InvalidInputError where `fairness` does not fit the data.
    """
    fairness = fairness or Groups()
    groups = compared(federation.attributes, fairness, exclude=False)
    federation = replace(federation, attributes=groups)
    rule, warnings = size_rule(fairness), Warnings()
    attributes: dict[str, Any] = {}
    for counts in _attributes(federation, fairness):
        attributes[counts.name], found = attribute_figures(counts, rule)
        warnings += found
    classes, balance, found, reasons = _classes(federation, rule)
    warnings += found
    return {
        "rows": federation.rows,
        "clients": federation.clients,
        "rows_per_client": spread(federation.counts),
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
    balance, warnings = class_figures(federation.target_name, federation.classes, rows, rule)
    return list(federation.classes), balance, warnings, {}


def _attributes(federation: Federation, fairness: Groups) -> list[AttributeCounts]:
    scored, favourable, no_rule = _outcomes(federation, fairness)
    found = []
    for place, attribute in enumerate(federation.attributes):
        codes, groups = attribute.codes, len(attribute.values)
        known, first = codes >= 0, federation.first[:-1]
        highest = np.maximum.reduceat(codes, first)
        lowest = np.minimum.reduceat(np.where(known, codes, groups), first)
        rows, of_scored, of_favourable = (
            np.bincount(codes[known & counted], minlength=groups)
            for counted in (known, scored, scored & favourable)
        )
        found.append(
            AttributeCounts(
                name=attribute.name,
                where=pointer("fairness", "sensitive", place),
                constant=bool((lowest >= highest).all()),
                values=attribute.values,
                rows=rows,
                missing=int(np.count_nonzero(~known)),
                scored=of_scored,
                favourable=of_favourable,
                no_rule=no_rule,
            )
        )
    return found


def _outcomes(
    federation: Federation, fairness: Groups
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], str | None]:
    """Rows that a rule applies to, rows with a favourable outcome, and why there is no rule."""
    try:
        rules = outcome_rules(federation, fairness)
    except InvalidInputError as error:
        if fairness.favourable is not None:
            raise
        nothing = np.zeros(federation.rows, dtype=np.bool_)
        return nothing, nothing, error.errors[0].message
    none = None if rules.ops else f"{NUMERIC_TARGET}, and no rule says which outcome is favourable"
    return rules.rule_index >= 0, rules.label(federation.raw_target), none


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
