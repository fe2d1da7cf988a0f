"""A registration proposed for a table, with the reason of every guess.

As YAML it parses as a registration, with the reasons as comments above the fields.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import yaml

from fedaudit.federations.proposals.column_survey import (
    FEW_CODES,
    MAX_CLASS_VALUES,
    MAX_GROUP_VALUES,
    Column,
    Survey,
    alike,
    client_candidates,
    good_class,
    named,
    possible_clients,
    sensitive_word,
    spelled,
    target_candidates,
)
from fedaudit.spec.errors import error_at, no_column, pointer
from fedaudit.spec.labels import number_in
from fedaudit.spec.registration import parse_uploaded

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def commented(
    value: Mapping[str, Any], reasons: Mapping[str, str], *above: str, indent: str = ""
) -> Iterator[str]:
    """The lines of a mapping. `reasons`: by the field's JSON pointer. `above`: the names of the
    fields that the mapping is within."""
    for name, one in value.items():
        where = pointer(*above, name)
        yield from comments(reasons.get(where, ""), indent)
        start = f"{indent}{flow(name)}:"
        if isinstance(one, Mapping) and one:
            yield start
            yield from commented(one, reasons, *above, name, indent=f"{indent}  ")
        elif isinstance(one, list) and any(f"{where}/{at}" in reasons for at in range(len(one))):
            yield start
            for at, item in enumerate(one):
                yield from comments(reasons.get(f"{where}/{at}", ""), f"{indent}  ")
                yield f"{indent}  - {flow(item)}"
        else:
            yield f"{start} {flow(one)}"


def comments(text: str, indent: str = "") -> Iterator[str]:
    """A text as lines of comments; a column's name in it may hold what would end a line."""
    start = f"{indent}# "
    yield from wrap(" ".join(text.split()), 100, initial_indent=start, subsequent_indent=start)


