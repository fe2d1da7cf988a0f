"""Tables on the page of a report: of the gaps and rates of an attribute, without columns that are
empty, and of what attacks found, labelled by the figures' names; and attacks that came after the
report was signed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from fedaudit.fairness.gaps import OF_SELECTION
from fedaudit.number_text import SENTENCE, FigureTable, figure_text, interval_text
from fedaudit.reports.report import Basis, judged_later
from fedaudit.reports.sections.attacks import AttackSection
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.worst_off import gap_sentence, headline_metric
from fedaudit.spec.attacks import attack_titles
from fedaudit.spec.metrics import RATES

Section = Mapping[str, Any]

_LONG_NOTE = 20
_SCORES = {"accuracy": "Accuracy", "auc": "AUC", "loss": "Loss"}


def fairness_tables(
    sections: Sequence[Section], *, said_of: Section | None = None
) -> tuple[list[list[FigureTable]], Mapping[str, str]]:
    """The tables of a report's fairness sections; and the notes that they share, each stated once,
    by the mark that rows carry. `said_of`: the section whose gap the verdict states."""
    found = [[_gaps(one, said=one is said_of), _rates(one)] for one in sections]
    often = Counter(
        row[-1]
        for tables in found
        for table in tables
        if not table.empty
        for row in table.rows
        if len(row[-1]) > _LONG_NOTE
    )
    repeated = [note for note, rows in often.items() if rows > 1]
    marks = {note: f"note {place}" for place, note in enumerate(repeated, start=1)}
    by_section = [[_marked(table, marks) for table in tables] for tables in found]
    return by_section, {mark: note for note, mark in marks.items()}


def _marked(table: FigureTable, marks: Mapping[str, str]) -> FigureTable:
    """Replace shared notes by their marks and leave out empty columns; a table without figures
    states its reasons itself."""
    if table.empty:
        return table
    rows = [(*row[:-1], marks.get(row[-1], row[-1])) for row in table.rows]
    return replace(table, rows=rows).filled()


def _gaps(section: Section, *, said: bool) -> FigureTable:
    """The gaps by name. `said`: whether the verdict states already how large the largest is."""
    metrics, attribute = section["metrics"], section["attribute"]
    levels = [one["interval"]["level"] for one in metrics.values() if one["interval"]]
    head = ["Metric", "Value"]
    head += [f"{figure_text(100 * levels[0])} % interval"] if levels else []
    rows = []
    for name, metric in metrics.items():
        row = [name.replace("_", " "), figure_text(metric["value"])]
        row += [interval_text(metric["interval"])] if levels else []
        reasons = [metric["reason"]]
        if metric["value"] is not None:
            reasons.append(metric["interval_reason"])
        rows.append((*row, _joined(reasons)))
    caption, remarks = f"Gaps between groups of {attribute}, pooled over records", []
    if not said:
        headline = headline_metric(section)
        if size := gap_sentence(section, headline):
            words = headline.replace("_", " ").capitalize()
            remarks.append(f"{words}: {size[0].lower()}{size[1:]}")
        remarks.append(gap_sentence(section, OF_SELECTION))
    return FigureTable((*head, "Note"), rows, caption, " ".join(filter(None, remarks)))


def _rates(section: Section) -> FigureTable:
    groups, levels, rows = section["groups"], dict[float, None](), []
    scores = [name for name in _SCORES if any(one.get(name) is not None for one in groups)]
    sized = any(group.get("rows") is not None for group in groups)
    for group in groups:
        row, intervals = [group["value"]], group.get("rate_intervals") or {}
        for name in RATES:
            beside = "" if name not in intervals else f" ({interval_text(intervals[name])})"
            row.append(f"{figure_text(group[name])}{beside}")
        row += [figure_text(group[name]) for name in scores]
        row += [figure_text(group["rows"])] if sized else []
        rows.append((*row, _joined(group["reasons"].get(name) for name in (*RATES, *scores))))
        levels |= dict.fromkeys(one["level"] for one in intervals.values())
    head = ["Group", *(rate.label for rate in RATES.values())]
    head += [*(_SCORES[name] for name in scores), *(["Rows, with noise"] if sized else []), "Note"]
    remarks = [f"In brackets: {level:.0%} intervals, each by itself." for level in levels]
    caption = f"Rates of the groups of {section['attribute']}"
    return FigureTable(head, rows, caption, " ".join(remarks))


def _joined(reasons: Iterable[str | None]) -> str:
    """Each reason once."""
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


_LABELS = {
    "auc": "Area under the ROC curve (0.5 is guessing)",
    "epsilon_lower_bound": "Epsilon, at least",
    "fpr": "False accusations, at most",
    "membership_tpr_at_1pct": "Members found at 1 % of false accusations",
    "mse": "Mean squared error",
    "non_members": "Non-members",
    "nu_protecting": "Noise multiplier from which nothing was recovered",
    "psnr": "PSNR (dB)",
    "reason": "Note",
    "ssim": "Structural similarity",
    "tpr": "Members found",
    "tpr_at_fpr": "Members found at few false accusations",
}
_COMMON = frozenset({*AttackSection.model_fields, "kind", "reasons"})
_REASON = "_reason"
_NOTHING = "–"
_SMALL = 0.001
_FOUND = "What the attack found, and how it was made"


@dataclass(frozen=True)
class ShownAttack:
    """An attack on a page."""

    title: str
    section: Section
    tables: Sequence[FigureTable]


def attack_tables(attacks: Sequence[Section]) -> list[ShownAttack]:
    """The attacks of a report; those of a kind that this version does not know have its name."""
    titles, found = attack_titles(), []
    for attack in attacks:
        title, method = titles.get(attack["kind"], str(attack["kind"])), attack.get("method")
        if isinstance(method, str):  # since a report may have several attacks of one kind
            title = f"{title} ({method})"
        parts = list(_found(attack))
        rows = [one for one in parts if not isinstance(one, FigureTable)]
        tables = [one for one in parts if isinstance(one, FigureTable)]
        if rows:
            tables.insert(0, FigureTable(("Figure", "Value", "Note"), rows, _FOUND))
        found.append(ShownAttack(title, attack, tables))
    return found


def false_alarm_chance(attacks: Sequence[Section]) -> str | None:
    """The chance that any of them raises an alarm if every claim is true; None where none can.
    Attacks with e-values share one level. Earlier ones have a level each."""
    levels = [(attack.get("alarm_level") or 0.0, attack.get("e_value")) for attack in attacks]
    together = max((level for level, e_value in levels if e_value is not None), default=0.0)
    total = min(1.0, together + sum(level for level, e_value in levels if e_value is None))
    return f"{total:.2g}" if total else None


def _found(attack: Section) -> Iterator[tuple[str, str, str] | FigureTable]:
    """What an attack has beside what all have; a reason is the note of its figure."""
    reasons = attack.get("reasons")
    for name, value in attack.items():
        is_reason = name.endswith(_REASON) and name.removesuffix(_REASON) in attack
        if name in _COMMON or is_reason:
            continue
        stated = reasons.get(name) if isinstance(reasons, Mapping) else None
        note = attack.get(f"{name}{_REASON}") or stated or ""
        yield from _parts(_label(name), value, str(note))


def _parts(label: str, value: object, note: str) -> Iterator[tuple[str, str, str] | FigureTable]:
    """A figure with its note, or a table; or those of each part."""
    if _is_table(value):
        yield from _table(label, value)
    elif isinstance(value, Mapping) and not _is_interval(value):
        for part, found in value.items():
            yield from _parts(f"{label}: {_label(part).lower()}", found, "")
    elif isinstance(value, str) and len(value) > SENTENCE:
        yield label, "", value
    elif note or value not in (None, []):
        yield label, _text(value), note


def _table(caption: str, rows: Sequence[Section]) -> Iterator[FigureTable]:
    """A table, and behind it those within its rows, under what distinguishes the row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = [
        name
        for name in names
        if any(row.get(name) not in (None, [], {}) and not _is_table(row[name]) for row in rows)
    ]
    if len(shown) > 1:
        cells = [[_text(row.get(name)) for name in shown] for row in rows]
        yield FigureTable([_label(name) for name in shown], cells, caption)
    for row in rows:
        which = _which(row)
        for name, value in row.items():
            if _is_table(value):
                yield from _table(f"{caption}: {which}, {_label(name).lower()}", value)


