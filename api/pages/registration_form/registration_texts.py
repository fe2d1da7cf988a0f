"""From a proposed registration to the texts of the form's fields."""

from collections.abc import Mapping
from typing import Any

from api.pages.registration_form import names
from fedaudit.federations.proposals.column_survey import Column, Survey
from fedaudit.federations.proposals.proposal import MAX_CATEGORIES

_ON = "on"


def registration_texts(
    registration: Mapping[str, Any], survey: Survey, joinable: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Text by field; empty fields and switches that are off are left out."""
    federation, fairness = registration["federation"], registration.get("fairness", {})
    rule = fairness.get("favourable") or {}
    found = {
        names.NAME: registration["name"],
        names.HEADER: "" if federation.get("header", True) else "no",
        names.CLIENT_KEY: federation.get("client_key") or "",
        names.CLIENTS: str((federation.get("partition") or {}).get("clients", 10)),
        names.TARGET: federation.get("target", ""),
        names.POSITIVE: federation.get("positive") or "",
        names.MISSING_CLIENT: _switch(federation.get("missing_client") == "drop-row"),
        names.MISSING_TARGET: _switch(federation.get("missing_target") == "drop-row"),
        names.MISSING_VALUES: ", ".join(text for text in federation.get("missing_values", ())),
        names.RULE_OP: rule.get("op", ""),
        names.RULE_VALUE: _typed(rule.get("value")),
        names.RULE_LABEL: rule.get("label") or "",
    }
    features = {
        one if isinstance(one, str) else one["name"]: one for one in federation.get("features", ())
    }
    for place, column in enumerate(survey.columns):
        texts = _column(column, features.get(column.name), federation, fairness)
        found |= {names.of_column(place, part): text for part, text in texts.items()}
    for place, (attribute, columns) in enumerate(joinable.items()):
        lines = "\n".join(f"{column} = {group}" for column, group in columns.items())
        texts = {"name": attribute, "columns": lines, "none": "other"}
        found |= {names.of_join(place, part): text for part, text in texts.items()}
    return {name: text for name, text in found.items() if text}


def _column(
    column: Column, feature: Any, federation: Mapping[str, Any], fairness: Mapping[str, Any]
) -> dict[str, str]:
    sensitive = column.name in fairness.get("sensitive", ())
    role = "sensitive" if sensitive else "out" if feature is None else "feature"
    # What a column that is no feature would be, in case a person makes it one.
    declared = feature if isinstance(feature, dict) else {}
    texts_only = not column.numeric and not column.many
    few = texts_only and len(column.distinct) <= MAX_CATEGORIES
    guessed = "categorical" if feature is None and few else "numeric"
    kind = declared.get("kind", guessed)
    listed = declared.get("categories") or (column.distinct if kind == "categorical" else ())
    labels = federation.get("labels", {}).get(column.name, {})
    return {
        "name": column.name,
        "role": role,
        "kind": kind,
        "categories": "\n".join(listed),
        "missing": declared.get("missing", "reject"),
        "fill": _typed(declared.get("fill")),
        "scale": _typed(federation.get("scale", {}).get(column.name)),
        "edges": _typed(fairness.get("edges", {}).get(column.name)),
        "labels": "\n".join(f"{code} = {label}" for code, label in labels.items()),
    }


def _switch(on: bool) -> str:
    return _ON if on else ""


def _typed(value: Any) -> str:
    """A number without a needless fraction; a list with commas."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_typed, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
