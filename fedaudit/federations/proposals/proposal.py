"""A registration proposed for a table, with the reason of every guess."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedaudit.federations.errors import error_at
from fedaudit.federations.proposals.column_roles import (
    MAX_CLASS_VALUES,
    client_candidates,
    good_class,
    sensitive_word,
    target_candidates,
)
from fedaudit.federations.proposals.feature_guesses import guess_feature, power_above, usable_name
from fedaudit.federations.proposals.group_guesses import guess_attribute, joinable_columns
from fedaudit.federations.proposals.surveyed_columns import Column, Survey
from fedaudit.spec.errors import pointer
from fedaudit.spec.registration import parse_uploaded

_MADE_UP_CLIENTS = 100


@dataclass(frozen=True)
class Proposal:
    """What a person is to read, correct and register."""

    registration: dict[str, Any]
    guesses: dict[str, str]
    """Why each field says what it says, by the field's pointer."""
    candidates: dict[str, list[str]]
    """Columns that may be `client_key`, `target` or `sensitive`, the likeliest first."""
    left_out: dict[str, str]
    """Why a column is no feature."""
    codes: dict[str, list[str]]
    """By column, the codes of groups and classes that need labels."""
    joinable: dict[str, dict[str, str]]
    """Attributes that several columns seem to hold together: each column, and its group."""
    rows: int
    complete: bool
    """Whether all rows were read."""


@dataclass
class _Draft:
    survey: Survey
    federation: dict[str, Any]
    fairness: dict[str, Any] = field(default_factory=dict)
    guesses: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    codes: dict[str, list[str]] = field(default_factory=dict)


def propose(
    survey: Survey,
    *,
    name: str,
    header: bool = True,
    client_key: str | None = None,
    target: str | None = None,
) -> Proposal:
    """A registration of an uploaded table that parses as it is.

    `client_key`, `target`: the columns, where they are known. Raises InvalidInputError where such a
    column is lacking, or no column can be the target.
    """
    known = {column.name: column for column in survey.columns if usable_name(column.name)}
    clients = _first(client_key, client_candidates(list(known.values())), known, "client_key")
    others = [column for column in known.values() if column not in clients[:1]]
    targets = _first(target, target_candidates(others), known, "target")
    if not targets:
        raise error_at(
            "/federation/target", "no column can be a target; a target has two values or more"
        )
    draft = _Draft(survey, {"source": "table"})
    if not header:
        draft.federation["header"] = False
    _put_clients(draft, clients)
    _put_target(draft, targets[0])
    used = {targets[0].name, *(column.name for column in clients[:1])}
    rest = [column for column in known.values() if column.name not in used]
    sensitive = _put_sensitive(draft, rest)
    rest = [column for column in rest if column.name not in sensitive]
    _put_features(draft, rest, targets)
    _put_missing_values(draft)
    registration = {"name": name, "federation": draft.federation, "fairness": draft.fairness}
    parse_uploaded(registration, file_name="data.csv")
    return Proposal(
        registration=registration,
        guesses=draft.guesses,
        candidates={
            "client_key": [column.name for column in clients],
            "target": [column.name for column in targets],
            "sensitive": sensitive,
        },
        left_out=draft.left_out,
        codes=draft.codes,
        joinable=joinable_columns(list(known.values())),
        rows=survey.rows,
        complete=survey.complete,
    )


def _first(
    chosen: str | None, candidates: list[Column], known: Mapping[str, Column], what: str
) -> list[Column]:
    """The candidates, the chosen one before them."""
    if chosen is None:
        return candidates
    if chosen not in known:
        raise error_at(pointer("federation", what), f"the file has no column {chosen!r}")
    return [known[chosen], *(column for column in candidates if column.name != chosen)]


