"""Registering files in tests."""

from pathlib import Path
from typing import Any

from fedaudit.federations.load import RegisteredData
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.registration import parse_registration
from tests.refusals import refused_by


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
