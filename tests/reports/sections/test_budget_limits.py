"""What a report says of budgets, of which it has no figure."""

import pytest

from fedaudit.reports.report import assemble


@pytest.mark.parametrize("apart", [False, True])
def test_a_report_says_whether_projects_are_counted_apart(material, apart: bool) -> None:
    found = " ".join(assemble(material(budgets_apart=apart))["limits"])
    assert "kept in the federation's budget" in found
    assert ("another project" in found) is apart
