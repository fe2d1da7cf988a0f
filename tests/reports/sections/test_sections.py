"""Every section of a report is a field of its document, and answers what a section is asked."""

import pytest

from fedaudit.reports.audit_report import AuditReport
from fedaudit.reports.report import RUN, Report
from fedaudit.reports.sections.predictions import AUDIT

JUDGED = {"gates", "gate_outcome", "verdict", "verdict_parts", "limits", "spec"}
"""What follows from the sections, or repeats what was asked for."""


@pytest.mark.parametrize(
    ("document", "sections", "fixed"),
    [(Report, RUN, {"report_version"}), (AuditReport, AUDIT, {"report_version", "subject"})],
    ids=["run", "audit"],
)
def test_the_sections_make_the_whole_document(document, sections, fixed) -> None:
    names = [one.name for one in sections]
    reasons = {f"{name}_reason" for name in names} & set(document.model_fields)
    left = set(document.model_fields) - set(names) - reasons - JUDGED - fixed
    assert len(set(names)) == len(names)
    assert left <= {"attacks", "advice", "answer"}  # an audit has none


@pytest.mark.parametrize("section", [*RUN, *AUDIT], ids=lambda one: one.name)
def test_what_is_not_checked_says_why(section) -> None:
    assert callable(section.checked) or len(section.checked.split()) > 3
