"""What the client says of the service's answers is what the service says of them."""

from pathlib import Path

from api.app import create_app
from api.http.problems import KINDS
from clients.client_types import FILE, written
from fedaudit_client.errors import PROBLEMS
from tests.api.service import settings_for


def test_the_result_types_are_those_of_the_document(tmp_path: Path) -> None:
    app = create_app(settings_for(f"sqlite:///{tmp_path / 'none.db'}", tmp_path))
    assert FILE.read_text("utf-8") == written(app.openapi()["components"]["schemas"]), (
        "make client-types"
    )


def test_every_kind_of_problem_has_a_class() -> None:
    assert set(PROBLEMS) == set(KINDS)
