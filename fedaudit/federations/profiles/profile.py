"""Summarise a federation in a few figures, and what of them may be shown beside earlier ones.

A profile counts the groups of an attribute and states how many of each have a favourable outcome.
Two profiles that cut one column at 83 and at 84, or judge by rules that differ a little, give the
few rows in between away, and reading the file again costs nothing. So the first cut of a column
that was shown stays the only one: of another one nothing is shown.

Columns that alone predict the target almost without error: often the outcome itself.

A sample of the rows decides. Each column is brought to at most 64 levels, of which one half of the
sample learns the mean target and the other half is predicted, and the reverse. Numbers are measured
as they are, too. What counts is the area under the ROC curve of each class against the others, the
smallest of all classes, or for a number the squared correlation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups import OutcomeRules, compared, outcome_rules
from fedaudit.spec.errors import InvalidInputError, listed, pointer
from fedaudit.spec.fairness import Groups, without_label
from fedaudit.spec.labels import number_in

if TYPE_CHECKING:
    from fedaudit.federations.reading.table_rows import TableRows

TOO_GOOD = 0.98
_MOST_ROWS, _MOST_CELLS, _FEWEST_ROWS = 5000, 500_000, 100
_LEVELS = 64
_FEW = 5
"""A class of fewer sampled rows, or with fewer others, decides nothing."""
_MOST_GAPS = 0.1
"""A column of numbers has a smaller share of other texts."""
_LARGE_ODD = np.uint64(0x9E3779B97F4A7C15)


class RowSample:
    """A sample of at most some thousand rows of a table, chosen by their numbers alone."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_CELLS // len(self._names)))
        self._step = np.uint64(1)
        self._parts: list[TableRows] = []

    def add(self, rows: "TableRows") -> None:
        """Consider further rows of the same table."""
        columns = {name: rows.columns[name] for name in self._names}
        self._parts.append(self._thinned(replace(rows, columns=columns)))
        while sum(map(len, self._parts)) > self._most:
            self._step *= np.uint64(2)
            self._parts = [self._thinned(part) for part in self._parts]

    def texts(self, name: str) -> list[str]:
        """A column's cells, empty ones as ''."""
        return [text for part in self._parts for text in part.text(name, "").to_pylist()]

    @property
    def halves(self) -> Bools:
        """[rows]: about half of them."""
        numbers = [self._hashed(part) >> np.uint64(31) for part in self._parts]
        found: Bools = np.concatenate(numbers) % np.uint64(2) == 0
        return found

    def _thinned(self, rows: "TableRows") -> "TableRows":
        return rows.where(self._hashed(rows) % self._step == 0)

    @staticmethod
    def _hashed(rows: "TableRows") -> NDArray[np.uint64]:
        """A file whose rows alternate in some way is sampled evenly nevertheless."""
        mixed: NDArray[np.uint64] = rows.row_numbers.astype(np.uint64) * _LARGE_ODD
        return mixed >> np.uint64(32)


def giveaways(
    sample: RowSample, target: str, features: Sequence[str], *, classes: bool
) -> list[str]:
    """The features that alone predict the target. `classes`: whether it is one of few classes."""
    wanted = np.array(sample.texts(target), dtype=object)
    present = np.array([text != "" if classes else number_in(text) is not None for text in wanted])
    halves, wanted = sample.halves[present], wanted[present]
    if classes:
        outcomes = wanted[:, None] == np.unique(wanted)
        outcomes = outcomes[:, (outcomes.sum(0) >= _FEW) & ((~outcomes).sum(0) >= _FEW)]
    else:
        outcomes = wanted.astype(np.float64)[:, None]
    if outcomes.shape[1] == 0 or len(wanted) < 2 * _FEW:
        return []
    found = []
    for name in features:
        texts = [text for text, kept in zip(sample.texts(name), present, strict=True) if kept]
        if _smallest(texts, outcomes, halves, classes=classes) > TOO_GOOD:
            found.append(name)
    return found


