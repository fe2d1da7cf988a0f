"""From what was typed into the form to a registration, and where each of its fields was typed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.pages.registration_form import names
from api.pages.spec_form.typed import parts
from api.pages.spec_form.typed_number import number
from fedaudit.spec.errors import FieldError, pointer


@dataclass
class TypedRegistration:
    """What the form asks for."""

    value: dict[str, Any]
    """To be parsed as the registration of an uploaded file."""
    places: dict[str, str] = field(default_factory=dict)
    """JSON pointer in the value -> the field of the form."""
    faults: list[FieldError] = field(default_factory=list)
    """Lines that cannot be read; their pointers are in `places` too."""


@dataclass(frozen=True)
class _Typed:
    texts: Mapping[str, str]
    place: int

    def __getitem__(self, part: str) -> str:
        return self.texts.get(names.of_column(self.place, part), "")

    def at(self, part: str) -> str:
        return names.of_column(self.place, part)


def typed_registration(typed: Mapping[str, str]) -> TypedRegistration:
    """The registration that the texts come to. Nothing is refused but lines that say nothing."""
    made = TypedRegistration({"name": typed.get(names.NAME, "")})
    federation: dict[str, Any] = {"source": "table"}
    fairness: dict[str, Any] = {}
    made.value |= {"federation": federation, "fairness": fairness}
    made.places |= _PLAIN
    if typed.get(names.HEADER):
        federation["header"] = False
    _put_clients(federation, typed)
    _put_target(federation, typed)
    if texts := parts(typed.get(names.MISSING_VALUES, "")):
        federation["missing_values"] = texts
    used = {typed.get(names.CLIENT_KEY, ""), federation["target"]}
    features: list[Any] = []
    sensitive: list[str] = []
    for column in _columns(typed):
        _put_labels(made, column)
        _put_scale(made, column, used=column["name"] == federation["target"])
        if column["name"] in used:
            continue
        if column["role"] in names.FEATURES:
            where = pointer("federation", "features", len(features))
            made.places |= {where: column.at("role")}
            made.places |= {f"{where}/{part}": column.at(part) for part in _OF_FEATURES}
            features.append(_feature(column))
        if column["role"] in names.SENSITIVE:
            made.places[pointer("fairness", "sensitive", len(sensitive))] = column.at("role")
            sensitive.append(column["name"])
            _put_edges(made, column)
    federation["features"] = features
    _put_joins(made, typed, sensitive)
    if sensitive:
        fairness["sensitive"] = sensitive
    _put_rule(fairness, typed)
    return made


_OF_FEATURES = ("kind", "categories", "missing", "fill")
_PLAIN = {
    "/name": names.NAME,
    "/federation/client_key": names.CLIENT_KEY,
    "/federation/partition": names.CLIENTS,
    "/federation/missing_client": names.MISSING_CLIENT,
    "/federation/target": names.TARGET,
    "/federation/positive": names.POSITIVE,
    "/federation/missing_target": names.MISSING_TARGET,
    "/federation/missing_values": names.MISSING_VALUES,
    "/federation/features": names.of_column(0, "role"),
    "/fairness/favourable": names.RULE_VALUE,
    "/fairness/favourable/op": names.RULE_OP,
    "/fairness/favourable/label": names.RULE_LABEL,
    "/fairness/sensitive": names.of_column(0, "role"),
}


def _columns(typed: Mapping[str, str]) -> Iterator[_Typed]:
    place = 0
    while names.of_column(place, "name") in typed:
        yield _Typed(typed, place)
        place += 1


def _put_clients(federation: dict[str, Any], typed: Mapping[str, str]) -> None:
    if key := typed.get(names.CLIENT_KEY):
        federation["client_key"] = key
        if typed.get(names.MISSING_CLIENT):
            federation["missing_client"] = "drop-row"
        return
    clients = number(typed.get(names.CLIENTS, ""))
    federation["partition"] = {"method": "iid", "clients": clients}


def _put_target(federation: dict[str, Any], typed: Mapping[str, str]) -> None:
    federation["target"] = typed.get(names.TARGET, "")
    if typed.get(names.MISSING_TARGET):
        federation["missing_target"] = "drop-row"
    if positive := typed.get(names.POSITIVE):
        federation["positive"] = positive


def _feature(column: _Typed) -> str | dict[str, Any]:
    feature: dict[str, Any] = {"name": column["name"]}
    if column["kind"] != "numeric":
        lines = [line.strip() for line in column["categories"].splitlines()]
        feature |= {"kind": column["kind"], "categories": [line for line in lines if line]}
    if column["missing"] not in ("", "reject"):
        feature["missing"] = column["missing"]
    if column["missing"] == "constant" and column["fill"]:
        numeric = column["kind"] == "numeric"
        feature["fill"] = number(column["fill"]) if numeric else column["fill"]
    return feature if len(feature) > 1 else column["name"]


def _put_scale(made: TypedRegistration, column: _Typed, *, used: bool) -> None:
    """A divisor counts for numeric features, and for the target."""
    counts = used or (column["role"] in names.FEATURES and column["kind"] == "numeric")
    if counts and column["scale"]:
        made.value["federation"].setdefault("scale", {})[column["name"]] = number(column["scale"])
        made.places[pointer("federation", "scale", column["name"])] = column.at("scale")


def _put_edges(made: TypedRegistration, column: _Typed) -> None:
    if edges := parts(column["edges"]):
        made.value["fairness"].setdefault("edges", {})[column["name"]] = list(map(number, edges))
        made.places[pointer("fairness", "edges", column["name"])] = column.at("edges")


def _put_labels(made: TypedRegistration, column: _Typed) -> None:
    where = pointer("federation", "labels", column["name"])
    made.places[where] = column.at("labels")
    if labels := _pairs(made, column["labels"], where, wanted="CODE = LABEL"):
        made.value["federation"].setdefault("labels", {})[column["name"]] = labels


def _put_joins(made: TypedRegistration, typed: Mapping[str, str], sensitive: list[str]) -> None:
    place = 0
    while names.of_join(place, "name") in typed:
        attribute = typed[names.of_join(place, "name")]
        where = pointer("federation", "join", attribute)
        made.places[where] = names.of_join(place, "columns")
        made.places[f"{where}/none"] = names.of_join(place, "none")
        if typed.get(names.of_join(place, "use")):
            lines = typed.get(names.of_join(place, "columns"), "")
            columns = _pairs(made, lines, where, wanted="COLUMN = GROUP")
            joined: dict[str, Any] = {"columns": columns}
            if rest := typed.get(names.of_join(place, "none")):
                joined["none"] = rest
            made.value["federation"].setdefault("join", {})[attribute] = joined
            made.places[pointer("fairness", "sensitive", len(sensitive))] = names.of_join(
                place, "use"
            )
            sensitive.append(attribute)
        place += 1


def _put_rule(fairness: dict[str, Any], typed: Mapping[str, str]) -> None:
    op, value = typed.get(names.RULE_OP, ""), typed.get(names.RULE_VALUE, "")
    if not op:
        return
    rule: dict[str, Any] = {"op": op}
    if value:
        rule["value"] = [number(one) for one in parts(value)] if op == "in" else number(value)
    if label := typed.get(names.RULE_LABEL):
        rule["label"] = label
    fairness["favourable"] = rule


def _pairs(made: TypedRegistration, typed: str, where: str, *, wanted: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, typed.splitlines())):
        name, mark, text = (part.strip() for part in line.partition("="))
        if not (mark and name and text):
            made.faults.append(FieldError(where, f"{line[:80]!r} says nothing; write {wanted}"))
        elif name in found:
            made.faults.append(FieldError(where, f"{name!r} stands on two lines; keep one"))
        else:
            found[name] = text
    return found
