"""Compare several reports: their figures, differences between their specs, and Pareto fronts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

from fedaudit.reports.checks import leaves
from fedaudit.reports.comparison.fronts import (
    Caution,
    Cell,
    ComparedExperiment,
    ComparedGuarantee,
    Comparison,
    FigureMeaning,
    FigureName,
    FigureRow,
    SpecDifference,
    SpecValue,
    fronts,
    is_contradicted,
    warnings,
)
from fedaudit.reports.figures import COUNTED, ReportFigure, figures_of
from fedaudit.reports.gates.gate_evidence import LEAST_LEVEL
from fedaudit.reports.readings.facts import text_at
from fedaudit.reports.report import Report
from fedaudit.reports.sections.guarantee import is_unbounded
from fedaudit.spec.metrics import is_ratio


def compare_reports(
    reports: Sequence[Report], *, fairness: str | None = None, utility: str | None = None
) -> Comparison:
    """Compare several reports, in the given order. `fairness` and `utility` name the figures of the
    fronts' axes. By default a front uses the first of equalized odds, demographic parity and the
    loss gap that has a value, and accuracy where all have one, else the validation loss."""
    made, without = fronts(reports, fairness=fairness, utility=utility)
    return Comparison(
        experiments=[
            ComparedExperiment(
                **report.experiment.model_dump(exclude={"status"}),
                answer=report.answer,
                verdict=report.verdict,
                degenerate=report.utility.degenerate,
                guarantee=ComparedGuarantee(**report.guarantee.model_dump(exclude={"statement"})),
                gate_outcome=report.gate_outcome,
                gate_outcome_reason="its spec has no gates"
                if report.gate_outcome is None
                else None,
                data_fingerprint=report.provenance.data_fingerprint,
            )
            for report in reports
        ],
        figures=figure_rows(reports),
        spec_differences=spec_differences([report.spec for report in reports]),
        warnings=warnings(reports),
        fronts=made,
        without_front=without,
    )


_SECTIONS = ("privacy", "utility", "fairness")
_LOSSES = ("validation_loss", "loss_difference", "loss_ratio")


def figure_rows(reports: Sequence[Report]) -> list[FigureRow]:
    """The rows: privacy, utility, then fairness by attribute."""
    found = [{_meaning(report, one): one for one in figures_of(report)} for report in reports]
    by_figure: dict[FigureName, list[FigureMeaning]] = {}
    for meaning in dict.fromkeys(one for figures in found for one in figures):
        by_figure.setdefault(meaning.name, []).append(meaning)
    rows = []
    for name in sorted(by_figure, key=lambda one: _SECTIONS.index(one[0])):
        meanings = by_figure[name]
        valued = [
            one
            for one in meanings
            if any(one in figures and figures[one].value is not None for figures in found)
        ]
        # Where no experiment has a value, a single row states every reason.
        for meaning in valued or meanings[:1]:
            cells = [
                _cell(meaning, report, figures)
                for report, figures in zip(reports, found, strict=True)
            ]
            differs = len({(cell.value, cell.unbounded) for cell in cells}) > 1
            best = best_cell(meaning, cells, reports)
            if best is not None:
                cells[best] = cells[best].model_copy(update={"best": True})
            rows.append(FigureRow(**meaning.model_dump(), cells=cells, differs=differs))
    return rows


def _meaning(report: Report, one: ReportFigure) -> FigureMeaning:
    guaranteed = one.section == "privacy" and one.figure not in COUNTED
    return FigureMeaning(
        section=one.section,
        figure=one.figure,
        attribute=one.attribute or None,
        observer=one.observer or None,
        delta=one.delta,
        adjacency=one.adjacency,
        unit=report.guarantee.unit if guaranteed else None,
        guarantee=report.guarantee.kind if guaranteed else None,
        loss=text_at(report.spec, "training", "loss") if one.figure in _LOSSES else None,
    )


def _cell(
    meaning: FigureMeaning, report: Report, figures: dict[FigureMeaning, ReportFigure]
) -> Cell:
    unbounded = is_unbounded(report.guarantee.kind, report.guarantee.mechanism, meaning.figure)
    if (own := figures.get(meaning)) is not None:
        unbounded &= own.value is None
        return Cell(value=own.value, reason=own.reason, interval=own.interval, unbounded=unbounded)
    same = [one for one in figures if one.name == meaning.name]
    stated = [figures[one].reason for one in same if figures[one].value is None]
    if stated:
        reason = stated[0]
    elif same:
        reason = "its figure of this name means something else, and has another row"
    else:
        reason = f"{meaning.attribute!r} is not one of its sensitive attributes"
    return Cell(value=None, reason=reason, unbounded=unbounded)


_TOTALS = ("leakage_max", "log_ratio_max", "epsilon_max")
_OF_COSTS: frozenset[Caution] = frozenset({"other-radius", "other-model", "early-end"})
_OF_GAPS: frozenset[Caution] = frozenset(
    {"other-data", "other-outcome", "other-loss", "other-method"}
)


def best_cell(
    meaning: FigureMeaning, cells: Sequence[Cell], reports: Sequence[Report]
) -> int | None:
    """The place of the cell that is the best of its row beyond doubt; None where there is none.

    People choose a run by this mark, so it is rare. A run without protection, with an alarm of an
    attack or with a degenerate model is never the best. A gap is the best only where its interval
    is apart from every other; a figure without an interval is not known well enough. A cost is
    exact, and competes where its guarantee is in force. Nothing is the best where figures do not
    mean the same: on other data, for other outcomes, or within another radius.
    """
    competing = [
        place
        for place, (cell, report) in enumerate(zip(cells, reports, strict=True))
        if cell.value is not None and _may_win(meaning, report)
    ]
    refused = _OF_COSTS if meaning.section == "privacy" else _OF_GAPS
    found = warnings([reports[one] for one in competing])
    if len(competing) < 2 or any(one.code in refused for one in found):
        return None
    ranges = {place: _range(meaning, cells[place]) for place in competing}
    known = {place: found for place, found in ranges.items() if found is not None}
    if len(known) < len(ranges):
        return None
    best = min(known, key=lambda place: known[place][1])
    others = (low for place, (low, _) in known.items() if place != best)
    return best if known[best][1] < min(others) else None


def _may_win(meaning: FigureMeaning, report: Report) -> bool:
    if report.guarantee.kind == "none" or is_contradicted(report):
        return False
    if meaning.section == "privacy":
        return report.guarantee.in_force is True
    hidden = (one.doubt for one in report.fairness if one.attribute == meaning.attribute)
    return report.utility.degenerate is not True and not any(hidden)


def _range(meaning: FigureMeaning, cell: Cell) -> tuple[float, float] | None:
    """The best and the worst value that the figure may have; lower is better. None if unknown."""
    match meaning.section:
        case "privacy":
            exact = cell.value if meaning.figure in _TOTALS else None
            return None if exact is None else (exact, exact)
        case "utility":
            return None  # losses and accuracies have no interval
        case "fairness":
            if cell.interval is None or cell.interval.level < LEAST_LEVEL:
                return None
            low, high = cell.interval.low, cell.interval.high
            return (-high, -low) if is_ratio(meaning.figure) else (low, high)
        case _:
            assert_never(meaning.section)


def spec_differences(specs: Sequence[Mapping[str, Any]]) -> list[SpecDifference]:
    """The paths at which the specs differ, section by section."""
    flat = [dict(leaves(spec)) for spec in specs]
    sections = list(dict.fromkeys(name for spec in specs for name in spec))
    paths = dict.fromkeys(path for of_one in flat for path in of_one)
    differences = []
    for path in sorted(paths, key=lambda one: sections.index(one.partition(".")[0])):
        values = [SpecValue(present=path in of_one, value=of_one.get(path)) for of_one in flat]
        # Every experiment has its own name, which the comparison's head already shows.
        if path != "name" and any(one != values[0] for one in values):
            differences.append(SpecDifference(path=path, values=values))
    return differences


class DifferenceRow(NamedTuple):
    """One thing that specs say differently."""

    label: str
    """A path in the spec, with the places of lists, such as `gates[0].value`."""
    cells: tuple[str | None, ...]
    """What each spec says; None where it says nothing there."""


def difference_rows(differences: Sequence[SpecDifference]) -> list[DifferenceRow]:
    """The rows of `spec_differences`, without those that are the same everywhere."""
    rows = []
    for difference in differences:
        path = difference.path
        found = [
            (dict(_scalars(path, one.value)) or {path: "not set"}) if one.present else {}
            for one in difference.values
        ]
        for label in dict.fromkeys(label for of_one in found for label in of_one):
            cells = tuple(of_one.get(label) for of_one in found)
            if len(set(cells)) > 1:
                rows.append(DifferenceRow(label, cells))
    return rows


def _scalars(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Paths below a value and their scalars, such as `attacks[0].kind`; nulls are left out."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _scalars(f"{path}.{name}", part)
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) for one in value):
        for place, part in enumerate(value):
            yield from _scalars(f"{path}[{place}]", part)
    elif isinstance(value, list) and value:
        yield path, ", ".join(map(str, value))
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
