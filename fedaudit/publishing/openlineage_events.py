"""OpenLineage run events, with gates as tests, and offline runs of Weights & Biases.

Each needs the extra of its name, `openlineage` or `wandb`.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from fedaudit.publishing.publication import (
    Publication,
    PublishingError,
    import_tool,
    parsed_report,
    read_document,
    report_facts,
)
from fedaudit.reports.gates.gate_results import condition
from fedaudit.reports.sections.part import PASS
from fedaudit.version import __version__
from fedaudit_client.client import Client, report_page

DEFAULT_NAMESPACE = "fedaudit"
PRODUCER = f"urn:fedaudit:{__version__}"
_ENDS: dict[str, Literal["COMPLETE", "FAIL", "ABORT"]] = {
    "succeeded": "COMPLETE",
    "failed": "FAIL",
    "cancelled": "ABORT",
}


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """An experiment that has ended."""

    experiment_id: str
    """A UUID, which is also the run's id in OpenLineage."""
    name: str
    status: str
    """succeeded, failed or cancelled."""
    why: str | None
    started_at: str
    finished_at: str
    source: str | None = None
    data_fingerprint: str | None = None
    gates: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


def lineage_events(lineage: Lineage, *, namespace: str = DEFAULT_NAMESPACE) -> list[Any]:
    """The start and end events. The end event has the gates as tests. A gate without enough
    evidence is a failed test with the reason, because OpenLineage's `skip` would seem harmless.
    Numbers of rows and clients are left out. Raises MissingExtraError."""
    import_tool("openlineage")
    from openlineage.client import event_v2 as events
    from openlineage.client.facet_v2 import dataset_version_dataset as version
    from openlineage.client.facet_v2 import error_message_run as failure
    from openlineage.client.facet_v2 import processing_engine_run as engine
    from openlineage.client.facet_v2 import tags_run, test_run

    tags = [
        tags_run.TagsRunFacetFields(key=name, value=value, source="fedaudit")
        for name, value in lineage.facts.items()
    ]
    facets: dict[str, Any] = {
        "processing_engine": engine.ProcessingEngineRunFacet(
            name="fedaudit", version=__version__, producer=PRODUCER
        ),
        "tags": tags_run.TagsRunFacet(tags=tags, producer=PRODUCER),
    }
    if lineage.gates:
        tests = [test_run.TestExecution(**_test(gate)) for gate in lineage.gates]
        facets["test"] = test_run.TestRunFacet(tests=tests, producer=PRODUCER)
    if lineage.status != "succeeded":
        facets["errorMessage"] = failure.ErrorMessageRunFacet(
            message=lineage.why or "no reason was given",
            programmingLanguage="Python",
            producer=PRODUCER,
        )
    inputs, fingerprint = [], lineage.data_fingerprint
    if lineage.source is not None and fingerprint is not None:
        facet = version.DatasetVersionDatasetFacet(datasetVersion=fingerprint, producer=PRODUCER)
        name = f"{lineage.source}/{fingerprint}"
        inputs = [events.InputDataset(namespace=namespace, name=name, facets={"version": facet})]
    job = events.Job(namespace=namespace, name=lineage.name)
    return [
        events.RunEvent(
            eventTime=time,
            run=events.Run(runId=lineage.experiment_id, facets=of_run),
            eventType=state,
            job=job,
            inputs=inputs,
            producer=PRODUCER,
        )
        for time, state, of_run in (
            (lineage.started_at, events.RunState.START, {}),
            (lineage.finished_at, events.RunState(_ENDS[lineage.status]), facets),
        )
    ]


def publish_to_openlineage(
    lineage: Lineage, *, url: str, api_key: str | None = None, namespace: str = DEFAULT_NAMESPACE
) -> int:
    """Send both events to a receiver's /api/v1/lineage; gives how many were sent. Raises
    MissingExtraError, and PublishingError where the receiver refuses or does not answer."""
    events = lineage_events(lineage, namespace=namespace)
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    stated: dict[str, Any] = {"url": url}
    if api_key is not None:
        stated["auth"] = {"type": "api_key", "apiKey": api_key}
    try:
        client = OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(stated)))
        for event in events:
            client.emit(event)
    # The library passes on the errors of its HTTP client, which may change.
    except Exception as error:
        raise PublishingError(f"the OpenLineage receiver at {url}: {error}") from error
    return len(events)


