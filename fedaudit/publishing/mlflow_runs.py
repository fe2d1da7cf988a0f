"""A publication as a run of an MLflow tracking server. Needs the extra `mlflow`."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from fedaudit.publishing.publication import (
    MODEL_FILE,
    Publication,
    PublishedFigure,
    PublishingError,
    import_mlflow,
)
from fedaudit.reports.checks import leaves
from fedaudit.reports.gates.gate_results import condition

T = TypeVar("T")
DEFAULT_EXPERIMENT = "fedaudit"
MOST_METRICS, MOST_PARAMETERS, MOST_TAGS = 1000, 12, 9
"""Per request of at most 1,000,000 bytes, at the greatest lengths with every letter escaped.
Source: mlflow 3.17, `mlflow/utils/validation.py`."""
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6000, 8000

_NO_CHARACTER = re.compile(r"[^\w.\- :]", re.ASCII)
_DIGEST = 12
_EXPERIMENT_TAG = "fedaudit.experiment_id"
_NOTE = "mlflow.note.content"
"""The tag that MLflow shows as a run's description."""
_EXTERNAL_TAG = "mlflow.model.isExternal"
"""Of a model whose files are elsewhere."""
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Without it MLflow lists experiments with logged models under generative AI."""
MISSING_FILE = "missing.json"


@dataclass(frozen=True)
class MlflowRun:
    """The run that a publication was written to."""

    run_id: str
    url: str | None
    created: bool
    metrics: int
    """How many values were written this time."""
    files: int
    """How many artifacts were written this time."""
    model_id: str | None
    """The logged model; None if the trained hypotheses may not leave."""
    version: str | None = None
    """Of the registered model, where one was named and the model may leave."""


@dataclass(frozen=True)
class Registration:
    """A model of MLflow's registry that a publication becomes a version of."""

    name: str
    alias: str | None = None
    """What the version is called if its gates passed; one whose gates did not loses it."""


def publish_to_mlflow(
    publication: Publication,
    *,
    tracking_uri: str,
    experiment: str = DEFAULT_EXPERIMENT,
    registration: Registration | None = None,
) -> MlflowRun:
    """Write a publication into the run that has its experiment's id as a tag, made if missing.
    Publishing again adds what is missing and repeats nothing. Raises MissingExtraError, and
    PublishingError where the server refuses or does not answer."""
    mlflow = import_mlflow()
    client = mlflow.MlflowClient(tracking_uri=tracking_uri)
    try:
        home = _experiment_id(client, experiment)
        run, created = _run(client, home, publication)
        run_id = run.info.run_id
        model_id = _model_id(client, run, publication)
        metrics = _write_entities(mlflow, client, run, publication, model_id)
        files = _write_files(client, run_id, publication)
        version = None
        if registration is not None and model_id is not None:
            version = _version(client, registration, run_id, model_id, publication)
        if run.info.status != "FINISHED":
            client.set_terminated(run_id, end_time=_milliseconds(publication, "finished_at"))
    except mlflow.MlflowException as error:
        raise PublishingError(f"MLflow at {tracking_uri}: {error}") from error
    page = None
    if tracking_uri.startswith(("http://", "https://")):
        page = f"{tracking_uri.rstrip('/')}/#/experiments/{home}/runs/{run_id}"
    return MlflowRun(run_id, page, created, metrics, files, model_id, version)


