"""The tables of one attribute on the report's page: gaps and rates.

A table omits columns that are empty.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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

    def gaps(section: Section) -> FigureTable:
        return _gaps(section, said=section is said_of)

    found = [[gaps(one), _rates(one)] for one in sections]
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
    levels = [one["interval"]["level"] for one in section["metrics"].values() if one["interval"]]
    head = ["Metric", "Value"]
    head += [f"{figure_text(100 * levels[0])} % interval"] if levels else []
    rows = []
    for name, metric in section["metrics"].items():
        row = [name.replace("_", " "), figure_text(metric["value"])]
        row += [interval_text(metric["interval"])] if levels else []
        reasons = [metric["reason"]]
        if metric["value"] is not None:
            reasons.append(metric["interval_reason"])
        rows.append((*row, _joined(reasons)))
    return FigureTable(
        caption=f"Gaps between groups of {section['attribute']}, pooled over records",
        head=(*head, "Note"),
        rows=rows,
        remark="" if said else " ".join(filter(None, _remarks(section))),
    )


def _remarks(section: Section) -> list[str]:
    headline = headline_metric(section)
    size = gap_sentence(section, headline)
    return [
        f"{headline.replace('_', ' ').capitalize()}: {size[0].lower()}{size[1:]}" if size else "",
        gap_sentence(section, OF_SELECTION),
    ]


def _rates(section: Section) -> FigureTable:
    scores = [
        name for name in _SCORES if any(one.get(name) is not None for one in section["groups"])
    ]
    head = ["Group", *(rate.label for rate in RATES.values())]
    head += [_SCORES[name] for name in scores]
    sized = any(group.get("rows") is not None for group in section["groups"])
    head += ["Rows, with noise"] if sized else []
    rows = []
    for group in section["groups"]:
        row = [group["value"], *(_with_interval(group, name) for name in RATES)]
        row += [figure_text(group[name]) for name in scores]
        row += [figure_text(group["rows"])] if sized else []
        reasons = [group["reasons"].get(name) for name in RATES]
        reasons += [group["reasons"].get(name) for name in scores]
        rows.append((*row, _joined(reasons)))
    levels = {
        one["level"]
        for group in section["groups"]
        for one in (group.get("rate_intervals") or {}).values()
    }
    return FigureTable(
        caption=f"Rates of the groups of {section['attribute']}",
        head=(*head, "Note"),
        rows=rows,
        remark=" ".join(f"In brackets: {level:.0%} intervals, each by itself." for level in levels),
    )


def _with_interval(group: Mapping[str, Any], rate: str) -> str:
    interval = (group.get("rate_intervals") or {}).get(rate)
    shown = figure_text(group[rate])
    return shown if interval is None else f"{shown} ({interval_text(interval)})"


def _joined(reasons: Any) -> str:
    """Each reason once."""
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
