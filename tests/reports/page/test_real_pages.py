"""Pages of reports that runs and audits in this process left: how long they are."""

import html
import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pypdf import PdfReader
from typer.testing import CliRunner

from fedaudit.cli.main import app
from fedaudit.reports.page.pdf import pdf_of
from tests.reports.page.weasyprint_here import needs_pango

_EXAMPLES = Path("examples")
_MANY_ROUNDS = {
    "training": {"loss": "mse", "hypotheses": 2, "rounds": 95, "cohort": {"clients": 6}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
}


def page_of(folder: Path, example: str, **changes: Any) -> str:
    """The page of a run of an example whose parts were replaced."""
    spec = {**yaml.safe_load((_EXAMPLES / example).read_text()), **changes}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    words = ["run", str(folder / "spec.yaml"), "--out", str(folder / "out")]
    done = CliRunner().invoke(app, words, env={"FEDAUDIT_SOURCES_DIR": str(_EXAMPLES)})
    assert done.exit_code in (0, 1), done.output
    return (folder / "out" / "report.html").read_text()


def words_of(page: str) -> int:
    """How many words a reader sees who has unfolded everything."""
    shown = re.sub(r"<(style|head|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return len(html.unescape(re.sub(r"<[^>]+>", " ", shown)).split())


def pages_of(page: str) -> int:
    return len(PdfReader(io.BytesIO(pdf_of(page))).pages)


@needs_pango
def test_a_report_on_one_attribute_has_three_pages_on_paper(tmp_path: Path) -> None:
    page = page_of(tmp_path, "release.yaml")
    assert words_of(page) <= 2000
    assert pages_of(page) <= 3


@needs_pango
@pytest.mark.parametrize(
    "changes",
    [_MANY_ROUNDS, {"fairness": {"sensitive": ["sex", "town", "work"], "minimum_group_size": 5}}],
)
def test_many_rounds_and_attributes_have_three_pages_on_paper(tmp_path: Path, changes: Any) -> None:
    assert pages_of(page_of(tmp_path, "people.yaml", **changes)) <= 3