def flow(value: Any) -> str:
    """A value on one line; a text is quoted unless it is a plain word for every reader of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(name)}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float):
        # JSON writes 1e-05, which YAML 1.1 takes for a text.
        return str(int(value)) if value.is_integer() else yaml.safe_dump(value).split()[0]
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


MAX_CATEGORIES = 50
_FEW_GAPS, _MANY_GAPS = 0.05, 0.5
_USABLE = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


def usable_name(text: str) -> bool:
    """Whether a registration can name a column, or a category, so."""
    return bool(_USABLE.fullmatch(text))


def _why_no_feature(column: Column) -> str | None:
    """Why a column that is neither sensitive, client key nor target is no feature; None if it may
    be one."""
    if len(column.distinct) < 2:
        return "it has one value at most"
    if column.missing > _MANY_GAPS * column.rows:
        return f"it is empty in {column.missing} of {column.rows} rows"
    present = column.rows - column.missing
    many = column.many or len(column.distinct) > max(MAX_CATEGORIES, present / 2)
    if column.tells_apart or (many and named(column.name, "identifier") is not None):
        return "it tells single rows apart, as an identifier does"
    if not column.numeric and (column.many or len(column.distinct) > MAX_CATEGORIES):
        return f"it holds more than {MAX_CATEGORIES} different texts"
    if not (column.numeric or all(map(usable_name, column.distinct))):
        return "its texts are too long for categories"
    return None


def _feature(column: Column) -> tuple[dict[str, Any], list[str]]:
    """A feature as a registration describes it, and the reasons of what is guessed of it."""
    feature: dict[str, Any] = {"name": column.name}
    reasons = []
    if not column.numeric:
        feature |= {"kind": "categorical", "categories": column.distinct}
    share = f"{column.missing} of {column.rows} rows are empty"
    if column.missing > _FEW_GAPS * column.rows:
        fill: Any = max(column.distinct, key=lambda value: column.values[value])
        if column.numeric:
            fill = column.quantile(0.5)
        which = "the median" if column.numeric else "the commonest value"
        feature |= {"missing": "constant", "fill": fill}
        reasons.append(
            f"{share}, and too many to leave out: `fill` is {which}; better take a public one"
        )
    elif column.missing:
        feature["missing"] = "drop-row"
        reasons.append(share)
    if not column.numeric:
        if any(number_in(value) is not None for value in column.distinct):
            reasons.append("some of its texts are numbers, others are not")
        return feature, reasons
    if column.coded:
        why = "few whole numbers" if len(column.distinct) <= FEW_CODES else "some begin with 0"
        reasons.append(f"{why}: if they are codes, give `kind: categorical` and `categories`")
    if column.below_zero is not None:
        reasons.append(
            f"{column.below_zero} is its only value below 0: if it means an empty cell, name it in "
            "`missing_values`"
        )
    return feature, reasons


def power_above(size: float) -> float:
    """The power of ten that is not below a size; 1 for 0."""
    return float(10.0 ** math.ceil(math.log10(size))) if size > 0 else 1.0


_FEW_ROWS = 150
"""Rows of which a fifth, as many as are held out by default, is no group that reports show."""
_AGES = (30.0, 50.0)
_CODES = 20
_BITS = frozenset({"0", "1", "0.0", "1.0"})


def joinable_columns(columns: Sequence[Column]) -> dict[str, dict[str, str]]:
    """Attributes that columns of 0 and 1 seem to hold together: by their common beginning, each
    column and the rest of its name."""
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        start, mark, rest = column.name.rpartition("_")
        is_one_of_several = mark and rest and start and set(column.distinct) <= _BITS
        if is_one_of_several and sensitive_word(Column(start)) is not None:
            found.setdefault(start, {})[column.name] = rest
    names = {column.name for column in columns}
    return {
        start: groups
        for start, groups in found.items()
        if len(groups) > 1 and start not in names and len(set(groups.values())) == len(groups)
    }


def _edges(column: Column) -> tuple[float, ...]:
    """Round numbers that part the rows of a measurement in about three; none for codes."""
    if not column.numeric or len(column.distinct) <= _CODES:
        return ()
    low, high = column.low, column.high
    is_age = named(column.name, "age") is not None
    if is_age and low < _AGES[0] and _AGES[-1] < high:
        return _AGES
    if not (is_age or column.fractions):
        return ()
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    rounded = [round(column.quantile(share) / step) * step for share in (1 / 3, 2 / 3)]
    return tuple(dict.fromkeys(float(f"{one:.6g}") for one in rounded if low < one < high))


_MADE_UP_CLIENTS = 100
MAX_NAME_LENGTH = 200


@dataclass(kw_only=True)
class Proposal:
    """What a person is to read, correct and register."""

    registration: dict[str, Any]
    guesses: dict[str, str] = field(default_factory=dict)
    """Why each field has its value, by the field's pointer."""
    candidates: dict[str, list[str]] = field(default_factory=dict)
    """Columns that may be `client_key`, `target` or `sensitive`, the likeliest first. The HTTP
    interface answers them."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Why a column is no feature."""
    codes: dict[str, list[str]] = field(default_factory=dict)
    """Codes of groups and classes that need labels, keyed by column."""
    small: dict[str, list[str]] = field(default_factory=dict)
    """Values that reports will hide, with a large one, unless they are joined or left out, keyed by
    sensitive column."""
    joinable: dict[str, dict[str, str]]
    """Attributes that several columns seem to hold together: each column, and its group."""
    suggested: dict[str, Any] | None = None
    """A rule for `fairness.favourable`, where nothing says which outcome is good for people."""
    rows: int
    complete: bool
    """Whether all rows were read."""

    @property
    def federation(self) -> dict[str, Any]:
        """The part of the registration that says how the file is read."""
        found: dict[str, Any] = self.registration["federation"]
        return found

    @property
    def fairness(self) -> dict[str, Any]:
        """The part that names groups."""
        found: dict[str, Any] = self.registration["fairness"]
        return found


