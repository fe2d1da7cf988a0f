"""Compare stored reports."""

from collections.abc import Sequence

from api.http.problems import ProblemError
from api.services.attacks.stored_attacks import find_judged
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.reports.comparison.compared_reports import Comparison, compare_reports
from fedaudit.reports.document.report_figures import parsed


def comparison_of(
    resources: Resources,
    caller: Caller,
    experiment_ids: Sequence[str],
    *,
    fairness: str | None = None,
    utility: str | None = None,
) -> Comparison:
    """The comparison of experiments of the caller's project, in this order.

    Raises ProblemError where one of them does not exist, has no report, or has one that was altered
    so much that it cannot be parsed.
    """
    reports = []
    for experiment_id in experiment_ids:
        with resources.database.read() as session:
            try:
                reports.append(parsed(find_judged(session, caller, experiment_id)))
            except ProblemError as error:
                raise ProblemError(
                    error.status, error.slug, f"{experiment_id}: {error.detail}"
                ) from None
            except ValueError:
                raise ProblemError(
                    409,
                    "conflict",
                    f"{experiment_id}: the stored report cannot be read; see its verification",
                ) from None
    return compare_reports(reports, fairness=fairness, utility=utility)
