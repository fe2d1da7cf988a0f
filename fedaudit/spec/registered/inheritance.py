"""What an experiment that names a federation by its id takes from the registration.

A spec without `federation.target`, or without `federation.source`, leaves its columns to the
registration: no such spec was valid before, so none that was changes its meaning. One that names
them speaks for itself, and takes words alone: the labels of its columns.
"""

from collections.abc import Mapping
from typing import Any

_PLACE = frozenset({"path", "id"})
_CLIENTS = frozenset({"client_key", "partition"})
_WORDS = "labels"
EVERY_NUMBER = "*"


def federation_id_of(value: Any) -> str | None:
    """The id of the federation that the document of a spec names."""
    federation = value.get("federation") if isinstance(value, Mapping) else None
    found = federation.get("id") if isinstance(federation, Mapping) else None
    return found if isinstance(found, str) else None


def waits_for_registration(value: Any) -> bool:
    """Whether the document of a spec is complete only with the registration that it names."""
    if federation_id_of(value) is None:
        return False
    federation = value["federation"]
    return "source" not in federation or (
        federation["source"] == "table" and "target" not in federation
    )


def with_registration(value: Any, registration: Mapping[str, Any]) -> Any:
    """The document of a spec, with what it leaves to the registration filled in.

    Whatever the spec says stays as it is. A document that is no spec is given back for validation
    to refuse.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("federation"), Mapping):
        return value
    asked, known = dict(value["federation"]), registration["federation"]
    fairness = value.get("fairness", {})
    if not isinstance(fairness, Mapping) or asked.get("source", known["source"]) != known["source"]:
        return value
    filled = dict(value)
    if _leaves_columns(asked, known):
        fairness = _with_groups(fairness, registration["fairness"])
        asked = _with_columns(asked, known)
        filled["fairness"] = fairness
    if "favourable" in fairness:
        rule = _with_words(fairness["favourable"], registration["fairness"].get("favourable"))
        filled["fairness"] = {**fairness, "favourable": rule}
    if _WORDS not in asked and (labels := _labels(asked, fairness, known)):
        asked[_WORDS] = labels
    return {**filled, "federation": asked}


def _leaves_columns(asked: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    return "source" not in asked or ("target" in known and "target" not in asked)


def _with_columns(asked: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    taken = {name: given for name, given in known.items() if name not in {*_PLACE, _WORDS}}
    if _CLIENTS & asked.keys():
        taken = {name: given for name, given in taken.items() if name not in _CLIENTS}
    if "target" in asked and asked["target"] != known.get("target"):
        for name in ("positive", "missing_target"):
            taken.pop(name, None)
    if isinstance(asked.get("features"), list) and taken.get("scale"):
        named = [one.get("name") if isinstance(one, Mapping) else one for one in asked["features"]]
        named += [EVERY_NUMBER, asked.get("target", known.get("target"))]
        taken["scale"] = {name: by for name, by in taken["scale"].items() if name in named}
    return {**taken, **asked}


def _with_groups(asked: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes, edges, sizes and the rule; edges and rules of attributes that are not looked at
    are left behind."""
    taken = dict(known)
    sensitive = asked.get("sensitive", taken.get("sensitive", []))
    if isinstance(sensitive, list):
        edges = taken.get("edges", {})
        taken["edges"] = {name: cuts for name, cuts in edges.items() if name in sensitive}
        if not set(_attributes_of(taken.get("favourable"))) <= set(map(str, sensitive)):
            taken.pop("favourable", None)
        if not sensitive:
            taken.pop("favourable", None)
    return {**taken, **asked}


def _attributes_of(favourable: Any) -> list[str]:
    rules = favourable if isinstance(favourable, list) else []
    return [name for rule in rules for name in rule.get("group", {})]


def _with_words(asked: Any, known: Any) -> Any:
    """The asked rule, called what the registration calls the same rule."""
    if not isinstance(asked, Mapping) or not isinstance(known, Mapping) or "label" in asked:
        return asked
    return {**asked, "label": known["label"]} if _same_rule(asked, known) else asked


def _same_rule(asked: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    return "label" in known and dict(asked) == {
        name: given for name, given in known.items() if name != "label"
    }


def _labels(
    asked: Mapping[str, Any], fairness: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """The labels of columns that a report of this spec shows."""
    sensitive = fairness.get("sensitive", [])
    shown = [asked.get("target", "average_total_payments"), "y"]
    if isinstance(sensitive, list):
        shown += sensitive
    return {column: words for column, words in known.get(_WORDS, {}).items() if column in shown}
