"""Specs, files and registrations for the tests of this room, and how two loads are compared."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import (
    RegisteredData,
    check_agreement,
    load_federation,
    outline_federation,
)
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted
from fedaudit.spec.registration import parse_registration
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
    """Load a federation for a new spec; `data` is written to data.csv first."""

    def load(
        changes: dict[str, Any] | None = None, *, data: str | bytes | None = None
    ) -> Federation:
        if data is not None:
            content = data.encode() if isinstance(data, str) else data
            (sources / "data.csv").write_bytes(content)
        spec = parse_admitted(spec_value(changes or {}))
        federation = load_federation(spec, sources_dir=sources)
        check_agreement(spec, federation, new=True)
        return federation

    return load


@pytest.fixture
def refuse(load: Load) -> Refuse:
    """Load what cannot be used, and give the faults as {pointer: message}."""

    def refuse(
        changes: dict[str, Any] | None = None, *, data: str | bytes | None = None
    ) -> dict[str, str]:
        return {error.pointer: error.message for error in refused_by(load, changes, data=data)}

    return refuse


def registration(
    changes: dict[str, Any] | None = None, fairness: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Of a table; a change of None takes a field away."""
    federation: dict[str, Any] = {
        "source": "table",
        "path": "data.csv",
        "client_key": "hospital",
        "target": "cost",
        **(changes or {}),
    }
    kept = {name: value for name, value in federation.items() if value is not None}
    return {"name": "a test", "federation": kept, "fairness": fairness or {}}


def profile_in(folder: Path, value: dict[str, Any]) -> dict[str, Any]:
    """The profile of what is registered from a folder."""
    return RegisteredData(parse_registration(value), Files(folder)).profile()


def refused(folder: Path, value: dict[str, Any]) -> dict[str, str]:
    """The faults of what is registered, as {pointer: message}."""
    return {fault.pointer: fault.message for fault in refused_by(profile_in, folder, value)}


Found = Federation | list[FieldError]


def assert_outlined(spec: ExperimentSpec, sources: Path) -> None:
    """What a plan is made from is the same federation but for its features, or the same errors."""
    expected = found(lambda: load_federation(spec, sources_dir=sources))
    assert_same(found(lambda: outline_federation(spec, files=Files(sources))), expected)


def found(load: Callable[[], Federation]) -> Found:
    """What loading gives: data, or errors in their order."""
    try:
        return load()
    except InvalidInputError as error:
        return list(error.errors)


def assert_same(outline: Found, expected: Found) -> None:
    """Equal but for features that an outline has not."""
    if isinstance(expected, list) or isinstance(outline, list):
        assert outline == expected
        return
    assert (outline.is_outline, expected.is_outline) == (True, False)
    assert outline.features.shape == expected.features.shape  # type: ignore[union-attr]
    assert_alike(outline, expected, but=("features", "is_outline"))


def assert_alike(found: Federation, expected: Federation, *, but: tuple[str, ...] = ()) -> None:
    """Equal in every field but these."""
    for field in fields(Federation):
        if field.name in ("attributes", *but):
            continue
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other
    for mine, theirs in zip(found.attributes, expected.attributes, strict=True):
        assert (mine.name, mine.values) == (theirs.name, theirs.values)
        np.testing.assert_array_equal(mine.codes, theirs.codes)