def _put_clients(draft: _Draft, clients: list[Column]) -> None:
    if not clients:
        most = max(2, min(_MADE_UP_CLIENTS, draft.survey.rows // 10))
        draft.federation["partition"] = {"method": "iid", "clients": most}
        draft.guesses["/federation/partition"] = (
            "no column looks as if it named clients, so rows are dealt to made-up ones; better "
            "name a column as `client_key`"
        )
        return
    key, *others = clients
    draft.federation["client_key"] = key.name
    also = f"; others might: {', '.join(one.name for one in others)}" if others else ""
    draft.guesses["/federation/client_key"] = (
        f"a guess by its name: {len(key.distinct)} values in {key.rows} rows{also}"
    )
    _put_rule(draft, key, "missing_client")


def _put_target(draft: _Draft, target: Column) -> None:
    draft.federation["target"] = target.name
    why = "a guess by its name, or as the last column"
    classes = target.distinct
    if _is_number(target):
        draft.guesses["/federation/target"] = f"{why}: a number"
        draft.guesses["/fairness/favourable"] = (
            "say which numbers are good for people, as favourable: {op: ge, value: 25000}"
        )
    else:
        draft.guesses["/federation/target"] = f"{why}: {len(classes)} classes"
        if target.numeric:
            draft.codes[target.name] = classes
    _put_rule(draft, target, "missing_target")
    if len(classes) == 2:
        positive, reason = good_class(target)
        draft.federation["positive"] = positive
        draft.guesses["/federation/positive"] = (
            f"a guess at the class that is good for people, whose rates are compared: {reason}"
        )
    elif "/fairness/favourable" not in draft.guesses:
        draft.guesses["/fairness/favourable"] = (
            "say which classes are good for people, as favourable: {op: in, value: [a, b]}"
        )


def _put_rule(draft: _Draft, column: Column, field_name: str) -> None:
    if column.missing:
        draft.federation[field_name] = "drop-row"
        draft.guesses[f"/federation/{field_name}"] = f"{column.missing} rows are left out by it"


def _put_sensitive(draft: _Draft, columns: list[Column]) -> list[str]:
    """The columns that are no features because they seem sensitive."""
    found: list[str] = []
    edges: dict[str, list[float]] = {}
    for column in columns:
        word = sensitive_word(column)
        if word is None:
            continue
        guess = guess_attribute(column, word)
        if guess.groups is None:
            draft.left_out[column.name] = guess.reason
            continue
        found.append(column.name)
        place = len(found) - 1
        draft.guesses[pointer("fairness", "sensitive", place)] = guess.reason
        if guess.edges is not None:
            edges[column.name] = list(guess.edges)
            draft.guesses[pointer("fairness", "edges", column.name)] = (
                "a guess: choose edges that mean something for these people"
            )
        elif column.numeric:
            draft.codes[column.name] = list(guess.groups)
    if found:
        draft.fairness["sensitive"] = found
    if edges:
        draft.fairness["edges"] = edges
    return found


def _put_features(draft: _Draft, columns: list[Column], targets: list[Column]) -> None:
    outcomes = {column.name for column in targets[1:]}
    features: list[Any] = []
    scale = _scale_of_target(targets[0])
    for column in columns:
        if column.name in draft.left_out:
            continue
        if column.name in outcomes:
            draft.left_out[column.name] = "it looks like another outcome, and may give it away"
            continue
        guess = guess_feature(column)
        if guess.feature is None:
            draft.left_out[column.name] = guess.reason
            continue
        if guess.reason:
            draft.guesses[pointer("federation", "features", len(features))] = guess.reason
        if guess.scale is not None:
            scale[column.name] = guess.scale
        features.append(guess.feature)
    if not features:
        raise error_at(
            "/federation/features",
            "no column can be a feature: all others are sensitive, empty, constant, or texts of "
            "many values",
        )
    draft.federation["features"] = features
    if scale:
        draft.federation["scale"] = scale
        draft.guesses["/federation/scale"] = (
            "powers of ten above the file's largest values, of the target above its usual ones; "
            "better take public constants"
        )


def _is_number(target: Column) -> bool:
    return target.many or len(target.distinct) > MAX_CLASS_VALUES


def _scale_of_target(target: Column) -> dict[str, float]:
    """A divisor of a target that is a number: steps of training are too small for thousands."""
    if not _is_number(target):
        return {}
    power = power_above(target.usual)
    return {target.name: power} if power > 1 else {}


def _put_missing_values(draft: _Draft) -> None:
    used = {draft.federation["target"], draft.federation.get("client_key")}
    used |= set(draft.fairness.get("sensitive", []))
    used |= {one if isinstance(one, str) else one["name"] for one in draft.federation["features"]}
    columns = [column for column in draft.survey.columns if column.name in used]
    texts = sorted({text for column in columns for text in column.gaps})[:20]
    if texts:
        draft.federation["missing_values"] = texts
        draft.guesses["/federation/missing_values"] = "these texts seem to mean an empty cell"
