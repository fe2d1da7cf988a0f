"""The verdict in words."""

from fedaudit.reports.report import assemble
from fedaudit.reports.verdict.verdict import verdict, verdict_parts


def test_a_leakage_is_never_stated_below_what_was_spent(material):
    report = assemble(material())
    report["privacy"] |= {"leakage_per_release": 1.00012, "leakage_max": 7.00013}
    report["privacy"]["leakage_median"] = 3.5
    stated = "a leakage of 1.001 for each and 7.001 in all, and the median client 3.5."
    assert stated in verdict(verdict_parts(report))
