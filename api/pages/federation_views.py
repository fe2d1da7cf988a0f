"""A federation as its page shows it: groups as shares, budgets as bars."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from api.pages.wording import figure
from api.schemas.federations import BudgetBody, DisclosureBody
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.sections.outcome_words import labels_of_spec
from fedaudit.spec.fairness import GroupRule, Rule
from fedaudit.spec.labels import label_of


@dataclass(frozen=True)
class Group:
    """One group, or one class. `rows` is None where it is too small to be shown."""

    name: str
    rows: int | None
    share: float | None
    """Of all rows."""
    base_rate: float | None = None


@dataclass(frozen=True)
class AttributeView:
    """A sensitive attribute's groups."""

    name: str
    of: str
    """Whom it belongs to: `client` or `record`."""
    groups: list[Group]
    missing: int
    has_rates: bool
    reasons: Mapping[str, str]


@dataclass(frozen=True)
class BudgetView:
    """A budget, with its parts as shares of its total."""

    budget: BudgetBody
    key: str
    """Distinguishes budgets on one page; letters, digits and `-`."""
    title: str
    detail: str
    parts: list[tuple[str, float]] | None
    """None where no total is set."""
    over: bool
    """Whether more was spent than the total, which may have been lowered later."""


def attribute_views(profile: Mapping[str, Any], registration: Any) -> list[AttributeView]:
    """The sensitive attributes of a profile, their groups called what the registration calls
    them."""
    views, labels = [], labels_of_spec(registration)
    for name, found in profile.get("attributes", {}).items():
        rates = found["base_rates"]
        groups = _groups(found["groups"], profile["rows"], rates, labels.get(name, {}))
        views.append(
            AttributeView(
                name=name,
                of=found["of"],
                groups=groups,
                missing=found["missing"],
                has_rates=any(rate is not None for rate in rates.values()),
                reasons=found["reasons"],
            )
        )
    return views


def class_views(profile: Mapping[str, Any], registration: Any) -> list[Group]:
    """The classes of a profile's target; none where it is a number."""
    labels = labels_of_spec(registration).get(profile.get("target", ""), {})
    return _groups(profile.get("class_balance") or {}, profile.get("rows", 0), {}, labels)


def budget_view(budget: BudgetBody, number: int) -> BudgetView:
    """One budget; `number` is its place on the page."""
    title, detail = _wording(budget)
    over = budget.total is not None and budget.spent > budget.total
    parts = None
    if budget.total is not None:
        parts = _parts(budget, budget.total, over=over)
    return BudgetView(budget, f"budget-{number}", title, detail, parts, over)


def disclosure_lines(body: DisclosureBody) -> list[tuple[str, str]]:
    """What binds whoever looks at the federation's groups: what of, and what is demanded."""
    policy, floor = body, body.floor
    size, clients = (
        max(policy.minimum_group_size or 1, floor.minimum_group_size),
        max(policy.minimum_group_clients or 1, floor.minimum_group_clients),
    )
    lines = [("Rows of a group", f"{size} or more"), ("Clients of a group", f"{clients} or more")]
    if policy.edges is not None:
        cuts = [f"{name} at {', '.join(map(figure, at))}" for name, at in policy.edges.items()]
        lines.append(("Edges", "; ".join(cuts) or "no attribute is cut"))
    if policy.favourable is not None:
        rules = policy.favourable if isinstance(policy.favourable, list) else [policy.favourable]
        lines.append(("Favourable outcome", "; ".join(map(_rule, rules))))
    for title, named in (
        ("Sensitive attributes", policy.sensitive),
        ("Combinations", _joined(policy.intersections)),
    ):
        if named is not None:
            lines.append((title, ", ".join(named) or "none"))
    if policy.split is not None:
        split = policy.split
        of = {"client": "clients", "record": "every client's rows"}[split.validation_unit]
        share = f"{figure(split.validation_fraction)} of {of}, drawn by seed {split.seed}"
        lines.append(("Held out", f"{share}; scoring {split.scoring.method}"))
    if policy.source is not None:
        lines.append(("Columns and clients", "as registered"))
    return lines


def _joined(combinations: list[list[str]] | None) -> list[str] | None:
    return None if combinations is None else [" + ".join(parts) for parts in combinations]


def _rule(rule: Rule | GroupRule) -> str:
    words = {"ge": "at least", "le": "at most", "in": "one of"}[rule.op]
    value = ", ".join(map(str, rule.value)) if isinstance(rule.value, list) else rule.value
    of = "".join(f" for {name} {group}" for name, group in getattr(rule, "group", {}).items())
    return f"{words} {value}{of}"


def _wording(budget: BudgetBody) -> tuple[str, str]:
    """The title of a budget and what it is of."""
    match budget.figure:
        case "epsilon":
            return (
                f"Epsilon against {observer_words(budget.observer or '')}",
                f"of (epsilon, delta)-differential privacy; neighbours: "
                f"{adjacency_words(budget.adjacency or '')}",
            )
        case "leakage":
            return "Leakage", f"of metric privacy, added up over releases; {_terms(budget)}"
        case "log_ratio":
            return (
                "Log-ratio by the theorem",
                "of metric privacy, between any two datasets that choose alike; added up over "
                "releases of any radius and clip",
            )
        case _:
            assert_never(budget.figure)


def _terms(budget: BudgetBody) -> str:
    """The radius and the clip of a leakage."""
    match budget.radius:
        case None:
            return "radius and clip not recorded, so it counts no run: set a total again"
        case "adaptive":
            radius = "adaptive radius"
        case distance:
            radius = f"radius {distance:g}"
    return f"{radius}, {'no clip' if budget.clip is None else f'clip {budget.clip:g}'}"


def _parts(budget: BudgetBody, total: float, *, over: bool) -> list[tuple[str, float]]:
    if over:
        return [("over", 1.0)]
    return [("spent", budget.spent / total), ("held", budget.reserved / total)] if total else []


def _groups(
    rows: Mapping[str, int | None],
    total: int,
    rates: Mapping[str, float | None],
    labels: Mapping[str, str],
) -> list[Group]:
    return [
        Group(
            name=name if (label := label_of(labels, name)) is None else f"{label} ({name})",
            rows=count,
            share=None if count is None else count / max(total, 1),
            base_rate=rates.get(name),
        )
        for name, count in rows.items()
    ]
