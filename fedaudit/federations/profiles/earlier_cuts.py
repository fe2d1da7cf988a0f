"""What a further profile of the same data may show beside earlier ones.

A profile counts the groups of an attribute and states how many of each have a favourable outcome.
Two profiles that cut one column at 83 and at 84, or judge by rules that differ a little, give the
few rows in between away, and reading the file again costs nothing. So the first cut of a column
that was shown stays the only one: of another one nothing is shown.
"""

from collections.abc import Mapping
from typing import Any

from fedaudit.spec.fairness import Groups, without_label

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
        name: {"rows": profile["rows"], "edges": fairness.edges.get(name), **rules}
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
        **attribute,
        "groups": dict.fromkeys(attribute["groups"]),
        "missing": None,
        "base_rates": dict.fromkeys(attribute["base_rates"]),
        "reasons": dict.fromkeys(("groups", "missing", "base_rates"), _OTHER_CUT),
    }