def _test(gate: Mapping[str, Any]) -> dict[str, str | None]:
    value = gate["value"]
    return {
        "name": condition(gate),
        "status": "pass" if gate["outcome"] == PASS else "fail",
        "severity": "error",
        "type": gate["figure"],
        "description": f"{gate['outcome']}: {gate['reason']}",
        "expected": f"{gate['op']} {gate['bound']:g}",
        "actual": None if value is None else f"{value:.6g}",
    }


def lineage_of_service(client: Client, experiment_id: str) -> Lineage:
    """An experiment of a service. Raises ClientError, and PublishingError if it has not ended."""
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
        # A run that was cancelled in the queue never started.
        started_at=experiment["started_at"] or experiment["finished_at"],
        finished_at=experiment["finished_at"],
        facts={"experiment_id": experiment["id"], "status": experiment["status"]},
    )


def lineage_of_file(path: Path) -> Lineage:
    """The experiment of a report file. Raises PublishingError for another file."""
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


DEFAULT_PROJECT = "fedaudit"
STEP = "round"


@dataclass(frozen=True)
class WandbRun:
    """Where a publication went."""

    folder: Path
    """Of the offline run; `wandb sync` sends it."""
    created: bool
    """False if the folder had the run, which is then left unchanged."""


def publish_to_wandb(
    publication: Publication, *, folder: Path, project: str = DEFAULT_PROJECT
) -> WandbRun:
    """Write an offline run below `folder`/wandb, for Weights & Biases; nothing is sent. The run's
    id is the experiment's. Host, code and packages are left out. Raises MissingExtraError, and
    PublishingError if the folder cannot be written."""
    wandb = import_tool("wandb")
    for found in (folder / "wandb").glob(f"offline-run-*-{publication.experiment_id}"):
        return WandbRun(found, created=False)
    try:
        run = _opened(wandb, publication, folder, project)
    except (OSError, wandb.Error) as error:
        raise PublishingError(f"W&B cannot write a run below {folder}: {error}") from error
    # W&B's own property ends in `files`.
    written = Path(run.dir).parent
    try:
        _write(wandb, run, publication)
    except BaseException:
        run.finish(exit_code=1)
        # The next publication would take an incomplete run for a complete one.
        shutil.rmtree(written, ignore_errors=True)
        raise
    run.finish(exit_code=0)
    return WandbRun(written, created=True)


def _opened(wandb: Any, publication: Publication, folder: Path, project: str) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    return wandb.init(
        project=project,
        id=publication.experiment_id,
        name=publication.name,
        notes=publication.report.verdict,
        config={
            "spec": publication.report.spec,
            "fedaudit": publication.facts(),
            "missing": publication.figures.missing,
            "gates": list(publication.gates),
        },
        dir=str(folder),
        mode="offline",
        reinit="create_new",
        settings=wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            host="",
            save_code=False,
            silent=True,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )


def _write(wandb: Any, run: Any, publication: Publication) -> None:
    run.define_metric(STEP)
    run.define_metric("rounds/*", step_metric=STEP)
    by_round = sorted(publication.figures.by_round, key=lambda one: one.round)
    for number, figures in groupby(by_round, key=lambda one: one.round):
        run.log({STEP: number, **{one.name: one.value for one in figures}})
    run.summary.update({one.name: one.value for one in publication.figures.final})
    report = wandb.Artifact(f"report-{publication.experiment_id}", type="audit-report")
    folder = publication.files[0].parent
    for path in publication.files:
        report.add_file(str(path), name=path.relative_to(folder).as_posix())
    run.log_artifact(report)
    if publication.model is not None:
        model = wandb.Artifact(f"model-{publication.experiment_id}", type="model")
        model.add_file(str(publication.model))
        run.log_artifact(model)
