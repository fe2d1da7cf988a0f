"""The generated pages of the site: `mkdocs build` calls `on_files`, which adds them.

Fields of a spec, operations of the HTTP interface, commands, settings, the violations that a replay
is tried on, and the tables of the reproduced papers. Nothing of it is written by hand or stored.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from typer.main import get_command

from api.app import create_app
from benchmarks.reproductions.kept_sweeps import KEPT
from benchmarks.reproductions.side_by_side import tables
from fedaudit.cli.main import app
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sweeps import SweepSpec
from infrastructure.settings import Settings
from tests.attacks.zoo.whole_zoo import table as zoo_table

Lines = Iterator[str]
_METHODS = ("get", "post", "put", "patch", "delete")
_ROOT = Path(__file__).parents[1]


def spec_page() -> Lines:
    """Every object of the spec's JSON schema, with its fields."""
    yield "# The spec\n\nThe fields of an experiment, and of a sweep.\n"
    definitions: dict[str, Any] = {}
    for model in (ExperimentSpec, SweepSpec):
        schema = model.model_json_schema()
        definitions |= {model.__name__: schema} | schema.pop("$defs", {})
    for name, schema in definitions.items():
        if "properties" in schema:
            yield f"## {name}\n\n{_cell(schema.get('description', ''))}\n"
            yield "| field | type | default | |\n|---|---|---|---|"
            required = schema.get("required", [])
            for field, one in schema["properties"].items():
                default = "required" if field in required else f"`{one.get('default')!r}`"
                said = _cell(one.get("description", ""))
                yield f"| `{field}` | {_kind(one)} | {_cell(default)} | {said} |"
            yield ""


def http_page() -> Lines:
    """Every operation of the OpenAPI document."""
    document = create_app(Settings()).openapi()
    yield "# The HTTP interface\n\n| call | operation | |\n|---|---|---|"
    for path, item in document["paths"].items():
        for method in _METHODS:
            if one := item.get(method):
                summary = _cell(one.get("summary", ""))
                yield f"| `{method.upper()} {path}` | `{one['operationId']}` | {summary} |"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line, with its click command."""
    waiting = [("fedaudit", get_command(app))]
    while waiting:
        name, command = waiting.pop(0)
        if hasattr(command, "commands"):
            context = command.context_class(command)
            found = (
                (one, command.get_command(context, one)) for one in command.list_commands(context)
            )
            waiting += [(f"{name} {one}", below) for one, below in found]
        else:
            yield name, command


def command_page() -> Lines:
    """Every command with its arguments and options."""
    yield "# The command line\n"
    for name, command in commands():
        yield f"## {name}\n\n{_cell(command.help or '')}\n"
        yield "| | |\n|---|---|"
        for one in command.params:
            names = ", ".join([*one.opts, *one.secondary_opts]) if one.opts else one.name
            yield f"| `{names}` | {_cell(getattr(one, 'help', None) or '')} |"
        yield ""


def settings_page() -> Lines:
    """Every setting by its variable; the descriptions are the texts below the fields."""
    yield "# Settings\n\n| variable | default | |\n|---|---|---|"
    [body] = (
        one.body
        for one in ast.parse(inspect.getsource(inspect.getmodule(Settings) or Settings)).body
        if isinstance(one, ast.ClassDef) and one.name == Settings.__name__
    )
    texts = {
        first.target.id: ast.literal_eval(second.value)
        for first, second in pairwise(body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
    }
    for name, field in Settings.model_fields.items():
        default = "" if field.default_factory else f"`{field.default!r}`"
        yield f"| `FEDAUDIT_{name.upper()}` | {default} | {_cell(texts.get(name, ''))} |"


def zoo_page() -> Lines:
    """What `fedaudit replay` finds of the sabotaged mechanisms of the tests."""
    yield "# The zoo of violations\n\nThe real code, sabotaged in one place for each line.\n"
    yield from zoo_table()


def papers_page() -> Lines:
    """The tables of the papers' sweeps that are kept."""
    yield "# Tables of the reproduced papers\n\nMeans over seeds with 95 % intervals of the mean.\n"
    for name, text in tables(_ROOT / KEPT).items():
        yield f"## {name}\n\n{text}\n"


PAGES: dict[str, Callable[[], Lines]] = {
    "reference/spec.md": spec_page,
    "reference/http.md": http_page,
    "reference/command-line.md": command_page,
    "reference/settings.md": settings_page,
    "reference/zoo.md": zoo_page,
    "reference/papers.md": papers_page,
}
"""By the path in the site."""


def on_files(files: Any, config: Any) -> Any:
    """The hook of mkdocs: adds the generated pages to the written ones."""
    from mkdocs.structure.files import File

    for path, page in PAGES.items():
        files.append(File.generated(config, path, content="\n".join(page())))
    return files


def _cell(text: str) -> str:
    """One line without what ends a cell of a table or begins an element of HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _kind(schema: dict[str, Any]) -> str:
    """A type in words, a definition by its name."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if not name.endswith("Kind") else name
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_kind(one) for one in several))
    if "const" in schema:
        return f"`{schema['const']!r}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
