"""Submitting an experiment once, however often the request is repeated."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.problems import ProblemError
from api.resources import Resources
from api.security import Caller
from api.services.admission import Plan, Wake, admit, plan
from fedaudit.spec.parse import parse_spec
from models.identifiers import new_id
from models.repositories import ExperimentRepository, IdempotencyRepository
from models.tables.experiments import Experiment
from models.tables.idempotency import IdempotencyKey

RETRIED = ("failed", "cancelled")


@dataclass(frozen=True)
class Once:
    """A caller's key for one request: its repetition is answered with what the first one made."""

    key: str
    route: str
    body_hash: str

    @classmethod
    def of(cls, key: str | None, route: str, value: Any) -> "Once | None":
        """The key for a body's JSON value; bodies that differ in layout only are the same."""
        if key is None:
            return None
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return cls(key, route, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Submitted:
    """The experiment as it is now; `wake` where it was queued just now."""

    experiment: Experiment
    tags: list[str]
    wake: Wake | None


def submit(resources: Resources, caller: Caller, value: Any, once: Once | None) -> Submitted:
    """Queue the experiment that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    return _earlier(resources, caller, once) or _queue(
        resources, caller, plan(resources, parse_spec(value)), once
    )


def retry(
    resources: Resources, caller: Caller, experiment: Experiment, once: Once | None
) -> Submitted:
    """Queue the spec of an experiment that failed or was cancelled once more."""
    if experiment.status not in RETRIED:
        raise ProblemError(
            409,
            "conflict",
            f"the experiment is {experiment.status}; only one that failed or was cancelled can be "
            "tried again",
        )
    return _earlier(resources, caller, once) or _queue(
        resources,
        caller,
        plan(resources, parse_spec(experiment.spec)),
        once,
        retry_of=experiment.id,
    )


def _earlier(resources: Resources, caller: Caller, once: Once | None) -> Submitted | None:
    if once is None:
        return None
    with resources.database.read() as session:
        found = IdempotencyRepository(session).find(caller.key_id, once.route, once.key)
        return None if found is None else _repeated(session, caller, once, found)


def _queue(
    resources: Resources,
    caller: Caller,
    planned: Plan,
    once: Once | None,
    *,
    retry_of: str | None = None,
) -> Submitted:
    experiment_id = new_id()
    with resources.database.write() as session:
        if once is not None and not _take(session, caller, once, experiment_id):
            # The same request came twice at once, and the other one was first.
            found = IdempotencyRepository(session).find(caller.key_id, once.route, once.key)
            if found is not None:
                return _repeated(session, caller, once, found)
        wake = admit(
            session,
            caller.project_id,
            planned,
            experiment_id=experiment_id,
            max_attempts=resources.settings.max_attempts,
            retry_of=retry_of,
        )
        return _submitted(session, caller, experiment_id, wake)


def _take(session: Session, caller: Caller, once: Once, experiment_id: str) -> bool:
    return IdempotencyRepository(session).add(
        project_id=caller.project_id,
        api_key_id=caller.key_id,
        route=once.route,
        key=once.key,
        body_hash=once.body_hash,
        resource_id=experiment_id,
        status_code=202,
    )


def _repeated(session: Session, caller: Caller, once: Once, found: IdempotencyKey) -> Submitted:
    if found.body_hash != once.body_hash:
        raise ProblemError(
            409,
            "idempotency-mismatch",
            "this Idempotency-Key was sent before with another body; use a new key for a new "
            "experiment",
        )
    return _submitted(session, caller, str(found.resource_id), None)


def _submitted(
    session: Session, caller: Caller, experiment_id: str, wake: Wake | None
) -> Submitted:
    experiments = ExperimentRepository(session, caller.project_id)
    experiment = experiments.get(experiment_id)
    if experiment is None:
        raise LookupError(f"experiment {experiment_id} was stored and is not there")
    return Submitted(experiment, list(experiments.tags([experiment_id])[experiment_id]), wake)
