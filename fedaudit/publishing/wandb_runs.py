"""A publication as an offline run of Weights & Biases. Needs the extra `wandb`."""

import shutil
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from fedaudit.publishing.publication import Publication, PublishingError, import_tool

DEFAULT_PROJECT = "fedaudit"
STEP = "round"


@dataclass(frozen=True)
class WandbRun:
    """Where a publication went."""

    folder: Path
    """Of the offline run; `wandb sync` sends it."""
    created: bool
    """False where the folder had the run already, which is then left as it is."""


def publish_to_wandb(
    publication: Publication, *, folder: Path, project: str = DEFAULT_PROJECT
) -> WandbRun:
    """Write an offline run below `folder`/wandb; nothing is sent.

    The run's id is the experiment's, so that W&B has one run of it. Nothing is said of this
    machine: no host, no code, no packages. Raises MissingExtraError, and PublishingError where
    nothing can be written.
    """
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
        # Half a run would be taken for a whole one at the next time.
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
