"""The client alone: what its distribution asks for, and what its import brings."""

import re
import sys
import tomllib
from itertools import chain

from fedaudit import __version__ as of_the_service
from fedaudit_client.version import __version__
from tests.cli.service import clean_environment
from tests.house import PLACES, ROOT
from tests.processes import completed

CLIENT = PLACES["fedaudit_client"]
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]

# Imports the client where neither the service nor what is heavy can be imported, and calls
# something, so that what is imported late is imported too.
PROGRAM = """
import sys
for name in {blocked}:
    sys.modules[name] = None
sys.path.insert(0, {place!r})
from fedaudit_client import Client, Retries, UnreachableError
with Client("http://127.0.0.1:1", "k", retries=Retries(attempts=1)) as client:
    asked = lambda: client.ask("GET", "api-keys")
    for call in (asked, lambda: list(client.list()), lambda: client.submit({{}})):
        try:
            call()
        except UnreachableError as error:
            assert "127.0.0.1:1 does not answer" in str(error)
            continue
        raise AssertionError("somebody answered")
"""
HEAVY = (
    "alembic", "celery", "fastapi", "numpy", "orjson", "pandas", "pyarrow", "pydantic", "redis",
    "scipy", "sqlalchemy", "torch", "typer", "yaml",
)  # fmt: skip


def test_it_asks_for_two_libraries_and_the_service_carries_it_and_asks_no_index_for_it():
    names = [one.split(">")[0] for one in PROJECT["dependencies"]]
    assert names == ["httpx", "tenacity"]
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*server["dependencies"], *chain(*server["optional-dependencies"].values())]
    assert {re.split(r"[\[<>=]", one)[0] for one in asked if "fedaudit" in one} == {"fedaudit"}
    assert {*PROJECT["dependencies"]} <= {*server["dependencies"]}
    assert __version__ == of_the_service


def test_it_works_without_the_service_and_without_heavy_libraries():
    ours = set(PLACES) - {"fedaudit_client"}
    program = PROGRAM.format(blocked=sorted({*HEAVY, *ours}), place=str(CLIENT))
    done = completed([sys.executable, "-P", "-c", program], env=clean_environment())
    assert done.returncode == 0, done.stderr
