"""What a stored report says of its guarantee, whichever version wrote it.

Earlier versions recorded neither whether the noise was secret nor the conditions of a figure. Both
follow from the spec and the figures in the report, and are never taken to be better than these say.
"""

from collections.abc import Mapping
from typing import Any

_RADIUS = (
    "n/nu holds within the radius, and the report does not show that a clip keeps uploads there"
)
_ROUNDING = 1e-12
_EARLIER_CHOICE = "it bounds datasets that choose the same hypothesis in every round"


def is_in_force(report: Mapping[str, Any]) -> bool:
    """Whether the guarantee protects somebody: there is one, and the noise was secret.

    By the spec, and not by what the report states of itself: a statement of its own cannot make it
    better.
    """
    secret = report["spec"]["privacy"].get("noise") == "release"
    return bool(report["guarantee"]["kind"] != "none" and secret)


def label_of(report: Mapping[str, Any]) -> str:
    """The kind of the guarantee, with *within the radius* where the proof goes no further."""
    guarantee, privacy = report["guarantee"], report["spec"]["privacy"]
    found = guarantee.get("label")
    if found is not None:
        return str(found)
    unclipped = privacy.get("mechanism") == "laplace-l2" and privacy.get("clip") is None
    if guarantee["kind"] == "formal" and unclipped:
        return "formal within the radius"
    return str(guarantee["kind"])


def delta_gives_data_away(report: Mapping[str, Any], *, delta: float | None = None) -> bool:
    """Whether delta is so large that somebody's data may be handed over whole: one in as many
    units as train, or more. `delta`: that of the guarantee unless given."""
    guarantee = report["guarantee"]
    if report.get("declared"):
        units = report["terms"]["population"]
    else:
        data = report["data"]
        units = data["rows"] if guarantee["unit"] == "record" else data["training_clients"]
    held = guarantee["delta"] if delta is None else delta
    return bool((held or 0.0) * units >= 1)


def guarantee_words(guarantee: Mapping[str, Any]) -> str:
    """The label of a section, or of its copy in a list, and whether it is not in force."""
    label = str(guarantee.get("label") or guarantee["kind"])
    suspended = guarantee["kind"] != "none" and guarantee.get("in_force") is False
    return f"{label}, not in force" if suspended else label


def guarantee_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """What lists and comparisons show of a guarantee, which an earlier version did not record."""
    return {"label": label_of(report), "in_force": is_in_force(report)}


def condition_of(report: Mapping[str, Any], figure: str) -> str | None:
    """Why this figure of a formal guarantee bounds some datasets only; None where it bounds all."""
    conditions = report["guarantee"].get("conditions")
    if conditions is not None:
        found: str | None = conditions.get(figure)
        return found
    if report["privacy"].get("leakage_max") is None:
        return None
    if figure != "log_ratio_max" and beyond_radius(report["privacy"]) is not None:
        return _RADIUS
    several = report["spec"]["training"].get("hypotheses", 1) > 1
    return _EARLIER_CHOICE if several else None


def beyond_radius(privacy: Mapping[str, Any]) -> str | None:
    """Why n/nu does not bound all datasets, by the figures of a section; None where it does."""
    charged, bound = privacy.get("leakage_max"), privacy.get("log_ratio_max")
    # Where 2c = r the two are equal, but for rounding.
    if charged is None or (bound is not None and bound <= charged * (1 + _ROUNDING)):
        return None
    return _RADIUS
