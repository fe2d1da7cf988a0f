"""The OpenAPI document before the linters, generators and fuzzers of others: `make
test-integrations`. Needs npm with its registry, and a Java."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from infrastructure.settings import Settings
from tests.cli.service import Service
from tests.client.generated import bodies, lost
from tests.house import ROOT
from tests.processes import completed

BESIDE = Path(sys.executable).parent
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        not (BESIDE / "openapi-generator-cli").exists(), reason="needs the extra `integrations`"
    ),
]
NPM = {
    "@hey-api/openapi-ts": "0.95.0",
    "@stoplight/spectral-cli": "6.16.3",
    "openapi-typescript": "7.13.0",
    "typescript": "5.9.3",
}
COMPILED = ("--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext",
            "--moduleResolution", "bundler", "--lib", "es2022,dom")  # fmt: skip
VALIDATOR = "package validator\n\nfunc Validate(v interface{}) error { return nil }\n"
"""What Go's models validate their tags by; they have none."""


def run(*command: str | Path, cwd: Path, **more: Any) -> str:
    """What a command prints. Fails with all of it where the command does."""
    ended = completed([str(word) for word in command], cwd=cwd, timeout=1500, **more)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The service's document."""
    return create_app(Settings()).openapi()


@pytest.fixture(scope="module")
def folder(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document as a file, with all bodies that are sent beside it."""
    made = tmp_path_factory.mktemp("generated")
    (made / "openapi.json").write_text(json.dumps(document))
    names = ("Name", "Schema", "Body")
    sent = [dict(zip(names, one, strict=True)) for one in bodies(document)]
    (made / "bodies.json").write_text(json.dumps(sent))
    return made


@pytest.fixture(scope="module")
def tools(folder: Path) -> Path:
    """Where the programs of the packages from npm are."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    packages = [f"{name}@{version}" for name, version in NPM.items()]
    run("npm", "install", "--no-audit", "--no-fund", *packages, cwd=folder)
    return folder / "node_modules/.bin"


def test_spectral_finds_nothing(folder: Path, tools: Path) -> None:
    (folder / "rules.yaml").write_text("extends: ['spectral:oas']\n")
    run(tools / "spectral", "lint", "openapi.json", "--ruleset", "rules.yaml",
        "--fail-severity", "hint", cwd=folder)  # fmt: skip


@pytest.mark.parametrize(
    ("generator", "imported", "model"),
    [
        ("openapi-ts -i openapi.json -o sdk", "* as S from './sdk/types.gen'", "S.{}"),
        (
            "openapi-typescript openapi.json -o types.ts --default-non-nullable=false",
            "{ components } from './types'",
            "components['schemas']['{}']",
        ),
    ],
)
def test_types_of_typescript_take_every_example(
    folder: Path, tools: Path, document: dict, generator: str, imported: str, model: str
) -> None:
    run(*f"{tools}/{generator}".split(), cwd=folder)
    lines = [
        f"export const body{place}: {model.format(schema)} = {json.dumps(body)};"
        for place, (_, schema, body) in enumerate(bodies(document))
    ]
    (folder / "sent.ts").write_text("\n".join([f"import type {imported};", *lines]))
    run(tools / "tsc", *COMPILED, "sent.ts", cwd=folder)


def test_a_client_in_go_sends_every_example(folder: Path, document: dict) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    run(BESIDE / "openapi-generator-cli", "generate", "-i", "openapi.json", "-g", "go", "-o", "go",
        "-p", "useOneOfDiscriminatorLookup=true", cwd=folder)  # fmt: skip
    client = folder / "go"
    for path, text in {
        "validator/go.mod": "module gopkg.in/validator.v2\n",
        "validator/validator.go": VALIDATOR,
        "sends/main.go": (ROOT / "tests/client/round_trip.go").read_text("utf-8"),
    }.items():
        (client / path).parent.mkdir(exist_ok=True)
        (client / path).write_text(text)
    described = (client / "go.mod").read_text()
    module = described.split()[1]
    (client / "go.mod").write_text(f"{described}\nreplace gopkg.in/validator.v2 => ./validator\n")
    made = "\n".join(
        f'"{schema}": func() interface{{}} {{ return new(api.{schema}) }},'
        for schema in sorted({schema for _, schema, _ in bodies(document)})
    )
    (client / "sends/models.go").write_text(
        f'package main\n\nimport api "{module}"\n\n'
        f"var models = map[string]func() interface{{}}{{\n{made}\n}}\n"
    )
    offline = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOSUMDB": "off", "HOME": str(folder)}
    kept = json.loads(
        run(BESIDE / "go", "run", "./sends", folder / "bodies.json", cwd=client, env=offline)
    )
    for name, _, body in bodies(document):
        assert lost(body, kept[name]) == "", name


def test_schemathesis_finds_nothing(running_service: Service, tmp_path: Path) -> None:
    """Every check. Where a body is refused that its schema admits, for fields that contradict each
    other or data that is not there, the answer is a declared one."""
    service = running_service.in_project("fuzzed")
    (tmp_path / "schemathesis.toml").write_text(
        '[checks.positive_data_acceptance]\nexpected-statuses = ["2xx", "4xx", 503]\n'
    )
    run(Path(sys.executable).with_name("schemathesis"), "run", f"{service.url}/openapi.json",
        "-H", f"Authorization: Bearer {service.api_key}", "--checks", "all", "-n", "4",
        "--phases", "examples,coverage,fuzzing", "--seed", "1", "--continue-on-failure",
        # Else it revokes its own key.
        "--exclude-path-regex", "api-keys", cwd=tmp_path)  # fmt: skip
