"""The figures of a report and of its rounds, under their published names.

Users of another tool see a figure's name and its value, without guarantee and verdict. So a figure
that a gate would not count without an exception has another name.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, assert_never

from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.reports.charts.line_chart import FIGURES as BY_ROUND
from fedaudit.reports.figures import COUNTED, PRIVACY, figures_of
from fedaudit.reports.report import Report
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import condition_of, is_in_force
from fedaudit.reports.sections.utility import why_not_useful

NOT_FINITE = "the value is not finite"
NOT_IN_FILE = "a report file has no figures by round; publish by the experiment's id for them"
_NO_REASON = "the report gives no reason"

_Key = tuple[str | None, str]
"""An attribute, for gaps, and a figure."""


@dataclass(frozen=True)
class PublishedFigure:
    """A finite figure at the end of a round."""

    name: str
    """Parts with slashes between, as `fairness/sex/equalized_odds_difference`. No name is another
    one's folder: some stores keep a file for each."""
    value: float
    round: int


@dataclass
class PublishedFigures:
    """What is published, and why the rest is not."""

    final: list[PublishedFigure] = field(default_factory=list)
    """The report's own figures, at the last round."""
    by_round: list[PublishedFigure] = field(default_factory=list)
    """In the order of rounds; names begin with `rounds/`."""
    missing: dict[str, str] = field(default_factory=dict)
    """Name -> reason."""


def report_figures(document: Mapping[str, Any], report: Report) -> PublishedFigures:
    """The figures of a report, with the ends of their intervals. `report` is the document parsed. A
    figure that is null or not finite is missing."""
    found = PublishedFigures()

    def add(name: str, value: float | None, reason: str | None) -> None:
        if value is None:
            found.missing[name] = reason or _NO_REASON
        else:
            found.final.append(PublishedFigure(name, float(value), report.utility.rounds))

    for figure in figures_of(report):
        name = f"{_section(document, figure.figure)}/{figure.figure}"
        if figure.attribute is not None:
            name = f"{fairness_section(document)}/{figure.attribute}/{figure.figure}"
        elif figure.observer is not None:
            name = f"{name}_{figure.observer}"
        add(name, figure.value, figure.reason)
        if figure.interval is not None and name not in found.missing:
            add(f"{name}_low", figure.interval.low, None)
            add(f"{name}_high", figure.interval.high, None)
    return found


def add_rounds(
    found: PublishedFigures,
    document: Mapping[str, Any],
    report: Report,
    *,
    rounds: Iterable[Mapping[str, Any]],
    gaps: Iterable[Mapping[str, Any]],
) -> None:
    """Add the figures of rounds, and their gaps, to those of the report. A figure that the report
    withholds or suppresses is not published round by round either. `rounds` and `gaps` are the
    service's lines."""
    withheld = {
        (figure.attribute, figure.figure): figure.reason or _NO_REASON
        for figure in figures_of(report)
        if figure.value is None
    }
    absent: dict[str, Counter[str]] = {}
    counted: Counter[str] = Counter()
    for one in chain(_of_rounds(document, rounds), _of_gaps(document, gaps)):
        counted[one.name] += 1
        why = withheld.get(one.key)
        if why is None and one.value is None:
            why = one.reason or _NO_REASON
        elif why is None and not math.isfinite(one.value):
            why = NOT_FINITE
        if why is None:
            found.by_round.append(PublishedFigure(one.name, float(one.value), one.round))
        else:
            absent.setdefault(one.name, Counter())[why] += 1
    for name, reasons in absent.items():
        missing, rounds_ = reasons.total(), counted[name]
        where = "in every round" if missing == rounds_ else f"in {missing} of {rounds_} rounds"
        found.missing[name] = f"{where}: {'; '.join(reasons)}"


class _Line(NamedTuple):
    name: str
    key: _Key
    round: int
    value: Any
    reason: str | None


def _of_rounds(document: Mapping[str, Any], rounds: Iterable[Mapping[str, Any]]) -> Iterator[_Line]:
    names = {figure: f"rounds/{_section(document, figure)}/{figure}" for figure in BY_ROUND}
    for line in rounds:
        for figure, name in names.items():
            reason = (line.get("reasons") or {}).get(figure)
            yield _Line(name, (None, figure), line["round"], line.get(figure), reason)


def _of_gaps(document: Mapping[str, Any], gaps: Iterable[Mapping[str, Any]]) -> Iterator[_Line]:
    section = fairness_section(document)
    for line in gaps:
        key = (line["attribute"], line["metric"])
        name = f"rounds/{section}/{line['attribute']}/{line['metric']}"
        yield _Line(name, key, line["round"], line["value"], line["reason"])


def _section(document: Mapping[str, Any], figure: str) -> str:
    return privacy_section(document, figure) if figure in PRIVACY else "utility"


def privacy_section(report: Mapping[str, Any], figure: str) -> str:
    """The heading of a privacy figure; `report` is a stored report. It is `privacy` only if the
    figure is proven for all datasets, the noise was secret, and no attack found evidence against
    it."""
    if figure in COUNTED or raised_alarms(report):
        return "participation" if figure in COUNTED else "privacy_contradicted"
    kind: GuaranteeKind = report["guarantee"]["kind"]
    match kind:
        case "none":
            return "privacy_none"
        case "declared":
            return "privacy_declared"
        case "heuristic":
            return "privacy_heuristic" if is_in_force(report) else "privacy_not_in_force"
        case "formal":
            if not is_in_force(report):
                return "privacy_not_in_force"
            conditional = condition_of(report, figure) is not None
            return "privacy_conditional" if conditional else "privacy"
        case _:
            assert_never(kind)


def fairness_section(report: Mapping[str, Any]) -> str:
    """The heading of gaps: the smallest gaps are those of a model that decides nothing, or is not
    shown to decide anything. Declared gaps are `fairness_declared`."""
    if report["guarantee"]["kind"] == "declared":
        return "fairness_declared"
    return "fairness" if why_not_useful(report) is None else "fairness_no_evidence"