def _smallest(
    texts: list[str], outcomes: NDArray[np.generic], halves: Bools, *, classes: bool
) -> float:
    """How well the column predicts the class that it predicts worst, or the number."""
    numbers = [number_in(text) for text in texts]
    values = np.array([np.nan if number is None else number for number in numbers])
    gaps = float(np.isnan(values).mean())
    levels = _levels(texts, values, numeric=gaps < _MOST_GAPS)
    as_it_is = gaps == 0
    found = []
    for outcome in outcomes.T:
        scores = [] if levels is None else [_learnt(levels, outcome.astype(float), halves)]
        scores += [values] * as_it_is
        if classes:
            fits = [_area(score, outcome.astype(bool)) for score in scores]
            fits += [1 - _area(values, outcome.astype(bool))] * as_it_is
        else:
            fits = [_alike(score, outcome) for score in scores]
            fits += [_alike(_ranks(values), _ranks(outcome))] * as_it_is
        found.append(max(fits, default=0.0))
    return min(found)


def _levels(texts: list[str], values: Floats, *, numeric: bool) -> Ints | None:
    """Each row's level; None for texts of too many."""
    distinct, codes = np.unique(texts, return_inverse=True)
    if len(distinct) <= _LEVELS:
        return codes
    if not numeric:
        return None
    cut = np.floor(_ranks(values) / len(values) * (_LEVELS - 1)).astype(np.int64)
    return np.where(np.isnan(values), _LEVELS - 1, cut)


def _learnt(levels: Ints, outcome: Floats, halves: Bools) -> Floats:
    """Return for each row the mean outcome of its level in the other half, or of that whole half
    where it lacks the level."""
    found = np.zeros(len(levels))
    for half in (halves, ~halves):
        other = ~half
        rows = np.bincount(levels[other], minlength=int(levels.max()) + 1)
        sums = np.bincount(levels[other], outcome[other], minlength=len(rows))
        whole = sums.sum() / max(1, rows.sum())
        means = np.where(rows > 0, sums / np.maximum(rows, 1), whole)
        found[half] = means[levels[half]]
    return found


def _ranks(values: NDArray[np.generic]) -> Floats:
    """Rank values from 0; equal values share the mean of their ranks."""
    _, codes, rows = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(rows) - (rows + 1) / 2)[codes]
    return ranks


def _area(scores: Floats, positive: Bools) -> float:
    """Area under the ROC curve: how often a positive row scores above another (Hanley, McNeil)."""
    ones, others = int(positive.sum()), int((~positive).sum())
    above = _ranks(scores)[positive].sum() - ones * (ones - 1) / 2
    return float(above / (ones * others))


