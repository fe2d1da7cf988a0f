"""The form for a table's registration: what is proposed, what was typed, where faults belong."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.pages.spec_fields import number
from api.pages.spec_sheet import Fault, FormText, is_within, parts, rule_of
from api.services.pending_uploads import LookedAt
from fedaudit.federations.proposals.column_survey import Column, Survey
from fedaudit.federations.proposals.proposal import MAX_CATEGORIES, rest_of
from fedaudit.spec.errors import FieldError, did_you_mean, pointer
from models.tables.federations import PendingUpload

ROLES = (
    ("feature", "feature"),
    ("sensitive", "sensitive attribute"),
    ("both", "sensitive attribute, and a feature"),
    ("out", "left out"),
)
FEATURES, SENSITIVE = ("feature", "both"), ("sensitive", "both")
KINDS = (("numeric", "numbers"), ("categorical", "categories"))
GAPS = (
    ("reject", "are an error"),
    ("drop-row", "leave the row out"),
    ("constant", "take the value beside"),
)
RULE_OPS = (
    ("", "the favourable class above"),
    ("ge", "at least"),
    ("le", "at most"),
    ("in", "one of (with commas)"),
)
LABELS = {
    "name": "Name",
    "client_key": "What names clients",
    "clients": "Made-up clients",
    "missing_client": "Leave out rows that name no client",
    "target": "What is predicted",
    "missing_target": "Leave out rows without it",
    "positive": "Favourable class",
    "rule_op": "Favourable is",
    "rule_value": "This value",
    "rule_label": "Favourable in words",
    "missing_values": "Texts that mean an empty cell",
}
PARTS = {
    "role": "Taken as",
    "kind": "Holds",
    "categories": "Categories",
    "missing": "Empty cells",
    "fill": "Value for empty cells",
    "scale": "Divisor",
    "edges": "Cut into groups at",
    "labels": "Labels",
    "use": "Join",
    "columns": "Groups",
    "none": "Everyone else",
}
"""What the form calls its fields, and those of a column or of a join."""
_RARE = ("clients", "missing_client", "missing_target", "missing_values")
_FOLDED = ("kind", "categories", "missing", "fill", "scale", "edges", "labels")
_COMMA = re.compile(r"[-+]?\d+,\d+")
_SAMPLE, _LONGEST = 5, 24


def of_column(place: int, part: str) -> str:
    """A field of the column at a place of the table, counted from 0."""
    return f"c{place}-{part}"


def of_join(place: int, part: str) -> str:
    """A field of an attribute that several columns may hold together."""
    return f"j{place}-{part}"


_OF_FEATURES = ("kind", "categories", "missing", "fill")


@dataclass
class TypedRegistration:
    """What the form asks for."""

    value: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    """JSON pointer in the value -> the field of the form."""
    faults: list[FieldError] = field(default_factory=list)
    """Lines that cannot be read; their pointers are in `places` too."""


@dataclass(frozen=True)
class _Typed:
    """The fields of one column."""

    texts: Mapping[str, str]
    place: int

    def __getitem__(self, part: str) -> str:
        return self.texts.get(of_column(self.place, part), "")

    def at(self, part: str) -> str:
        return of_column(self.place, part)


@dataclass(frozen=True)
class RegistrationSheet(FormText):
    """The form as it is shown once."""

    upload: PendingUpload
    looked: LookedAt
    typed: Mapping[str, str]
    faults: Sequence[Fault] = ()
    refusal: str | None = None

    @property
    def columns(self) -> list[dict[str, Any]]:
        """In the table's order, with the reason why the proposal takes a column as it does."""
        reasons = self._reasons | {
            self.text("client_key"): "names clients, so it is neither feature nor attribute",
            self.text("target"): "is predicted, so it is neither feature nor attribute",
        }
        return [
            {
                "place": place,
                "name": one.name,
                "facts": _facts(one),
                "sample": _sample(one),
                "reason": reasons.get(one.name, ""),
            }
            for place, one in enumerate(self.looked.survey.columns)
        ]

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The columns, to choose one from."""
        return [(one.name, one.name) for one in self.looked.survey.columns]

    @property
    def joins(self) -> list[tuple[int, str]]:
        """Attributes that several columns may hold together, by their place."""
        proposal = self.looked.proposal
        return [] if proposal is None else list(enumerate(proposal.joinable))

    def guess(self, field: str) -> str:
        """Why a field of the registration was proposed as it was."""
        proposal = self.looked.proposal
        return "" if proposal is None else proposal.guesses.get(field, "")

    def part(self, place: int, part: str) -> str:
        """The text of a column's field."""
        return self.text(of_column(place, part))

    def details_open(self, place: int) -> bool:
        """Whether the details of a column are unfolded: one of them is faulty."""
        return any(self.wrong(of_column(place, part)) for part in _FOLDED)

    @property
    def rare_open(self) -> bool:
        """Whether the rarer fields of the whole table are unfolded."""
        return any(map(self.wrong, _RARE)) or not self.text("client_key")

    def label(self, name: str | None) -> str:
        """What the form calls a field: of a column, behind its name."""
        start, _, part = (name or "").partition("-")
        if label := LABELS.get(start):
            return label
        return f"{self.text(f'{start}-name')}: {PARTS[part]}" if part else "The registration"

    @property
    def _reasons(self) -> dict[str, str]:
        if (proposal := self.looked.proposal) is None:
            return {}
        found = {name: f"left out: {why}" for name, why in proposal.left_out.items()}
        for room, part in (("federation", "features"), ("fairness", "sensitive")):
            for place, one in enumerate(proposal.registration[room].get(part, ())):
                if why := proposal.guesses.get(pointer(room, part, place)):
                    found[one if isinstance(one, str) else one["name"]] = why
        return found


