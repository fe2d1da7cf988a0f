"""Files below the sources folder that belong to projects: to any other they are not there."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedaudit.federations.reading.source_files import open_path
from fedaudit.spec.errors import InvalidInputError
from tests.api.service import Api, running_api, settings_for
from tests.api.uploads import CONTENT, make_ready, registration, spec_of, stored
from workers.context import ProjectFiles, WorkerContext

SCOPES = ("experiments:read", "experiments:write", "federations:read", "federations:write")
HOSPITAL, BETA = "hospital", "beta"


@pytest.fixture(scope="module")
def api(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two projects; each has a folder, and `beta` has links to what is the other's."""
    tmp_path = tmp_path_factory.mktemp("rights")
    shutil.copyfile(sqlite_template, tmp_path / "fedaudit.db")
    sqlite_url = f"sqlite:///{tmp_path}/fedaudit.db"
    declared = tmp_path / "map.yaml"
    declared.write_text('hospital: [hospital]\nbeta: [beta]\n"all": ["*"]\n')
    settings = settings_for(sqlite_url, tmp_path, sources_map=declared)
    sources = tmp_path / "sources"
    for folder in ("hospital", "beta", "all", "nobody"):
        (sources / folder).mkdir()
        (sources / folder / "incomes.csv").write_bytes(CONTENT)
    (sources / "beta" / "link.csv").symlink_to(sources / "hospital" / "incomes.csv")
    (sources / "beta" / "folder").symlink_to(sources / "hospital")
    (sources / "hospital" / "out.csv").symlink_to(tmp_path / "elsewhere.csv")
    (sources / "hospital" / "circle.csv").symlink_to(sources / "hospital" / "circle.csv")
    (tmp_path / "elsewhere.csv").write_bytes(CONTENT)
    with running_api(settings) as running:
        yield running


def answers(api: Api, path: str, key: str) -> list[tuple[int, Any]]:
    """To everything that names a file by its path."""
    described = registration(federation={"path": path})
    asked = spec_of({"path": path})
    found = [
        api.post("/v1/federations", json=described, key=key),
        api.post("/v1/experiments", json=asked, key=key),
        api.check(asked, key=key),
    ]
    return [(answer.status_code, answer.json()) for answer in found]


@pytest.mark.parametrize(
    "path",
    [
        *("hospital/incomes.csv", "hospital/./incomes.csv", "hospital", "hospital/out.csv"),
        *("hospital/circle.csv", "hospital/none.csv", "beta/link.csv", "beta/folder/incomes.csv"),
        *("beta/folder", "nobody/incomes.csv", "nobody", "none.csv"),
    ],
)
def test_a_file_of_another_project_is_answered_as_one_that_is_not_there(api, path):
    # Of one request id, so that equal answers are equal in every character.
    api.client.headers["X-Request-ID"] = "no-oracle"
    key = api.key_with(*SCOPES, project=BETA)
    missing = f"{'x' * len(path)}"
    with api.unchanged():
        expected = str(answers(api, missing, key)).replace(missing, path)
        assert str(answers(api, path, key)) == expected
        assert "there is no file" in expected


def test_a_project_reads_its_own_files_and_those_of_all(api: Api) -> None:
    for project in (HOSPITAL, BETA):
        key = api.key_with(*SCOPES, project=project)
        for path in (f"{project}/incomes.csv", "all/incomes.csv"):
            registered, submitted, _ = answers(api, path, key)
            assert registered[0] in (200, 202)
            assert submitted[0] == 202
    # Loaded data are kept for the next spec, which must not be another project's.
    asked = spec_of({"path": "hospital/incomes.csv"})
    for _ in range(2):
        assert api.check(asked).status_code == 200
    key = api.key_with(*SCOPES, project=BETA)
    answer = api.check(asked, key=key)
    assert answer.json()["errors"][0]["pointer"] == "/federation/path"


def test_a_registration_from_before_the_map_leads_nowhere(sqlite_url: str, tmp_path: Path) -> None:
    """The file was registered while all files were open to all; so workers too ask the map."""
    settings = settings_for(sqlite_url, tmp_path)
    described = registration(federation={"path": "incomes.csv"})
    with running_api(settings) as api:
        api.put_source("incomes.csv", CONTENT)
        key = api.key_with(*SCOPES, project=BETA)
        id_ = api.post("/v1/federations", json=described, key=key).json()["id"]
        make_ready(api, id_)
        asked = spec_of({"id": id_})
        path = "/v1/experiments?validate_only=true"
        assert api.post(path, json=asked, key=key).status_code == 200
    declared = tmp_path / "map.json"
    declared.write_text('{"incomes.csv": ["hospital"]}')
    with running_api(settings_for(sqlite_url, tmp_path, sources_map=declared)) as api:
        key = api.key_with(*SCOPES, project=BETA)
        [fault] = api.post(path, json=asked, key=key).json()["errors"]
        assert fault["pointer"] == "/federation/id"
        assert "no longer stored" in fault["message"]
        context = WorkerContext(api.settings, api.database, queue=None, device="cpu")  # type: ignore[arg-type]
        files = ProjectFiles(context, stored(api, id_).project_id)
        with pytest.raises(InvalidInputError, match="no longer stored"), files.open(id_):
            pass
        with (
            pytest.raises(InvalidInputError, match="there is no file"),
            open_path("incomes.csv", files=files.files, pointer="/federation/path"),
        ):
            pass
        own = ProjectFiles(context, api.project_id).files
        with open_path("incomes.csv", files=own, pointer="/federation/path") as file:
            assert file.read_all() == CONTENT
