"""What stands beside a report's figures wherever they are published, in words."""

from collections.abc import Mapping
from typing import Any

from fedaudit.publishing.extras import PublishingError
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.document.document import Report
from fedaudit.reports.document.guarantee_facts import guarantee_words
from fedaudit.reports.document.report_figures import parsed
from fedaudit.reports.document.usefulness import why_not_useful
from fedaudit.reports.readings import facts

UNBOUNDED = "unbounded: nothing protects the clients"


def parsed_report(document: Mapping[str, Any]) -> Report:
    """The report, with what its version left unsaid of the guarantee.

    Raises PublishingError where it is none, and where it is that of a declared ledger.
    """
    refuse_declared(document)
    try:
        return parsed(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PublishingError(f"this is no audit report that can be read: {error}") from None


def refuse_declared(document: Mapping[str, Any]) -> None:
    """Raises PublishingError for the report of a declared ledger: it has no spec and no rounds of
    this service, and its figures must not be sorted with those of runs."""
    if document.get("declared"):
        raise PublishingError(
            "this is the report of a declared ledger, which is not published to other tools: its "
            "figures are the trainer's word; log them from the training itself, under names that "
            "say so"
        )


def report_facts(
    document: Mapping[str, Any], report: Report, *, origin: str, url: str | None
) -> dict[str, str]:
    """By name, what whoever looks at a figure of this report has to know with it.

    `report` is the document parsed, `origin` where it was had from, `url` its page.
    """
    useless = why_not_useful(document)
    stated = {
        "experiment_id": report.experiment.id,
        "status": report.experiment.status,
        "origin": origin,
        "report_url": url,
        "report_hash": report_hash(document),
        "spec_hash": report.experiment.spec_hash,
        "signing_key": report.integrity.key_id or "not signed",
        "guarantee": guarantee_words(report.guarantee.model_dump()),
        "guarantee_in_force": "true" if report.guarantee.in_force else "false",
        "mechanism": report.guarantee.mechanism,
        "privacy_cost": _privacy_cost(document, report),
        "model_decides": "true" if useless is None else f"not shown: {useless}",
        "gate_outcome": report.gate_outcome or "no gate was given",
        "verdict": report.verdict,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _privacy_cost(document: Mapping[str, Any], report: Report) -> str:
    """What training spent, after what that is worth."""
    if report.guarantee.kind == "none":
        return UNBOUNDED
    words = guarantee_words(report.guarantee.model_dump())
    return f"{words}: {' '.join(facts.spent(document)) or 'no figure'}"
