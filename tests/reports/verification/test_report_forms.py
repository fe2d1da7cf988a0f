"""Which stored reports a version reads."""

from fedaudit.reports.page.html import render
from fedaudit.reports.report import Report, assemble, has_present_form


def test_a_report_may_have_more_than_is_read_and_never_less(material) -> None:
    """A version that drops a section goes on reading the reports that have it."""
    report = assemble(material())
    later = {**report, "retired": {"figure": 1.0}}
    assert has_present_form(report)
    assert has_present_form(later)
    assert render(later) == render(report)
    assert not any(
        has_present_form({name: report[name] for name in report if name != missing})
        for missing, field in Report.model_fields.items()
        if field.is_required()
    )
    earlier = {name: part for name, part in report.items() if name != "answer"}
    assert has_present_form(earlier)
    assert render(earlier) == render(report)
