"""The tables of one attribute on the report's page: gaps and rates.

A table omits columns that are empty.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.fairness.gaps import OF_SELECTION
from fedaudit.number_text import FigureTable, figure_text, interval_text
from fedaudit.reports.verdict.worst_off import gap_sentence, headline_metric
from fedaudit.spec.metrics import RATES

Section = Mapping[str, Any]

_LONG_NOTE = 20
_SCORES = {"accuracy": "Accuracy", "auc": "AUC", "loss": "Loss"}


@dataclass(frozen=True)
class FairnessTables:
    """The tables of all attributes, with the notes that they share."""

    by_section: list[list[FigureTable]]
    notes: Mapping[str, str]
    """Notes by the mark that rows carry; each is stated once for all tables."""


def fairness_tables(
    sections: Sequence[Section], *, said_of: Section | None = None
) -> FairnessTables:
    """The tables of a report's fairness sections. `said_of`: the section whose gap the verdict
    states."""

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
    return FairnessTables(
        by_section=[[_marked(table, marks) for table in tables] for tables in found],
        notes={mark: note for note, mark in marks.items()},
    )


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
