"""Rates and impact ratios per category, as tabulated in a bias audit under Local Law 144.

New York City's rules (6 RCNY 5-300 and 5-301): the selection rate of a category is the share of it
that is selected, its scoring rate the share that scores above the sample's median, and its impact
ratio that rate over the highest one. Audits state how many belong to no known category and which
categories were omitted as too small. Four fifths is the threshold of 29 CFR 1607.4 (D); the local
law itself sets none.
"""

from datetime import date
from typing import Literal

from fedaudit.fairness.gaps import is_below_four_fifths
from fedaudit.reports.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.facts import (
    Document,
    ReportName,
    number_at,
    parts_at,
    report_name,
    text_at,
    texts_at,
)
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.sections.part import Part, Share

NOTICE = (
    "A table of figures, not legal advice and no bias audit: the law asks for an independent "
    "auditor and for data of the tool's own use. No outcome of it means compliance or a breach."
)
_WHICH_ROWS = {
    False: "Rates come from rows held out of training, pooled over clients: test data, not the "
    "history of a tool in use.",
    True: "Rates come from the rows of the audited table. Whether they were held out of training, "
    "and whether they are of the tool's use, is not known here.",
}
"""By whether the report is of an audit of predictions, which has no training."""

Reading = Literal["below four fifths", "at least four fifths"]


class ImpactRatioCategory(Part):
    """One row of a table; a suppressed category shows its name alone."""

    category: str
    """The group's label, or its code where it has none."""
    value: str | None
    """The code in the data."""
    suppressed: bool
    rate: Share | None
    impact_ratio: Share | None
    """The rate over the highest rate among the categories that are shown."""
    four_fifths: Reading | None
    reason: str | None


class ImpactRatioTable(Part):
    """The categories of one attribute."""

    attribute: str
    intersection_of: list[str] | None
    """The attributes whose combinations these are; None for a single attribute."""
    categories: list[ImpactRatioCategory]
    highest_rate: Share | None
    below_four_fifths: int
    suppressed_categories: int
    missing_rows: int | None
    """Rows of the whole federation without a value; None where the report does not state it."""


class ImpactRatioReading(Part):
    """A report's rates as tables of impact ratios."""

    reading: Literal["impact-ratio"] = "impact-ratio"
    report: ReportName
    notice: str
    rate: Literal["selection", "scoring"] | None
    """Selection for a classifier, scoring for a numeric target."""
    rate_definition: str
    tables: list[ImpactRatioTable]
    """Single attributes first, then intersections."""
    notes: list[str]


def impact_ratio(document: Document) -> ImpactRatioReading:
    """The tables of a report, one for each of its sensitive attributes."""
    tables = [_table(document, section) for section in parts_at(document, "fairness")]
    tables.sort(key=lambda one: one.intersection_of is not None)
    loss = text_at(document, "spec", "training", "loss")
    rate: Literal["selection", "scoring"] | None = None
    if loss is not None:
        rate = "selection" if loss == "cross-entropy" else "scoring"
    return ImpactRatioReading(
        report=report_name(document),
        notice=NOTICE,
        rate=rate,
        rate_definition=_definition(document, rate),
        tables=tables,
        notes=_notes(document, tables),
    )


IMPACT_RATIO = ReportReading(
    name="impact-ratio",
    title="Impact ratios",
    note=NOTICE,
    as_of=date(2026, 11, 21),
    make=lambda document: impact_ratio(document).model_dump(mode="json"),
    schema=ImpactRatioReading,
)


def _table(document: Document, section: Document) -> ImpactRatioTable:
    attribute = text_at(section, "attribute") or "not named"
    groups = parts_at(section, "groups")
    shown = [rate for rate in map(_shown_rate, groups) if rate is not None]
    highest = max(shown, default=None)
    categories = [_category(group, highest, compared=len(shown)) for group in groups]
    return ImpactRatioTable(
        attribute=attribute,
        intersection_of=texts_at(section, "intersection_of") or None,
        categories=categories,
        highest_rate=highest,
        below_four_fifths=sum(one.four_fifths == "below four fifths" for one in categories),
        suppressed_categories=sum(one.suppressed for one in categories),
        missing_rows=_missing_rows(document, attribute),
    )


