"""Under which heading a figure is published, so that no evidence is ranked with evidence.

Whoever sorts runs in another tool sees a figure's name and its value, and neither the guarantee nor
the verdict. So a figure that a gate would not count without an exception has another name.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.reports.document.attacks.raised_alarms import raised_alarms
from fedaudit.reports.document.guarantee_facts import condition_of, is_in_force
from fedaudit.reports.document.report_figures import COUNTED
from fedaudit.reports.document.usefulness import why_not_useful

UTILITY = "utility"


def privacy_section(report: Mapping[str, Any], figure: str) -> str:
    """The heading of a privacy figure; `report` is a stored report.

    It is `privacy` alone where the figure is proven, for all datasets, the noise was secret, and no
    attack found evidence against it.
    """
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
    """The heading of gaps: a model that decides nothing, or is not shown to decide anything, has
    the smallest gaps of all. Gaps of counts that nobody here made are `fairness_declared`."""
    if report["guarantee"]["kind"] == "declared":
        return "fairness_declared"
    return "fairness" if why_not_useful(report) is None else "fairness_no_evidence"
