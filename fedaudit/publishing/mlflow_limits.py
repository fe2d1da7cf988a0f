"""What MLflow takes: names, lengths, and how much in one request.

Source: mlflow 3.17, `mlflow/utils/validation.py`.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from fedaudit.publishing.published_figures import PublishedFigure
from fedaudit.publishing.spec_parameters import shortened

MOST_METRICS, MOST_PARAMETERS, MOST_TAGS, MOST_ENTITIES = 1000, 100, 100, 1000
MOST_BYTES = 900_000
"""Of 1,000,000: run ids, timestamps and the request around them take the rest."""
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6000, 8000

_NO_CHARACTER = re.compile(r"[^\w.\- :]", re.ASCII)
_METRIC_BYTES = 200
"""Numbers, time and ids of a metric; its name comes on top."""
_FIELD_BYTES = 20
_DIGEST = 12


@dataclass(frozen=True)
class Tag:
    """A tag of an MLflow run."""

    name: str
    value: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of an MLflow run."""

    name: str
    value: str


Entity = PublishedFigure | Parameter | Tag


@dataclass
class Batch:
    """The content of one request."""

    metrics: list[PublishedFigure] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    """An upper bound of what they take."""

    @property
    def entities(self) -> int:
        """Everything counted together."""
        return len(self.metrics) + len(self.parameters) + len(self.tags)

    def has_room(self, entity: Entity) -> bool:
        """Whether one more keeps the request within every limit."""
        if self.entities >= MOST_ENTITIES or self.bytes + _bytes(entity) > MOST_BYTES:
            return False
        match entity:
            case PublishedFigure():
                return len(self.metrics) < MOST_METRICS
            case Parameter():
                return len(self.parameters) < MOST_PARAMETERS
            case Tag():
                return len(self.tags) < MOST_TAGS
            case _:
                assert_never(entity)

    def add(self, entity: Entity) -> None:
        """Take it in; there has to be room."""
        self.bytes += _bytes(entity)
        match entity:
            case PublishedFigure():
                self.metrics.append(entity)
            case Parameter():
                self.parameters[entity.name] = entity.value
            case Tag():
                self.tags[entity.name] = entity.value
            case _:
                assert_never(entity)


def allowed_name(name: str) -> str:
    """The name as MLflow takes it, different names still different.

    A character that it refuses becomes an underscore, and a digest of the name follows. So it does
    where a part between slashes reads as a folder, or the name is too long.
    """
    parts = [_NO_CHARACTER.sub("_", part) for part in name.split("/")]
    parts = ["_" if part.strip(".") == "" else part for part in parts]
    allowed = "/".join(parts)
    if allowed == name and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{allowed[: LONGEST_NAME - _DIGEST - 1]}-{digest}"


def allowed_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Names and values as MLflow takes them; a value cut short ends with the hash of all of it."""
    return {
        allowed_name(name): shortened(value, LONGEST_PARAMETER)
        for name, value in parameters.items()
    }


def allowed_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The same for tags."""
    return {allowed_name(name): shortened(value, LONGEST_TAG) for name, value in tags.items()}


def batches(
    metrics: list[PublishedFigure], parameters: Mapping[str, str], tags: Mapping[str, str]
) -> Iterator[Batch]:
    """Everything in as many requests as it takes, each within every limit."""
    entities: list[Entity] = [
        *(Tag(*one) for one in tags.items()),
        *(Parameter(*one) for one in parameters.items()),
        *metrics,
    ]
    batch = Batch()
    for entity in entities:
        if not batch.has_room(entity):
            yield batch
            batch = Batch()
        batch.add(entity)
    if batch.entities:
        yield batch


def _bytes(entity: Entity) -> int:
    """In a JSON request, where other letters than ASCII's may be escaped."""
    value = _METRIC_BYTES if isinstance(entity, PublishedFigure) else len(json.dumps(entity.value))
    return len(json.dumps(entity.name)) + value + _FIELD_BYTES