def registration_texts(
    registration: Mapping[str, Any], survey: Survey, joinable: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Text by field; empty fields and switches that are off are left out."""
    federation, fairness = registration["federation"], registration.get("fairness", {})
    rule = fairness.get("favourable") or {}
    found = {
        "name": registration["name"],
        "header": "" if federation.get("header", True) else "no",
        "client_key": federation.get("client_key") or "",
        "clients": str((federation.get("partition") or {}).get("clients", 10)),
        "target": federation.get("target", ""),
        "positive": federation.get("positive") or "",
        "missing_client": "on" if federation.get("missing_client") == "drop-row" else "",
        "missing_target": "on" if federation.get("missing_target") == "drop-row" else "",
        "missing_values": ", ".join(federation.get("missing_values", ())),
        "rule_op": rule.get("op", ""),
        "rule_value": _typed(rule.get("value")),
        "rule_label": rule.get("label") or "",
    }
    features = {
        one if isinstance(one, str) else one["name"]: one for one in federation.get("features", ())
    }
    for place, column in enumerate(survey.columns):
        texts = _column(column, features.get(column.name), federation, fairness)
        found |= {of_column(place, part): text for part, text in texts.items()}
    for place, (attribute, columns) in enumerate(joinable.items()):
        texts = {"name": attribute, "columns": _pair_lines(columns), "none": rest_of(columns)}
        found |= {of_join(place, part): text for part, text in texts.items()}
    return {name: text for name, text in found.items() if text}


def _column(
    column: Column, feature: Any, federation: Mapping[str, Any], fairness: Mapping[str, Any]
) -> dict[str, str]:
    sensitive = column.name in fairness.get("sensitive", ())
    role = "sensitive" if sensitive else "out" if feature is None else "feature"
    # For a column that is no feature: its kind, in case a person makes it one.
    declared = feature if isinstance(feature, dict) else {}
    texts_only = not column.numeric and not column.many
    few = texts_only and len(column.distinct) <= MAX_CATEGORIES
    kind = declared.get("kind", "categorical" if feature is None and few else "numeric")
    listed = declared.get("categories") or (column.distinct if kind == "categorical" else ())
    return {
        "name": column.name,
        "role": role,
        "kind": kind,
        "categories": "\n".join(listed),
        "missing": declared.get("missing", "reject"),
        "fill": _typed(declared.get("fill")),
        "scale": _typed(federation.get("scale", {}).get(column.name)),
        "edges": _typed(fairness.get("edges", {}).get(column.name)),
        "labels": _pair_lines(federation.get("labels", {}).get(column.name, {})),
    }


def _pair_lines(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{name} = {text}" for name, text in pairs.items())


def _typed(value: Any) -> str:
    """A number without a needless fraction; a list with commas."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_typed, value))
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _facts(column: Column) -> str:
    kind = "numbers" if column.numeric else "texts"
    distinct = len(column.distinct)
    many = f"more than {distinct}" if column.many else str(distinct)
    gaps = f", {max(column.missing / column.rows, 0.001):.1%} empty" if column.missing else ""
    return f"{kind}, {many} different{gaps}"


def _sample(column: Column) -> str:
    """Some values; of many numbers where they begin and end."""
    if column.numeric and len(column.distinct) > _SAMPLE:
        low, middle, high = (column.quantile(share) for share in (0.0, 0.5, 1.0))
        return f"{low:g} to {high:g}, median {middle:g}"
    shown = [value[:_LONGEST] for value in column.distinct[:_SAMPLE]]
    return ", ".join(shown) + (" …" if len(column.distinct) > _SAMPLE else "")


def typed_registration(typed: Mapping[str, str]) -> TypedRegistration:
    """The registration that the texts describe. Only lines without meaning are refused."""
    made = TypedRegistration({"name": typed.get("name", "")}, dict(_PLACES))
    federation: dict[str, Any] = {"source": "table", "target": typed.get("target", "")}
    fairness: dict[str, Any] = {}
    made.value |= {"federation": federation, "fairness": fairness}
    _put_table(federation, typed)
    features: list[Any] = []
    sensitive: list[str] = []
    for column in _columns(typed):
        _put_labels(made, column)
        _put_scale(made, column, used=column["name"] == federation["target"])
        if column["name"] in (typed.get("client_key", ""), federation["target"]):
            continue
        if column["role"] in FEATURES:
            where = pointer("federation", "features", len(features))
            made.places |= {where: column.at("role")}
            made.places |= {f"{where}/{part}": column.at(part) for part in _OF_FEATURES}
            features.append(_feature(column))
        if column["role"] in SENSITIVE:
            made.places[pointer("fairness", "sensitive", len(sensitive))] = column.at("role")
            sensitive.append(column["name"])
            if edges := parts(column["edges"]):
                fairness.setdefault("edges", {})[column["name"]] = list(map(number, edges))
                made.places[pointer("fairness", "edges", column["name"])] = column.at("edges")
    federation["features"] = features
    _put_joins(made, typed, sensitive)
    if sensitive:
        fairness["sensitive"] = sensitive
    if op := typed.get("rule_op", ""):
        rule = rule_of(op, typed.get("rule_value", ""))
        if label := typed.get("rule_label"):
            rule["label"] = label
        fairness["favourable"] = rule
    return made


def _put_table(federation: dict[str, Any], typed: Mapping[str, str]) -> None:
    if typed.get("header"):
        federation["header"] = False
    if key := typed.get("client_key"):
        federation["client_key"] = key
        if typed.get("missing_client"):
            federation["missing_client"] = "drop-row"
    else:
        clients = number(typed.get("clients", ""))
        federation["partition"] = {"method": "iid", "clients": clients}
    if typed.get("missing_target"):
        federation["missing_target"] = "drop-row"
    if positive := typed.get("positive"):
        federation["positive"] = positive
    if texts := parts(typed.get("missing_values", "")):
        federation["missing_values"] = texts


_PLACES = {
    "/name": "name",
    "/federation/client_key": "client_key",
    "/federation/partition": "clients",
    "/federation/missing_client": "missing_client",
    "/federation/target": "target",
    "/federation/positive": "positive",
    "/federation/missing_target": "missing_target",
    "/federation/missing_values": "missing_values",
    "/federation/features": of_column(0, "role"),
    "/fairness/favourable": "rule_value",
    "/fairness/favourable/op": "rule_op",
    "/fairness/favourable/label": "rule_label",
    "/fairness/sensitive": of_column(0, "role"),
}


def _columns(typed: Mapping[str, str]) -> Iterator[_Typed]:
    place = 0
    while of_column(place, "name") in typed:
        yield _Typed(typed, place)
        place += 1


def _feature(column: _Typed) -> str | dict[str, Any]:
    feature: dict[str, Any] = {"name": column["name"]}
    numeric = column["kind"] == "numeric"
    if not numeric:
        lines = [line.strip() for line in column["categories"].splitlines()]
        feature |= {"kind": column["kind"], "categories": [line for line in lines if line]}
    if column["missing"] not in ("", "reject"):
        feature["missing"] = column["missing"]
    if column["missing"] == "constant" and column["fill"]:
        feature["fill"] = number(column["fill"]) if numeric else column["fill"]
    return feature if len(feature) > 1 else column["name"]


def _put_scale(made: TypedRegistration, column: _Typed, *, used: bool) -> None:
    """A divisor counts for numeric features, and for the target."""
    counts = used or (column["role"] in FEATURES and column["kind"] == "numeric")
    if counts and column["scale"]:
        made.value["federation"].setdefault("scale", {})[column["name"]] = number(column["scale"])
        made.places[pointer("federation", "scale", column["name"])] = column.at("scale")


def _put_labels(made: TypedRegistration, column: _Typed) -> None:
    where = pointer("federation", "labels", column["name"])
    made.places[where] = column.at("labels")
    if labels := _pairs(made, column["labels"], where, wanted="CODE = LABEL"):
        made.value["federation"].setdefault("labels", {})[column["name"]] = labels


def _put_joins(made: TypedRegistration, typed: Mapping[str, str], sensitive: list[str]) -> None:
    place = 0
    while (attribute := typed.get(of_join(place, "name"))) is not None:
        where = pointer("federation", "join", attribute)
        made.places[where] = of_join(place, "columns")
        made.places[f"{where}/none"] = of_join(place, "none")
        if typed.get(of_join(place, "use")):
            lines = typed.get(of_join(place, "columns"), "")
            joined: dict[str, Any] = {"columns": _pairs(made, lines, where, "COLUMN = GROUP")}
            if rest := typed.get(of_join(place, "none")):
                joined["none"] = rest
            made.value["federation"].setdefault("join", {})[attribute] = joined
            used = pointer("fairness", "sensitive", len(sensitive))
            made.places[used] = of_join(place, "use")
            sensitive.append(attribute)
        place += 1


def _pairs(made: TypedRegistration, typed: str, where: str, wanted: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, typed.splitlines())):
        name, mark, text = (part.strip() for part in line.partition("="))
        if not (mark and name and text):
            made.faults.append(FieldError(where, f"{line[:80]!r} has no meaning; write {wanted}"))
        elif name in found:
            made.faults.append(FieldError(where, f"{name!r} is on two lines; keep one"))
        else:
            found[name] = text
    return found