def propose(
    survey: Survey, *, name: str, client_key: str | None = None, target: str | None = None
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
    if not targets[0].distinct:
        message = f"{targets[0].name!r} is empty in every row; name another column"
        raise error_at("/federation/target", message)
    federation = {"source": "table"} | ({} if survey.header else {"header": False})
    draft = Proposal(
        registration={"name": name[:MAX_NAME_LENGTH], "federation": federation, "fairness": {}},
        joinable=joinable_columns(list(known.values())),
        rows=survey.rows,
        complete=survey.complete,
    )
    if survey.note is not None:
        draft.guesses["/federation/source"] = survey.note
    possible = [one for one in possible_clients(others) if one is not targets[0]]
    may_be = [*clients, *(one for one in possible if one not in clients)]
    _put_clients(draft, clients, may_be[:5], stated=client_key is not None)
    _put_target(draft, targets[0], stated=target is not None)
    used = {targets[0].name, *(column.name for column in clients[:1])}
    rest = [column for column in known.values() if column.name not in used]
    sensitive = _put_sensitive(draft, rest)
    others = [column for column in rest if column.name not in sensitive]
    _put_later(draft, others)
    _put_features(draft, others, targets, survey)
    _put_missing_values(draft, survey)
    draft.candidates = {
        "client_key": [column.name for column in may_be],
        "target": [column.name for column in targets],
        "sensitive": sensitive,
    }
    parse_uploaded(draft.registration, file_name="data.csv")
    return draft


def _first(
    chosen: str | None, candidates: list[Column], known: Mapping[str, Column], what: str
) -> list[Column]:
    """The candidates, the chosen one before them."""
    if chosen is None:
        return candidates
    if chosen not in known:
        raise error_at(pointer("federation", what), no_column(chosen, list(known)))
    return [known[chosen], *(column for column in candidates if column.name != chosen)]


def _put_clients(
    draft: Proposal, clients: list[Column], may_be: list[Column], *, stated: bool
) -> None:
    if not clients:
        columns = f"; of those that may: {', '.join(one.name for one in may_be)}" * bool(may_be)
        most = max(2, min(_MADE_UP_CLIENTS, draft.rows // 10))
        draft.federation["partition"] = {"method": "iid", "clients": most}
        draft.guesses["/federation/partition"] = (
            "no column looks as if it named clients, so rows are dealt to made-up ones; better "
            f"name a column as `client_key`{columns}"
        )
        return
    key, others = clients[0], may_be[1:]
    draft.federation["client_key"] = key.name
    also = f"; others might: {', '.join(one.name for one in others)}" if others else ""
    draft.guesses["/federation/client_key"] = (
        f"{'as stated' if stated else 'a guess by its name'}: {'over ' * key.many}"
        f"{len(key.distinct)} values in {key.rows} rows{also}"
    )
    _put_rule(draft, key, "missing_client")


def _put_target(draft: Proposal, target: Column, *, stated: bool) -> None:
    draft.federation["target"] = target.name
    why = "as stated" if stated else "a guess by its name, or as the last column"
    classes = target.distinct
    if _is_number(target):
        draft.guesses["/federation/target"] = f"{why}: a number"
        draft.suggested = {"op": "ge", "value": _one_digit(target.quantile(0.5))}
        draft.guesses["/fairness/favourable"] = "say so, or otherwise, which numbers are good"
    else:
        draft.guesses["/federation/target"] = f"{why}: {len(classes)} classes{alike(classes)}"
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
        draft.suggested = {"op": "in", "value": [spelled("yes", classes) or classes[-1]]}
        draft.guesses["/fairness/favourable"] = "say so, or otherwise, which classes are good"


def _put_rule(draft: Proposal, column: Column, field_name: str) -> None:
    if column.missing:
        draft.federation[field_name] = "drop-row"
        draft.guesses[f"/federation/{field_name}"] = f"{column.missing} rows are left out by it"


def _put_sensitive(draft: Proposal, columns: list[Column]) -> list[str]:
    """The columns that are no features because they seem sensitive."""
    found: list[str] = []
    cuts: dict[str, list[float]] = {}
    for column in columns:
        if (word := sensitive_word(column)) is None:
            continue
        name, groups, edges = column.name, column.distinct, _edges(column)
        by_name = f"a guess by its name (`{word}`)"
        if len(groups) < 2:
            draft.left_out[name] = f"{by_name}, but it has one value at most"
            continue
        if not edges and (column.many or len(groups) > MAX_GROUP_VALUES):
            draft.left_out[name] = (
                f"{by_name}, but it has more than {MAX_GROUP_VALUES} values; bring them into "
                "groups to compare by it"
            )
            continue
        where = pointer("fairness", "sensitive", len(found))
        found.append(name)
        if edges:
            draft.guesses[where] = f"{by_name}; a number, cut into groups by `edges`"
            cuts[name] = list(edges)
            draft.guesses[pointer("fairness", "edges", name)] = (
                "a guess: choose edges that mean something for these people"
            )
            continue
        draft.guesses[where] = f"{by_name}; {len(groups)} groups"
        if column.numeric:
            draft.codes[name] = groups
        small = [value for value in groups if column.values[value] < _FEW_ROWS]
        if small and len(small) < len(groups) - (len(small) == 1):
            draft.small[name] = small
    if found:
        draft.fairness["sensitive"] = found
        draft.guesses["/fairness/sensitive"] = (
            "no features, unless `features` names them too; what says nothing of people belongs "
            "into `features` alone"
        )
    if cuts:
        draft.fairness["edges"] = cuts
    return found


def _put_later(draft: Proposal, columns: list[Column]) -> None:
    """Leaves out what a survival table knows at the end of an observation alone."""
    if not any(named(column.name, "until") for column in columns):
        return
    for column in columns:
        if named(column.name, "until") or named(column.name, "since"):
            draft.left_out[column.name] = (
                "it seems to say when or how the observation ended, as in survival tables, and may "
                "give the outcome away"
            )


def _put_features(
    draft: Proposal, columns: list[Column], targets: list[Column], survey: Survey
) -> None:
    from fedaudit.federations.profiles.profile import giveaways

    target = targets[0]
    outcomes = {column.name for column in targets[1:]}
    chosen = []
    for column in columns:
        if column.name in draft.left_out:
            continue
        why = column.unread or _why_no_feature(column)
        if column.name in outcomes:
            why = (
                "it may be another outcome, and disclose this one; where it is known before the "
                "outcome, name it under `features`"
            )
        if why is None:
            chosen.append(column)
        else:
            draft.left_out[column.name] = why
    names = [column.name for column in chosen]
    for name in giveaways(survey.sample, target.name, names, classes=not _is_number(target)):
        draft.left_out[name] = (
            f"it alone predicts `{target.name}` almost without error: the outcome in other words, "
            "or known only after it? Otherwise name it, and list it under `leak_reviewed`"
        )
    _put_chosen(draft, [one for one in chosen if one.name not in draft.left_out], target)


def _put_chosen(draft: Proposal, chosen: list[Column], target: Column) -> None:
    """The features that are left, and their scales."""
    if not chosen:
        why = ", ".join(f"{name} ({reason})" for name, reason in [*draft.left_out.items()][:5])
        what = f"no column can be a feature; name some yourself (docs/data.md). Left out: {why}"
        raise error_at("/federation/features", what)
    features: list[str | dict[str, Any]] = []
    # Steps of training are too small for a target of thousands.
    power = power_above(target.quantile(0.5, of_sizes=True)) if _is_number(target) else 1.0
    scale = {target.name: power} if power > 1 else {}
    for place, column in enumerate(chosen):
        feature, reasons = _feature(column)
        features.append(column.name if len(feature) == 1 else feature)
        if reasons:
            draft.guesses[pointer("federation", "features", place)] = "; ".join(reasons)
        if column.numeric:
            scale[column.name] = power_above(max(-column.low, column.high))
    draft.federation["features"] = features
    if scale:
        draft.federation["scale"] = scale
        draft.guesses["/federation/scale"] = (
            "powers of ten above the file's largest values, of the target above its usual ones; "
            "better declare each feature's range, as {low: 0, high: 100}"
            f"{_declared_mean(target)}: it then learns faster"
        )


def _declared_mean(target: Column) -> str:
    """What would bring a number that is predicted near 0, as coarse as one digit of its spread."""
    if not _is_number(target):
        return ""
    low, middle, high = map(target.quantile, (0.16, 0.5, 0.84))
    deviation = _one_digit((high - low) / 2) or 1.0
    # One digit of a number that is far from 0 may be many deviations away.
    mean = float(f"{round(middle / deviation) * deviation:.12g}")
    declared = {"mean": mean, "deviation": deviation}
    return f", and of {target.name}, if as much is publicly known, {flow(declared)}"


def _one_digit(number: float) -> float:
    return float(f"{number:.1g}")


def _is_number(target: Column) -> bool:
    return target.many or len(target.distinct) > MAX_CLASS_VALUES


def _put_missing_values(draft: Proposal, survey: Survey) -> None:
    used = {draft.federation["target"], draft.federation.get("client_key")}
    used |= set(draft.fairness.get("sensitive", []))
    used |= {one if isinstance(one, str) else one["name"] for one in draft.federation["features"]}
    columns = [column for column in survey.columns if column.name in used]
    texts = sorted({text for column in columns for text in column.gaps})[:20]
    if texts:
        draft.federation["missing_values"] = texts
        draft.guesses["/federation/missing_values"] = "these texts seem to mean an empty cell"


_HEAD = (
    "Proposed from the file. Comments are reasons of guesses, and fields to take over without the "
    "#: read them, correct what is wrong, then register the table with it."
)


def proposal_yaml(proposal: Proposal) -> str:
    """The text; a field whose value is a guess carries the reason."""
    return "\n".join(_lines(proposal)) + "\n"


def _lines(proposal: Proposal) -> Iterator[str]:
    yield from comments(_HEAD)
    if not proposal.complete:
        yield from comments(
            f"Only the first {proposal.rows} rows were read: later ones may hold others, and gaps."
        )
    read = {name: part for name, part in proposal.registration.items() if name != "fairness"}
    yield from commented(read, proposal.guesses)
    yield from _stubs(proposal)
    for column, reason in proposal.left_out.items():
        yield from comments(f"no feature: {column} ({reason})", "  ")
    if not proposal.fairness:
        yield "# Name columns under `fairness.sensitive`: no column's name sounds sensitive."
        return
    yield from commented({"fairness": proposal.fairness}, proposal.guesses)
    if proposal.small:
        yield from comments(
            "Reports hide groups of few held-out people, and a large one with them. Values may be "
            "joined into one group, or left out of every figure:",
            "  ",
        )
        several = {
            name: {"other small groups": values}
            for name, values in proposal.small.items()
            if len(values) > 1
        }
        single = {name: values for name, values in proposal.small.items() if len(values) == 1}
        yield from [f"  # groups: {flow(several)}"] * bool(several)
        yield from [f"  # exclude: {flow(single)}"] * bool(single)
    if proposal.suggested is not None:
        reason = proposal.guesses["/fairness/favourable"]
        yield f"  # favourable: {flow(proposal.suggested)}   # {reason}"


def _stubs(proposal: Proposal) -> Iterator[str]:
    """Fields for a person to take over: nothing in a file says what a code means."""
    if proposal.codes:
        labels = {
            column: {code: f"what {code} means" for code in codes}
            for column, codes in proposal.codes.items()
        }
        yield f"  # labels: {flow(labels)}   # reports say these words in place of the codes"
    if proposal.joinable:
        joined = {}
        for name, groups in proposal.joinable.items():
            taken = {group.casefold() for group in groups.values()}
            rest = next(one for one in ("other", "none of these", "rest") if one not in taken)
            joined[name] = {"columns": groups, "none": rest}
        yield (
            f"  # join: {flow(joined)}   # these look like one attribute in several columns; if "
            "so, name it under `sensitive` in their place"
        )
