"""A publication as a run of an MLflow tracking server. Needs the extra `mlflow`."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fedaudit.publishing.publication import Publication, PublishingError
from fedaudit.reports.checks import leaves
from fedaudit.reports.gates.gate_results import condition
from fedaudit.reports.report import report_hash

MOST_METRICS, MOST_PARAMETERS, MOST_TAGS = 1000, 12, 9
"""Per request of at most 1,000,000 bytes, at the greatest lengths with every letter escaped.
Source: mlflow 3.17, `mlflow/utils/validation.py`."""
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6000, 8000

_NO_CHARACTER = re.compile(r"[^\w.\- :]", re.ASCII)
_DIGEST = 12
_NOTE = "mlflow.note.content"
"""The tag that MLflow shows as a run's description."""
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Without it MLflow may list an experiment under generative AI."""


@dataclass(frozen=True)
class MlflowRun:
    """The run that a publication was written to."""

    run_id: str
    url: str | None
    created: bool
    metrics_written: int
    """Values, this time."""
    files_written: int
    """Artifacts, this time."""
    version: str | None = None
    """Version of the registered model, where one was named and the model may leave."""


@dataclass(frozen=True)
class Registration:
    """A model of MLflow's registry that a publication becomes a version of."""

    name: str
    alias: str | None = None
    """What the version is called if it `passed`; one that did not loses it."""


def publish_to_mlflow(
    publication: Publication,
    *,
    tracking_uri: str,
    experiment: str,
    registration: Registration | None = None,
) -> MlflowRun:
    """Write a publication into the run that has its id as a tag, made if missing.
    Publishing again adds what is missing and repeats nothing. Raises PublishingError where the
    server refuses or does not answer."""
    import mlflow  # the extra's, and slow to import

    try:
        client = mlflow.MlflowClient(tracking_uri=tracking_uri)
        home = _experiment_id(client, experiment)
        run, created = _run(client, home, publication)
        run_id = run.info.run_id
        # Before the tags, by which files of an earlier report are known.
        files = _write_files(client, run, publication)
        metrics = _write_entities(mlflow, client, run, publication)
        version = None
        if registration is not None and publication.model_reason is None:
            version = _version(client, registration, run_id, publication)
        if run.info.status != "FINISHED":
            client.set_terminated(run_id, end_time=_milliseconds(publication.times[1]))
    except mlflow.MlflowException as error:
        raise PublishingError(f"MLflow at {tracking_uri}: {error}") from error
    page = None
    if tracking_uri.startswith(("http://", "https://")):
        page = f"{tracking_uri.rstrip('/')}/#/experiments/{home}/runs/{run_id}"
    return MlflowRun(run_id, page, created, metrics, files, version)


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
    tag = f"fedaudit.{publication.id_name}"
    wanted = f"tags.`{tag}` = '{publication.id}'"
    found = client.search_runs([home], wanted, max_results=1)
    if found:
        return found[0], False
    made = client.create_run(
        home,
        start_time=_milliseconds(publication.times[0]),
        tags={tag: publication.id},
        run_name=publication.name,
    )
    return made, True


def _write_entities(mlflow: Any, client: Any, run: Any, publication: Publication) -> int:
    entities, run_id = mlflow.entities, run.info.run_id
    # The same at every time of publishing.
    time = _milliseconds(publication.times[1]) or run.info.start_time
    final = [(name, one, publication.last_round) for name, one in publication.figures.items()]
    there = {
        (name, value.step)
        for name in run.data.metrics
        for value in client.get_metric_history(run_id, name)
    }
    metrics = [
        entities.Metric(allowed_name(name), float(value), time, step)
        for name, value, step in (*publication.by_round, *final)
        if (allowed_name(name), step) not in there
    ]
    parameters = allowed(spec_parameters(publication.settings), LONGEST_PARAMETER)
    tags = allowed(_tags(publication), LONGEST_TAG)
    written = {
        "tags": ([entities.RunTag(*one) for one in tags.items()], MOST_TAGS),
        "params": ([entities.Param(*one) for one in parameters.items()], MOST_PARAMETERS),
        "metrics": (metrics, MOST_METRICS),
    }
    for kind, (whole, most) in written.items():
        for start in range(0, len(whole), most):
            client.log_batch(run_id, **{kind: whole[start : start + most]})
    return len(metrics)


def _tags(publication: Publication) -> dict[str, str]:
    facts = publication.facts()
    tags = {f"fedaudit.{name}": value for name, value in facts.items()}
    for number, gate in enumerate(publication.document.get("gates", ()), 1):
        stated = f"{gate['outcome']}: {condition(gate)}: {gate['reason']}"
        tags[f"fedaudit.gate.{number}"] = stated
    page = f"[The audit report]({publication.url})\n\n" if publication.url else ""
    tags[_NOTE] = f"{page}{facts['verdict']}\n\nPrivacy: {facts['privacy_cost']}"
    return tags


def _write_files(client: Any, run: Any, publication: Publication) -> int:
    run_id, earlier = run.info.run_id, run.data.tags.get("fedaudit.report_hash")
    # A ledger grows after it was published.
    is_same = earlier == report_hash(publication.document)
    folder = publication.files[0].parent
    there = {
        found.path
        for path in (None, "readings", "model")
        for found in client.list_artifacts(run_id, path)
    }
    written = 0
    for path in publication.files:
        name = path.relative_to(folder)
        if name.as_posix() not in there or not is_same:
            within = None if name.parent == Path() else name.parent.as_posix()
            client.log_artifact(run_id, str(path), within)
            written += 1
    return written


def _version(client: Any, asked: Registration, run_id: str, publication: Publication) -> str:
    """The version of the registered model that is the run's, made if missing, with its alias as
    the gates say."""
    if not client.search_registered_models(f"name = '{asked.name}'"):
        client.create_registered_model(asked.name)
    there = f"name = '{asked.name}' and run_id = '{run_id}'"
    found = client.search_model_versions(there, max_results=1)
    if not found:
        found = [client.create_model_version(asked.name, f"runs:/{run_id}/model", run_id=run_id)]
    version = str(found[0].version)
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


def _milliseconds(stated: str | None) -> int | None:
    return None if stated is None else int(datetime.fromisoformat(stated).timestamp() * 1000)


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