def _which(row: Section) -> str:
    """What distinguishes a row: its words, or its first figure."""
    words = [value for value in row.values() if isinstance(value, str) and len(value) <= SENTENCE]
    if words:
        return ", ".join(words)
    first, value = next(iter(row.items()))
    return f"{_label(first).lower()} {_text(value)}"


def _label(name: str) -> str:
    words = name.replace("_", " ")
    return _LABELS.get(name, words[:1].upper() + words[1:])


def _is_table(value: object) -> TypeGuard[list[Section]]:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)
    )


def _is_interval(value: object) -> bool:
    return isinstance(value, Mapping) and {"low", "high"} <= value.keys()


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        level = f" ({value['level'] * 100:g} %)" if "level" in value else ""
        return f"{interval_text(value)}{level}" if _is_interval(value) else _parts_text(value)
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value) or _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        # A delta of 0.00001 is no figure that "less than 0.001" would do for.
        return f"{value:.4g}" if 0 < abs(value) < _SMALL else figure_text(value)
    return _NOTHING if value is None else str(value)


def _parts_text(parts: Section) -> str:
    if "value" in parts:
        value, interval = parts["value"], parts.get("interval")
        if value is None:
            return str(parts.get("reason") or _NOTHING)
        beside = f" ({_text(interval)})" if interval is not None else ""
        return f"{_text(value)}{beside}"
    return ", ".join(f"{_label(name).lower()} {_text(one)}" for name, one in parts.items())


BASIS_WORDS: dict[Basis, str] = {
    "repeated": "The run was repeated from its spec, and its ledger came out the same.",
    "stored-model": "The stored hypotheses of the run were attacked.",
    "companions": "Runs beside it were attacked, by the code of that day: its noise cannot be "
    "drawn again.",
}


def after_attempts(
    report: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """How a report has to be judged after requests for attacks: whether the model may be released
    now and what the verdict says of that, the gates that are judged otherwise than in the report,
    and the chance of any false alarm, in its attacks and all of these. None without a request.

    Each of `attempts` has what the page says of it, its `basis`, the `reason` why not everything
    was tried, and the `sections` of its attacks, none where nothing was tried.
    """
    if not attempts:
        return None
    sections = [section for one in attempts for section in one["sections"]]
    judged = judged_later(report, sections)
    return {
        "attempts": [{**one, "attacks": attack_tables(one["sections"])} for one in attempts],
        "alarms": sum(section.get("alarm") is not None for section in sections),
        "answer": answer_of(judged),
        "release": (judged.get("verdict_parts") or {}).get("release"),
        "gates": [gate for gate in judged["gates"] if gate not in report["gates"]],
        "false_alarm_chance": false_alarm_chance(judged.get("attacks") or []),
    }
