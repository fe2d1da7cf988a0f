"""The rows of a comparison: one figure of all experiments for which it means the same."""

from collections.abc import Sequence
from typing import NamedTuple

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.reports.comparison.parts import Cell, FigureRow
from fedaudit.reports.figures import COUNTED, ReportFigure, Section, figures_of
from fedaudit.reports.readings.document_fields import text_at
from fedaudit.reports.report import Report
from fedaudit.reports.sections.guarantee import is_unbounded

_SECTIONS = ("privacy", "utility", "fairness")
_Name = tuple[Section, str, str | None]
_LOSSES = ("validation_loss", "loss_difference", "loss_ratio")


class _Meaning(NamedTuple):
    """What two figures must share to stand in one row."""

    section: Section
    figure: str
    attribute: str | None
    observer: str | None
    delta: float | None
    adjacency: str | None
    unit: str | None
    guarantee: GuaranteeKind | None
    loss: str | None

    @property
    def name(self) -> _Name:
        """Section, figure and attribute: the name of a figure, regardless of its meaning."""
        return self.section, self.figure, self.attribute


def figure_rows(reports: Sequence[Report]) -> list[FigureRow]:
    """The rows: privacy, utility, then fairness by attribute."""
    found = [{_meaning(report, one): one for one in figures_of(report)} for report in reports]
    by_figure: dict[_Name, list[_Meaning]] = {}
    for meaning in dict.fromkeys(one for figures in found for one in figures):
        by_figure.setdefault(meaning.name, []).append(meaning)
    rows = []
    for name in sorted(by_figure, key=lambda one: _SECTIONS.index(one[0])):
        meanings = by_figure[name]
        valued = [one for one in meanings if any(_has_value(figures, one) for figures in found)]
        # Where no experiment has a value, a single row states every reason.
        rows += [_row(one, reports, found) for one in valued or meanings[:1]]
    return rows


def _meaning(report: Report, one: ReportFigure) -> _Meaning:
    guaranteed = one.section == "privacy" and one.figure not in COUNTED
    return _Meaning(
        section=one.section,
        figure=one.figure,
        attribute=one.attribute,
        observer=one.observer,
        delta=one.delta,
        adjacency=one.adjacency,
        unit=report.guarantee.unit if guaranteed else None,
        guarantee=report.guarantee.kind if guaranteed else None,
        loss=text_at(report.spec, "training", "loss") if one.figure in _LOSSES else None,
    )


def _has_value(figures: dict[_Meaning, ReportFigure], meaning: _Meaning) -> bool:
    return meaning in figures and figures[meaning].value is not None


def _row(
    meaning: _Meaning, reports: Sequence[Report], found: Sequence[dict[_Meaning, ReportFigure]]
) -> FigureRow:
    cells = [
        _cell(meaning, report, figures) for report, figures in zip(reports, found, strict=True)
    ]
    differs = len({(cell.value, cell.unbounded) for cell in cells}) > 1
    return FigureRow(**meaning._asdict(), cells=cells, differs=differs)


def _cell(meaning: _Meaning, report: Report, figures: dict[_Meaning, ReportFigure]) -> Cell:
    found = _stated(meaning, report, figures)
    if found.value is None and is_unbounded(report.guarantee.kind, meaning.figure):
        return found.model_copy(update={"unbounded": True})
    return found


def _stated(meaning: _Meaning, report: Report, figures: dict[_Meaning, ReportFigure]) -> Cell:
    if (own := figures.get(meaning)) is not None:
        return Cell(value=own.value, reason=own.reason, interval=own.interval)
    same = [one for one in figures if one.name == meaning.name]
    stated = [figures[one].reason for one in same if figures[one].value is None]
    if stated:
        return Cell(value=None, reason=stated[0])
    if not same:
        return Cell(value=None, reason=_absent(meaning, report))
    return Cell(value=None, reason=_otherwise(meaning, same))


def _absent(meaning: _Meaning, report: Report) -> str:
    if meaning.attribute is None:
        return f"its report, of version {report.report_version}, has no such figure"
    measured = any(section.attribute == meaning.attribute for section in report.fairness)
    if measured:
        return "its report was made before this figure was computed"
    return f"{meaning.attribute!r} is not one of its sensitive attributes"


def _otherwise(meaning: _Meaning, same: Sequence[_Meaning]) -> str:
    """How an experiment's figures of this name differ in meaning from the row's."""
    nearest = next((one for one in same if one.observer == meaning.observer), None)
    if nearest is None:
        against = observer_words(meaning.observer or "all observers")
        return f"it has no such figure against {against}"
    stated = [
        f"{name} is {of_it:g}" if isinstance(of_it, float) else f"{name} is {of_it}"
        for name, of_row, of_it in zip(meaning._fields, meaning, nearest, strict=True)
        if of_row != of_it
    ]
    return f"it stands in a row of its own: its {', its '.join(stated)}"
