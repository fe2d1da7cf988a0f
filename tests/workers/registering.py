"""What the API does when a file is registered, for tests that have no API."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.spec.registration import parse_registration
from infrastructure.storage import Storage
from models.database import Database
from models.repositories import FederationRepository, ProjectRepository, UnitRepository
from models.tables.federations import Federation
from models.values import NewFile

KEY = "federations/tests/people"
REGISTRATION: dict[str, Any] = {
    "name": "people",
    "federation": {
        "source": "table",
        "path": "people.csv",
        "client_key": "client",
        "target": "y",
        "features": ["x"],
    },
    "fairness": {"sensitive": ["sex"], "minimum_group_size": 1},
}


@dataclass(frozen=True)
class Registered:
    """A federation and the unit that profiles it."""

    project_id: str
    federation_id: str
    unit_id: str


def people(rows: int) -> bytes:
    """A table of client, x, sex, y."""
    lines = [f"c{row % 30},{row / 7},{'FM'[row % 2]},{row % 5}" for row in range(rows)]
    return "\n".join(["client,x,sex,y", *lines, ""]).encode()


def register(
    database: Database,
    data: bytes,
    *,
    storage: Storage | None = None,
    max_attempts: int = 3,
    fairness: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Registered:
    """Register a file that lies below the sources folder, or is put into `storage`.

    `fields` change the registration's `federation`; `fairness` replaces its groups.
    """
    federation = {**REGISTRATION["federation"], **fields}
    groups = REGISTRATION["fairness"] if fairness is None else fairness
    registration = parse_registration(
        {**REGISTRATION, "federation": federation, "fairness": groups}
    )
    if storage is not None:
        with storage.writer(KEY) as writer:
            writer.write(data)
    content = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    file = NewFile(
        fingerprint=hashlib.sha256(content).hexdigest(),
        registration=registration.model_dump(mode="json"),
        file_name="people.csv",
        size_bytes=len(data),
        storage_key=None if storage is None else KEY,
    )
    with database.write() as session:
        project = ProjectRepository(session).get_or_create("tests")
        units = UnitRepository(session)
        unit = units.create(project.id, "auto", kind="profile", max_attempts=max_attempts)
        row = FederationRepository(session, project.id).register(file, unit_id=unit.id)
        return Registered(project.id, row.id, unit.id)


def federation_of(database: Database, registered: Registered) -> Federation:
    """The federation as it is now."""
    with database.read() as session:
        found = FederationRepository(session, registered.project_id).get(registered.federation_id)
    assert found is not None
    return found
