"""Summarise a federation in a few figures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import size_rule
from fedaudit.federations.errors import pointer
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups.favourable_outcomes import outcome_rules
from fedaudit.federations.profiles.profile_figures import (
    AttributeCounts,
    Warnings,
    attribute_figures,
    class_figures,
    spread,
)
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Groups

NUMERIC_TARGET = "the target is a number"


def profile(federation: Federation, fairness: Groups | None = None) -> dict[str, Any]:
    """Sizes and names, as JSON, as in `profile_registration`.

    No value of a feature or of a numeric target appears in it, and small groups are suppressed.
    Raises InvalidInputError where `fairness.favourable` does not fit the data.
    """
    fairness = fairness or Groups()
    rule, warnings = size_rule(fairness), Warnings()
    attributes: dict[str, Any] = {}
    for counts in _attributes(federation, fairness):
        attributes[counts.name], found = attribute_figures(counts, rule)
        warnings += found
    balance, reasons = None, {"class_balance": NUMERIC_TARGET}
    if federation.classes:
        classes = federation.raw_target.astype(np.int64)
        balance, found = class_figures(
            federation.target_name,
            federation.classes,
            np.bincount(classes, minlength=len(federation.classes)),
            rule,
        )
        warnings += found
        reasons = {}
    return {
        "rows": federation.rows,
        "clients": federation.clients,
        "rows_per_client": spread(federation.counts),
        "features": list(federation.feature_names),
        "target": federation.target_name,
        "classes": list(federation.classes),
        "class_balance": balance,
        "missing": {},
        "attributes": attributes,
        "warnings": warnings,
        "notes": list(federation.notes),
        "reasons": reasons,
    }


def _attributes(federation: Federation, fairness: Groups) -> list[AttributeCounts]:
    scored, favourable, no_rule = _outcomes(federation, fairness)
    return [
        _counts(
            attribute,
            place,
            first=federation.first,
            scored=scored,
            favourable=favourable,
            no_rule=no_rule,
        )
        for place, attribute in enumerate(federation.attributes)
    ]


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


def _counts(
    attribute: Attribute,
    place: int,
    *,
    first: NDArray[np.int64],
    scored: NDArray[np.bool_],
    favourable: NDArray[np.bool_],
    no_rule: str | None,
) -> AttributeCounts:
    def count(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        codes = attribute.codes[rows & (attribute.codes >= 0)]
        return np.bincount(codes, minlength=len(attribute.values))

    codes, known = attribute.codes, attribute.codes >= 0
    highest = np.maximum.reduceat(codes, first[:-1])
    lowest = np.minimum.reduceat(np.where(known, codes, len(attribute.values)), first[:-1])
    return AttributeCounts(
        name=attribute.name,
        where=pointer("fairness", "sensitive", place),
        constant=bool((lowest >= highest).all()),
        values=attribute.values,
        rows=count(known),
        missing=int(np.count_nonzero(~known)),
        scored=count(scored),
        favourable=count(scored & favourable),
        no_rule=no_rule,
    )