def _experiment_id(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(client.create_experiment(name, tags=_KIND))
    if found.lifecycle_stage != "active":
        raise PublishingError(
            f"MLflow's experiment {name!r} was deleted; restore it, or name another one"
        )
    return str(found.experiment_id)


def _run(client: Any, home: str, publication: Publication) -> tuple[Any, bool]:
    wanted = f"tags.`{_EXPERIMENT_TAG}` = '{publication.experiment_id}'"
    found = client.search_runs([home], wanted, max_results=1)
    if found:
        return found[0], False
    made = client.create_run(
        home,
        start_time=_milliseconds(publication, "started_at"),
        tags={_EXPERIMENT_TAG: publication.experiment_id},
        run_name=publication.name,
    )
    return made, True


def _write_entities(
    mlflow: Any, client: Any, run: Any, publication: Publication, model_id: str | None
) -> int:
    entities, run_id = mlflow.entities, run.info.run_id
    # The same at every time of publishing, and in the order of rounds.
    time = _milliseconds(publication, "finished_at") or run.info.start_time
    final = {allowed_name(one.name) for one in publication.figures.final}
    metrics = [
        PublishedFigure(allowed_name(one.name), one.value, one.round)
        for one in (*publication.figures.by_round, *publication.figures.final)
    ]
    there = {
        (name, value.step)
        for name in run.data.metrics
        for value in client.get_metric_history(run_id, name)
    }
    metrics = [one for one in metrics if (one.name, one.round) not in there]
    parameters = allowed(spec_parameters(publication.report.spec), LONGEST_PARAMETER)
    for some in batched(allowed(_tags(publication), LONGEST_TAG).items(), MOST_TAGS):
        client.log_batch(run_id, tags=[entities.RunTag(*one) for one in some])
    for some in batched(parameters.items(), MOST_PARAMETERS):
        client.log_batch(run_id, params=[entities.Param(*one) for one in some])
    for figures in batched(metrics, MOST_METRICS):
        client.log_batch(
            run_id,
            metrics=[
                entities.Metric(
                    one.name,
                    one.value,
                    time,
                    one.round,
                    model_id=model_id if one.name in final else None,
                    run_id=run_id,
                )
                for one in figures
            ],
        )
    return len(metrics)


def _tags(publication: Publication) -> dict[str, str]:
    facts = publication.facts()
    tags = {f"fedaudit.{name}": value for name, value in facts.items()}
    for number, gate in enumerate(publication.gates, 1):
        stated = f"{gate['outcome']}: {condition(gate)}: {gate['reason']}"
        tags[f"fedaudit.gate.{number}"] = stated
    page = f"[The audit report]({publication.url})\n\n" if publication.url else ""
    tags[_NOTE] = f"{page}{facts['verdict']}\n\nPrivacy: {facts['privacy_cost']}"
    return tags


def _write_files(client: Any, run_id: str, publication: Publication) -> int:
    folder = publication.files[0].parent
    missing = json.dumps(publication.figures.missing, indent=2, ensure_ascii=False)
    (folder / MISSING_FILE).write_text(f"{missing}\n", encoding="utf-8")
    there = {
        found.path
        for path in (None, "readings", "model")
        for found in client.list_artifacts(run_id, path)
    }
    written = 0
    whole = [*publication.files, folder / MISSING_FILE]
    files = [(path, path.relative_to(folder)) for path in whole]
    if publication.model is not None:
        files.append((publication.model, Path("model") / MODEL_FILE))
    for path, name in files:
        if name.as_posix() not in there:
            within = None if name.parent == Path() else name.parent.as_posix()
            client.log_artifact(run_id, str(path), within)
            written += 1
    return written


def _model_id(client: Any, run: Any, publication: Publication) -> str | None:
    """The logged model of the run, made if missing; its file is an artifact of the run."""
    if publication.model is None:
        return None
    run_id, home = run.info.run_id, run.info.experiment_id
    found = client.search_logged_models([home], f"source_run_id = '{run_id}'", max_results=1)
    if found and found[0].status == "READY":
        return str(found[0].model_id)
    if found:
        # Left by an interrupted publication.
        client.delete_logged_model(found[0].model_id)
    facts = publication.facts()
    kept = ("experiment_id", "guarantee", "privacy_cost", "report_hash")
    tags = {f"fedaudit.{name}": facts[name] for name in kept}
    tags["fedaudit.model_file"] = f"runs:/{run_id}/model/{MODEL_FILE}"
    # Names of models have none of / : . % and quotes in them.
    words = "".join(one if one.isalnum() or one in "-_ " else "_" for one in publication.name)
    made = client.create_logged_model(
        home,
        name=words.strip() or "fedaudit",
        source_run_id=run_id,
        tags={**allowed(tags, LONGEST_TAG), _EXTERNAL_TAG: "true"},
        model_type="federated",
    )
    # As mlflow.create_external_model, which uses the process's tracking address only, and needs
    # pandas for an empty signature.
    with TemporaryDirectory(prefix="fedaudit-") as folder:
        stated = import_module("mlflow.models.model").Model(
            artifact_path=made.artifact_location,
            model_uuid=made.model_id,
            model_id=made.model_id,
            run_id=run_id,
            metadata={_EXTERNAL_TAG: True},
        )
        stated.save(str(Path(folder) / "MLmodel"))
        client.log_model_artifacts(made.model_id, folder)
    client.finalize_logged_model(made.model_id, "READY")
    return str(made.model_id)


def _version(
    client: Any, asked: Registration, run_id: str, model_id: str, publication: Publication
) -> str:
    """The version of the registered model that is the run's, made if missing, with its alias as
    the gates say."""
    if not client.search_registered_models(f"name = '{asked.name}'"):
        client.create_registered_model(asked.name)
    there = f"name = '{asked.name}' and run_id = '{run_id}'"
    found = client.search_model_versions(there, max_results=1)
    made = found[0] if found else None
    if made is None:
        source = f"models:/{model_id}"
        made = client.create_model_version(asked.name, source, run_id=run_id, model_id=model_id)
    version = str(made.version)
    facts = publication.facts()
    for name in ("gate_outcome", "report_hash"):
        client.set_model_version_tag(asked.name, version, f"fedaudit.{name}", facts[name])
    if asked.alias is not None:
        aliases = client.get_registered_model(asked.name).aliases
        if publication.passed:
            client.set_registered_model_alias(asked.name, asked.alias, version)
        elif str(aliases.get(asked.alias)) == version:
            client.delete_registered_model_alias(asked.name, asked.alias)
    return version


def _milliseconds(publication: Publication, name: str) -> int | None:
    stated = getattr(publication.report.provenance, name)
    return None if stated is None else int(datetime.fromisoformat(stated).timestamp() * 1000)


def batched(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """The items, at most so many at a time."""
    found = list(items)
    yield from (found[start : start + most] for start in range(0, len(found), most))


def allowed_name(name: str) -> str:
    """The name as MLflow takes it; different names stay different. A refused character becomes an
    underscore, and a digest of the name follows, as for a part between slashes that reads as a
    folder and for a name that is too long."""
    parts = [_NO_CHARACTER.sub("_", part) for part in name.split("/")]
    parts = ["_" if part.strip(".") == "" else part for part in parts]
    found = "/".join(parts)
    if found == name and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{found[: LONGEST_NAME - _DIGEST - 1]}-{digest}"


def allowed(values: Mapping[str, str], longest: int) -> dict[str, str]:
    """Names and values as MLflow takes them; a shortened value ends with the hash of all of it."""
    return {allowed_name(name): shortened(value, longest) for name, value in values.items()}


def spec_parameters(spec: Mapping[str, Any]) -> dict[str, str]:
    """Every setting by its path with dots between, as `privacy.noise_multiplier`. Objects are
    followed; lists stay one value, as compact JSON. Texts are themselves, other values JSON."""
    return {
        path: value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for path, value in leaves(spec)
    }


def shortened(text: str, most: int) -> str:
    """The text if it has at most so many characters; else its beginning and the SHA-256 of all."""
    if len(text) <= most:
        return text
    digest = f"... sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return text[: most - len(digest)] + digest
