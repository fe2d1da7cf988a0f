"""What clients of `/v1` were promised: `python -m tests.api.http.promised` adds what has come.

Nothing is ever taken out of `promised.json`: docs/versions.md says how a name may end.
"""

import json
from pathlib import Path
from typing import Any

from api.app import create_app
from infrastructure.settings import Settings

PROMISED = Path(__file__).with_name("promised.json")


def promises(document: dict[str, Any]) -> dict[str, Any]:
    """The names of a document: each operation with its place and parameters, the fields of each
    schema, and the fields without which a body is refused."""
    sent, operations = set(), {}
    for path, item in document["paths"].items():
        for method, one in item.items():
            names = [f"{part['in']} {part['name']}" for part in one.get("parameters", [])]
            operations[one["operationId"]] = [f"{method.upper()} {path}", *sorted(names)]
            for content in one.get("requestBody", {}).get("content", {}).values():
                sent.add(content["schema"].get("$ref", "").rpartition("/")[2])
    schemas = document["components"]["schemas"]
    fields = {name: sorted(one.get("properties", ())) for name, one in sorted(schemas.items())}
    needed = {name: sorted(schemas[name].get("required", ())) for name in sorted(sent - {""})}
    return {"operations": operations, "fields": fields, "needed": needed}


if __name__ == "__main__":
    found = promises(create_app(Settings()).openapi())
    lines = {
        kind: ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in names.items())
        for kind, names in found.items()
    }
    whole = ",\n".join(f' "{kind}": {{\n{text}\n }}' for kind, text in lines.items())
    PROMISED.write_text(f"{{\n{whole}\n}}\n", "utf-8")
