"""The page of a report that a run in this process left: how long it is."""

import html
import re
from pathlib import Path

from typer.testing import CliRunner

from fedaudit.cli.main import app

_EXAMPLES = Path("examples")


def page_of(folder: Path, example: str) -> str:
    """The page of a run of an example."""
    words = ["run", str(_EXAMPLES / example), "--out", str(folder / "out")]
    done = CliRunner().invoke(app, words, env={"FEDAUDIT_SOURCES_DIR": str(_EXAMPLES)})
    assert done.exit_code in (0, 1), done.output
    return (folder / "out" / "report.html").read_text()


def words_of(page: str) -> int:
    """How many words a reader sees who has unfolded everything."""
    shown = re.sub(r"<(style|head|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return len(html.unescape(re.sub(r"<[^>]+>", " ", shown)).split())


def test_a_report_on_one_attribute_has_two_thousand_words_at_most(tmp_path: Path) -> None:
    assert words_of(page_of(tmp_path, "release.yaml")) <= 2000
