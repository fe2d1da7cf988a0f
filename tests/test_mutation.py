"""What mutation testing changes, and what it leaves alone."""

from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

from tests.mutation.__main__ import folders_of
from tests.mutation.importers import Importers, module_of
from tests.mutation.mutants import mutants_of

CODE = """
Either = int | str


def half(value: int | None, *, other: "int | None" = None) -> float | None:
    return None if value is None else value / 2
"""


def test_annotations_and_bare_stars_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "half.py"
    path.write_text(CODE)
    found = list(mutants_of(path))
    assert {mutant.line for mutant in found} == {6}
    assert all(mutant.parses() for mutant in found)
    diffs = {mutant.diff() for mutant in found}
    before = "-    return None if value is None else value / 2\n"
    assert f"{before}+    return None if value is None else value * 2" in diffs
    assert f"{before}+    return None if value is not None else value / 2" in diffs


def test_whatever_imports_a_changed_module_is_imported_anew() -> None:
    found = Importers().of(module_of(Path("fedaudit/ledger/encoding.py")))
    assert {"fedaudit.ledger.encoding", "fedaudit.ledger.audit"} <= found
    assert "fedaudit.randomness" not in found
    errors = Importers().of(module_of(Path("clients/python/fedaudit_client/errors.py")))
    assert {"fedaudit_client.client", "fedaudit.cli.experiments"} <= errors


def test_the_tests_that_mirror_a_folder_or_a_file() -> None:
    assert folders_of(Path("fedaudit/privacy/records")) == ["tests/privacy/records"]
    assert folders_of(Path("fedaudit/privacy/noise/gaussian.py"))[0] == (
        "tests/privacy/noise/test_grid.py"
    )
    assert folders_of(Path("fedaudit/ledger/encoding.py"))[0] == "tests/ledger"
    assert folders_of(Path("clients/python/fedaudit_client/keys.py")) == ["tests/client"]
