"""`from fedaudit import Client`, which costs nothing until it is asked for."""

import sys

import pytest

import fedaudit
from fedaudit_client.client import Client
from tests.processes import completed

PROGRAM = """
import sys
import fedaudit
assert "httpx" not in sys.modules
from fedaudit import Client
assert "httpx" in sys.modules
"""


def test_the_client_is_at_the_door():
    assert fedaudit.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Clients'"):
        fedaudit.Clients  # noqa: B018


def test_http_is_imported_with_the_client_and_not_before():
    done = completed([sys.executable, "-c", PROGRAM])
    assert done.returncode == 0, done.stderr
