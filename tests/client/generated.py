"""A client that a generator makes of the service's own OpenAPI document, and what it is to send."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.house import ROOT
from tests.processes import completed

PACKAGE = "generated_fedaudit"
Body = tuple[str, str, Any]


def generate(document: dict[str, Any], folder: Path) -> None:
    """Make the package PACKAGE in a folder.

    Fails where the generator has anything to say: it leaves out what it cannot make, and ends well.
    """
    described = folder / "openapi.json"
    described.write_text(json.dumps(document))
    settings = yaml.safe_load((ROOT / "clients/openapi-python-client.yaml").read_text("utf-8"))
    settings |= {"package_name_override": PACKAGE, "post_hooks": []}
    (folder / "generator.json").write_text(json.dumps(settings))
    ended = completed(
        [
            *(sys.executable, "-W", "error", "-m", "openapi_python_client", "generate"),
            *("--path", str(described), "--config", str(folder / "generator.json")),
            *("--output-path", str(folder / PACKAGE), "--meta", "none", "--fail-on-warning"),
        ]
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def bodies(document: dict[str, Any]) -> Iterator[Body]:
    """Every spec, sweep and registration of the examples, and the example of every operation: where
    it is from, its schema, and the body."""
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if path.parent.name != "policies":
            body = yaml.safe_load(path.read_text("utf-8"))
            kinds = {"base": "SweepSpec", "training": "ExperimentSpec"}
            schema = next((kind for field, kind in kinds.items() if field in body), "Registration")
            yield str(path.relative_to(ROOT)), schema, body
    for item in document["paths"].values():
        for operation in item.values():
            sent = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if sent:
                schema = sent["schema"]["$ref"].rpartition("/")[2]
                yield operation["operationId"], schema, sent["example"]


def lost(sent: Any, kept: Any, at: str = "") -> str:
    """Where something of a value is not in another one, which may have more fields."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        pairs = ((one, kept.get(name), f"{at}/{name}") for name, one in sent.items())
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        pairs = (
            (*pair, f"{at}/{place}") for place, pair in enumerate(zip(sent, kept, strict=True))
        )
    else:
        return "" if sent == kept else f"{at}: {sent!r} became {kept!r}"
    return next(filter(None, (lost(*pair) for pair in pairs)), "")