def _shown_rate(group: Document) -> float | None:
    if value_at(group, "suppressed") is True:
        return None
    rate = number_at(group, "selection_rate")
    return rate if rate is not None and 0 <= rate <= 1 else None


def _category(group: Document, highest: float | None, *, compared: int) -> ImpactRatioCategory:
    """One row. `compared`: the number of categories that show a rate."""
    rate, ratio = _shown_rate(group), None
    reading: Reading | None = None
    reason: str | None = None
    if rate is None or highest is None:
        reason = text_at(group, "reasons", "selection_rate") or "the report has no rate"
    elif compared < 2:
        reason = "no other category shows a rate to compare with"
    elif highest == 0:
        reason = "no category has a favourable outcome, so there is no ratio"
    else:
        ratio = rate / highest
        reading = "below four fifths" if is_below_four_fifths(ratio) else "at least four fifths"
    return ImpactRatioCategory(
        category=facts.group_name(group),
        value=text_at(group, "value"),
        suppressed=value_at(group, "suppressed") is True,
        rate=rate,
        impact_ratio=ratio,
        four_fifths=reading,
        reason=reason,
    )


def _missing_rows(document: Document, attribute: str) -> int | None:
    """The numbers in the notes on the data; they name an attribute only where rows lack it."""
    if not isinstance(value_at(document, "data", "notes"), list):
        return None
    beginning = f"rows without a value of {attribute!r}, in no group: "
    for note in texts_at(document, "data", "notes"):
        count = note.removeprefix(beginning)
        if count != note and count.isdecimal():
            return int(count)
    return 0


def _definition(document: Document, rate: str | None) -> str:
    rule = facts.favourable_outcome(document)
    rows = "audited rows" if _is_audit(document) else "held-out rows"
    common = f"The share of a category's {rows} whose prediction is favourable: {rule}."
    if rate != "scoring":
        return common
    return (
        f"{common} The rules of the local law count scores above the sample's median, which this "
        "report does not have: its scoring rate is theirs only where the value above is the median."
    )


def _is_audit(document: Document) -> bool:
    return text_at(document, "subject") == "predictions"


def _notes(document: Document, tables: list[ImpactRatioTable]) -> list[str]:
    size = number_at(document, "spec", "fairness", "minimum_group_size")
    small = "the report's minimum" if size is None else f"{size:g} scored rows"
    audit, notes = _is_audit(document), []
    if value_at(document, "utility", "degenerate") is True:
        why = text_at(document, "utility", "reasons", "degenerate")
        notes.append(
            f"The model decides nothing ({why}), so its ratios say nothing of how it would treat "
            "people."
        )
    notes += [
        _WHICH_ROWS[audit],
        f"A category with fewer than {small} is suppressed, and another with it where its figures "
        "would follow; either may have the highest rate or the lowest. The local law's own limit "
        "is 2 % of the data, and it wants the figures of a category so left out.",
        "How many rows and selections a category has is confidential and not part of a report"
        + ("." if audit else "; the scope ledger:read gives the counts of every round."),
    ]
    if not audit:
        notes.append("Missing values are counted over all rows of the federation, held out or not.")
    if not any(one.intersection_of for one in tables):
        notes.append(
            "There is no table of intersections: name the attributes to be combined in "
            "fairness.intersections, as [[sex, race]]."
        )
    if isinstance(value_at(document, "spec", "fairness", "favourable"), list):
        notes.append("The favourable outcome is another one for each group: see rate_definition.")
    if not tables:
        notes.append("The report names no sensitive attribute, so there is no table.")
    return notes