def _alike(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    """The squared correlation; 0 where one of them does not vary."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first.astype(float), second.astype(float))[0, 1] ** 2)


_HIDDEN = "small groups, and what would give them away, are not shown"

Warnings = list[dict[str, str]]
"""Objects {pointer, message}: the data are usable, but the caller should know."""


def _attribute_figures(
    federation: Federation,
    attribute: Attribute,
    outcomes: OutcomeRules,
    rule: DisclosureRule,
    *,
    no_rule: str,
) -> tuple[dict[str, Any], Ints]:
    """Sizes and base rates of an attribute's groups, and the rows of each. `protecting` names large
    groups that are hidden since a smaller one would follow from them. `no_rule`: why there are no
    rates if `outcomes` has no rule."""
    codes, values, groups = attribute.codes, attribute.values, len(attribute.values)
    known, first = codes >= 0, federation.first[:-1]
    highest = np.maximum.reduceat(codes, first)
    lowest = np.minimum.reduceat(np.where(known, codes, groups), first)
    rows, scored, favourable = (
        np.bincount(codes[known & counted], minlength=groups)
        for counted in (known, outcomes.rule_index >= 0, outcomes.label(federation.raw_target))
    )
    missing = int(np.count_nonzero(~known))
    shown = rule.decide(rows, of="rows").shown
    # Rows without a value are a group too: the class sizes minus what the rates add up to would
    # reveal its outcomes. And rates of a rare outcome would reveal how rare it is.
    rarest = min(int(favourable.sum()), int((scored - favourable).sum()))
    rated = shown & rule.decide(np.append(scored, missing)).shown[:-1]
    rated &= bool(outcomes.ops) and not rule.is_small(rarest)
    reasons = {}
    if not shown.all():
        reasons["groups"] = _HIDDEN
    if not rated.all():
        reasons["base_rates"] = _HIDDEN if outcomes.ops else no_rule
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
    where: str, groups: str, names: Sequence[str], rows: Ints, rule: DisclosureRule, *, so: str
) -> Warnings:
    """A warning of small groups, or classes."""
    small = [name for name, size in zip(names, rows.tolist(), strict=True) if rule.is_small(size)]
    of = f"{groups} of {rule.decide(rows, of='rows').too_few}"
    return [{"pointer": where, "message": f"{of}: {listed(small)}; {so}"}] if small else []


def _with_gaps(names: Sequence[str], figures: NDArray[np.generic], shown: Bools) -> dict[str, Any]:
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
    no_rule = f"{NUMERIC_TARGET}, and no rule says which outcome is favourable"
    try:
        outcomes = outcome_rules(federation, fairness)
    except InvalidInputError as error:
        if fairness.favourable is not None:
            raise
        outcomes, no_rule = outcome_rules(federation, Groups()), error.errors[0].message
    for place, one in enumerate(federation.attributes):
        attributes[one.name], rows = _attribute_figures(
            federation, one, outcomes, rule, no_rule=no_rule
        )
        where, has = pointer("fairness", "sensitive", place), f"{one.name!r} has groups"
        protecting = attributes[one.name].get("protecting", [])
        with_them = f", nor those of {listed(protecting)} that protect them" if protecting else ""
        so = (
            f"reports will not show their figures{with_them}; join them with others under "
            "`fairness.groups` or by fewer `fairness.edges`, or leave them out under "
            "`fairness.exclude`"
        )
        warnings += _warnings(where, has, one.values, rows, rule, so=so)
    classes, balance, found, reasons = _classes(federation, rule)
    warnings += found
    if federation.classes and fairness.sensitive and not outcomes.ops:
        so = f"{no_rule}; experiments are refused until then"
        warnings.append({"pointer": "/fairness/favourable", "message": so})
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


Cuts = dict[str, Any]
"""{rows, edges, favourable} of each attribute, by which its groups were made, as JSON. Without
`favourable` no rule was known, so that nothing of outcomes was shown beside what any rule shows."""

_OTHER_CUT = (
    "suppressed: an earlier profile of these data showed this attribute by other edges, by another "
    "rule or of other rows, and the two together would show the few rows between; keep to the "
    "first, or ask the federation's owner for it"
)


def cuts_of(profile: Mapping[str, Any], fairness: Groups) -> Cuts:
    """The cuts and rules of a profile's attributes."""
    judged = fairness.model_copy(update={"favourable": without_label(fairness.favourable)})
    rules = judged.model_dump(mode="json", include={"favourable"})
    return {
        name: {
            "rows": profile["rows"],
            "edges": fairness.edges.get(name),
            **({"groups": fairness.groups[name]} if name in fairness.groups else {}),
            **(rules if one["reasons"].get("base_rates") in (None, _HIDDEN) else {}),
        }
        for name, one in profile["attributes"].items()
    }


def beside_earlier(
    profile: Mapping[str, Any], cuts: Cuts, earlier: Cuts
) -> tuple[dict[str, Any], Cuts]:
    """The profile without attributes that were cut otherwise before, and all cuts shown by now."""
    other = {name for name, cut in cuts.items() if not _agree(cut, earlier.get(name) or cut)}
    attributes = dict(profile["attributes"])
    for name in other & attributes.keys():
        found = attributes[name]
        attributes[name] = {  # names alone
            "of": found["of"],
            "groups": dict.fromkeys(found["groups"]),
            "missing": None,
            "base_rates": dict.fromkeys(found["base_rates"]),
            "reasons": dict.fromkeys(("groups", "missing", "base_rates"), _OTHER_CUT),
        }
    shown = {name: {**earlier.get(name, {}), **cuts[name]} for name in cuts.keys() - other}
    return {**profile, "attributes": attributes}, {**earlier, **shown}


def _agree(cut: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    rule = "favourable"
    both = {*cut, *earlier} - ({rule} if rule not in cut or rule not in earlier else set())
    return all(cut.get(name) == earlier.get(name) for name in both)
