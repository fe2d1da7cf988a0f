"""The report as a page: complete, escaped, and self-contained."""

import html
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

from typer.testing import CliRunner

from fedaudit.cli.main import app
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Checks that tags are balanced, and keeps what matters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.headings: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "h2":
            self.headings.append(data)


def test_a_wide_table_scrolls_in_a_box_of_its_own(material):
    text = render(assemble(material()))
    boxes = text.count('<div class="wide" tabindex="0">\n<table>')
    assert boxes == text.count("<table>") > 0


def test_gates_that_did_not_pass_are_named_beside_the_verdict(material):
    document = assemble(material())
    failed = {**document["gates"][0], "outcome": "fail", "figure": "loss_ratio", "attribute": "age"}
    top = render({**document, "gates": [failed]}).split("What it rests on")[0]
    assert "loss ratio by age</th>" in top
    assert '<td class="outcome fail">fail</td>' in top


def test_figures_reasons_gates_and_limits_are_on_the_page(material):
    report = assemble(material())
    text = render(report)
    ledger_hash = report["integrity"]["ledger_hash"]
    for part in ("2.4", "heuristic", "g1", "at most", "insufficient", ledger_hash):
        assert part in text
    assert text.count("<li>") == len(report["limits"]) + len(report["answer"]["reasons"])


PARTS = {
    "release": "No: the noise was simulated.",
    "cost": "A leakage of 182, too large to protect anyone.",
    "fairness": "g1 is selected less often than g2.",
    "next": "Train with secret noise.",
}


def test_the_first_screen_answers_four_questions(material):
    document = assemble(material()) | {"verdict_parts": PARTS, "verdict": "in one piece"}
    text = render(document)
    top, _, rest = text.partition('<details class="section">')
    assert '<h2 id="verdict">May it be released?</h2>\n<div class="answer' in top
    for question in ("What was spent", "Who is treated worse", "What to do next"):
        assert f"<h3>{question}" in top
    for name, part in PARTS.items():
        # The sign has said it.
        assert (f"<p>{part}</p>" in top) == (name != "release")
    assert "in one piece" not in text
    assert 'id="gates"' in top
    assert rest.count('<details class="section">') == 5
    levels = [int(tag[1]) for tag in Page(text).tags if re.fullmatch("h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_a_model_that_decides_nothing_is_warned_of_above_everything_else(material):
    document = assemble(material())
    warning = "This model decides nothing."
    for known in (False, None):
        document["utility"]["degenerate"] = known
        assert warning not in render(document)
    document["utility"] |= {"degenerate": True, "baseline_loss": 0.75, "prediction_share": 0.9999}
    text = render(document)
    assert text.index(warning) < text.index('id="gates"')
    assert "Always the same answer" in text
    assert '<td class="number">0.75</td>' in text
    assert '<td class="number">0.9999</td>' in text


def test_a_report_says_when_and_under_which_spec_it_was_made(material):
    document = assemble(material())
    document["provenance"]["finished_at"] = "2030-02-03T14:05:06.123456+00:00"
    top, _, rest = render(document).partition('<h2 id="verdict">')
    assert "3 Feb 2030, 14:05 UTC" in top
    assert f"<code>{document['provenance']['spec_hash']}</code>" in rest
    document["provenance"] |= {"finished_at": None, "started_at": None}
    assert "was not recorded" in render(document)


def test_a_long_part_of_the_verdict_is_folded_after_three_sentences(material):
    report = assemble(material())
    report["verdict_parts"] |= {"cost": "It cost 0.5. Two. Three. And more.", "fairness": "Short."}
    text = render(report)
    assert "<p>It cost 0.5. Two. Three.</p>" in text
    assert "<summary>In full</summary>\n<p>And more.</p>" in text
    assert text.count("In full") == 1


# -- the page of a report that a run in this process left: how long it is -------------------------


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
