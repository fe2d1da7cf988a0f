"""Uploading in tests, and a table to upload."""

import copy
import json
from pathlib import Path
from typing import Any

from models.repositories import FederationRepository
from models.tables.federations import Federation
from tests.api.service import Api, spec

REGISTRATION: dict[str, Any] = {
    "name": "incomes",
    "federation": {"source": "table", "client_key": "client", "target": "income"},
    "fairness": {
        "sensitive": ["group"],
        "favourable": {"op": "ge", "value": 50},
        "minimum_group_size": 2,
    },
}
ROWS = [
    f"c{client},{'a' if client % 2 else 'b'},{client},{10 * row + client}"
    for client in range(40)
    for row in range(3)
]
CONTENT = "\n".join(["client,group,age,income", *ROWS, ""]).encode()
PROFILE = {"rows": 120, "clients": 40, "features": ["age"], "attributes": {}, "warnings": []}


def registration(**changes: Any) -> dict[str, Any]:
    """REGISTRATION with sections merged and anything else replaced."""
    made = copy.deepcopy(REGISTRATION)
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(value, dict) else value
    return made


def parts(
    content: bytes = CONTENT, value: Any = None, *, file_name: str = "incomes.csv"
) -> list[tuple[str, tuple[str | None, bytes | str, str]]]:
    """The parts of an upload, as httpx takes them."""
    described = json.dumps(REGISTRATION if value is None else value)
    return [
        ("registration", (None, described, "application/json")),
        ("file", (file_name, content, "text/csv")),
    ]


def upload(api: Api, content: bytes = CONTENT, value: Any = None, **options: Any) -> dict[str, Any]:
    """A federation that was accepted."""
    response = api.post("/v1/federations", files=parts(content, value), **options)
    assert response.status_code in (200, 202), response.text
    body: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/federations/{body['id']}"
    return body


def make_ready(api: Api, federation_id: str, **profile: Any) -> None:
    """What a worker does with a federation that is being profiled; parts of its profile."""
    row = stored(api, federation_id)
    with api.database.write() as session:
        federations = FederationRepository(session, row.project_id)
        assert federations.set_ready(row.id, {**PROFILE, **profile}, unit_id=str(row.unit_id))


def reject(api: Api, federation_id: str, pointer: str, message: str) -> None:
    """What a worker does with a federation that cannot be used."""
    row = stored(api, federation_id)
    with api.database.write() as session:
        federations = FederationRepository(session, row.project_id)
        reasons = [{"pointer": pointer, "message": message}]
        assert federations.set_rejected(row.id, reasons, unit_id=str(row.unit_id))


def stored(api: Api, federation_id: str) -> Federation:
    """A federation's row, whoever's it is."""
    return api.row(Federation, federation_id)


def files_of(api: Api) -> list[Path]:
    """Every file in the storage, also those that are hidden or unfinished."""
    folder = api.settings.data_dir / "files"
    return sorted(path for path in folder.rglob("*") if path.is_file())


def spec_of(federation: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An experiment on the uploaded table, which `federation` names by its id or its path."""
    made = spec(
        fairness={"sensitive": ["group"], "favourable": REGISTRATION["fairness"]["favourable"]},
        **changes,
    )
    made["federation"] = {**REGISTRATION["federation"], "validation_fraction": 0.5, **federation}
    return made