def faults_at(
    errors: Sequence[FieldError],
    made: TypedRegistration,
    typed: Mapping[str, str],
    columns: Sequence[Column],
) -> list[Fault]:
    """The faults, each beside the nearest field; what the first rows show as well, so that all are
    said at once."""
    found = []
    for one in errors:
        around = [where for where in made.places if is_within(one.pointer, where)]
        place = made.places[max(around, key=len)] if around else None
        found.append(Fault(one.pointer, _in_words(one.message, typed.get(place or "", "")), place))
    positive, known = typed.get("positive", ""), {one.name: one for one in columns}
    target = known.get(typed.get("target", ""))
    said = any(one.place == "positive" for one in found)
    if (
        positive
        and not said
        and target is not None
        and not (target.many or positive in target.values)
    ):
        message = f"no row of {target.name!r} holds {positive!r}; it holds {_sample(target)}"
        message += did_you_mean(positive, target.distinct)
        found.append(Fault("/federation/positive", message, "positive"))
    return found


def _in_words(message: str, typed: str) -> str:
    """The message of a number that was typed otherwise, in the words of a form."""
    if "at least 1 character" in message:
        return "is empty"
    if "without quotes" not in message:
        return message.replace("Input should", "must")
    if _COMMA.fullmatch(typed):
        return f"has a comma; write {typed.replace(',', '.')} with a point"
    return f"{typed!r} is no number"
