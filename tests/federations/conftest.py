"""Specs and files for the tests of this room."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.spec.parse import parse_admitted
from tests.refusals import refused_by

Load = Callable[..., Federation]
Refuse = Callable[..., dict[str, str]]

BASE: dict[str, Any] = {
    "name": "a test",
    "federation": {
        "source": "table",
        "path": "data.csv",
        "client_key": "hospital",
        "target": "cost",
        "validation_fraction": 0.5,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 1}},
    "privacy": {"mechanism": "none"},
}

CLASSIFIER: dict[str, Any] = {"model": {"kind": "logistic"}, "training.loss": "cross-entropy"}


def spec_value(changes: dict[str, Any]) -> dict[str, Any]:
    """BASE with changes: "training.loss" changes one field, and None takes a field away."""
    value = {name: dict(part) if isinstance(part, dict) else part for name, part in BASE.items()}
    for path, change in changes.items():
        part, _, field = path.partition(".")
        if not field:
            value[part] = change
        elif change is None:
            value[part].pop(field, None)
        else:
            value.setdefault(part, {})[field] = change
    return value


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A sources folder, with room for files beside it."""
    folder = tmp_path / "sources"
    folder.mkdir()
    return folder


@pytest.fixture
def load(sources: Path) -> Load:
    """Load a federation through the front door; `data` is written to data.csv first."""

    def load(
        changes: dict[str, Any] | None = None, *, data: str | bytes | None = None
    ) -> Federation:
        if data is not None:
            content = data.encode() if isinstance(data, str) else data
            (sources / "data.csv").write_bytes(content)
        return load_federation(parse_admitted(spec_value(changes or {})), sources_dir=sources)

    return load


@pytest.fixture
def refuse(load: Load) -> Refuse:
    """Load what cannot be used, and give the faults as {pointer: message}."""

    def refuse(
        changes: dict[str, Any] | None = None, *, data: str | bytes | None = None
    ) -> dict[str, str]:
        return {error.pointer: error.message for error in refused_by(load, changes, data=data)}

    return refuse
