"""What OpenLineage is told of an experiment, by a running service or by a report file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.publishing.extras import PublishingError
from fedaudit.publishing.openlineage_events import Lineage
from fedaudit.publishing.publication_sources import read_document
from fedaudit.publishing.report_facts import parsed_report, report_facts
from fedaudit_client.client import Client
from fedaudit_client.pages import report_page


def lineage_of_service(client: Client, experiment_id: str) -> Lineage:
    """Of an experiment that has ended, in whichever way.

    Raises ClientError, and PublishingError where it goes on.
    """
    experiment = client.get(experiment_id)
    if experiment["finished_at"] is None:
        raise PublishingError(
            f"the experiment is {experiment['status']}; publish it once it has ended, as after "
            f"fedaudit watch {experiment_id}"
        )
    if experiment["status"] == "succeeded":
        url = report_page(client.url, experiment_id)
        return _of_report(client.report(experiment_id), origin=client.url, url=url)
    reasons = (experiment["status_reason"], experiment["status_detail"])
    return Lineage(
        experiment_id=experiment["id"],
        name=experiment["name"],
        status=experiment["status"],
        why=": ".join(filter(None, reasons)),
        # One that was cancelled in the queue never started.
        started_at=experiment["started_at"] or experiment["finished_at"],
        finished_at=experiment["finished_at"],
        facts={"experiment_id": experiment["id"], "status": experiment["status"]},
    )


def lineage_of_file(path: Path) -> Lineage:
    """Of the experiment of a report file. Raises PublishingError where it is none."""
    return _of_report(read_document(path), origin="file", url=None)


def _of_report(document: Mapping[str, Any], *, origin: str, url: str | None) -> Lineage:
    report = parsed_report(document)
    started, finished = report.provenance.started_at, report.provenance.finished_at
    if started is None or finished is None:
        raise PublishingError("the report does not say when training began and ended")
    return Lineage(
        experiment_id=report.experiment.id,
        name=report.experiment.name,
        status=report.experiment.status,
        why=report.utility.stopped_by,
        started_at=started,
        finished_at=finished,
        source=report.data.source,
        data_fingerprint=report.provenance.data_fingerprint,
        gates=[gate.model_dump(mode="json") for gate in report.gates],
        facts=report_facts(document, report, origin=origin, url=url),
    )
