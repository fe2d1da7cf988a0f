"""The report's statements in the order of NIST SP 800-226 (March 2025).

"Guidelines for Evaluating Differential Privacy Guarantees" orders what a claim rests on as a
pyramid: its figures on top, what can undermine them in the middle, and the ground below. The topics
follow it and the hazards it names; the questions are this project's words.
"""

from typing import Literal

from fedaudit.reports.readings.document_fields import Document, ReadingPart, ReportName, report_name
from fedaudit.reports.readings.nist_statements import (
    ANSWERED,
    IN_PART,
    NOT_SHOWN,
    NistStatement,
    Status,
    algorithm_and_utility,
    bias,
    data_collection,
    guarantee,
    parameters_and_unit,
    security,
    side_channels,
    trust_model,
)
from fedaudit.reports.readings.reading import ReportReading

NOTICE = (
    "Statements of one audit report, put in the order of NIST SP 800-226. NIST has reviewed none "
    "of it, and this is no evaluation: what is not shown here has to be looked at elsewhere."
)
_TOPICS = (
    ("top", "privacy parameters and unit", parameters_and_unit),
    ("top", "guarantee and adjacency", guarantee),
    ("middle", "algorithm and utility", algorithm_and_utility),
    ("middle", "bias", bias),
    ("middle", "security", security),
    ("middle", "side channels", side_channels),
    ("base", "trust model", trust_model),
    ("base", "data collection", data_collection),
)


class NistTopic(ReadingPart):
    """One stone of the pyramid."""

    layer: Literal["top", "middle", "base"]
    topic: str
    status: Status
    """Answered or not shown, where all of its statements are; answered in part otherwise."""
    statements: list[NistStatement]


class NistReading(ReadingPart):
    """A report read by NIST SP 800-226."""

    reading: Literal["nist-800-226"] = "nist-800-226"
    report: ReportName
    notice: str
    topics: list[NistTopic]
    """From the top of the pyramid down."""


def nist_800_226(document: Document) -> NistReading:
    """What a report states on each topic, and what it does not show."""
    topics = []
    for layer, topic, statements_of in _TOPICS:
        statements = statements_of(document)
        status = _overall({one.status for one in statements})
        topics.append(
            NistTopic.model_validate(
                {"layer": layer, "topic": topic, "status": status, "statements": statements}
            )
        )
    return NistReading(report=report_name(document), notice=NOTICE, topics=topics)


NIST_800_226 = ReportReading(
    name="nist-800-226",
    title="NIST SP 800-226",
    note=NOTICE,
    make=lambda document: nist_800_226(document).model_dump(mode="json"),
    schema=NistReading,
)


def _overall(found: set[Status]) -> Status:
    return found.pop() if found in ({ANSWERED}, {NOT_SHOWN}) else IN_PART
