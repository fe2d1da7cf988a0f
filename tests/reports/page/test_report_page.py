"""The report as a page: complete, escaped, self-contained, with the tables of its attributes."""

import html
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedaudit.cli.main import app
from fedaudit.number_text import figure_text
from fedaudit.reports.page.html import render
from fedaudit.reports.page.report_tables import attack_tables, fairness_tables, false_alarm_chance
from fedaudit.reports.report import assemble
from tests.reports.conftest import SPEC

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
    document["gates"] = [failed, *document["gates"][1:]]
    top = render(document).split("What it rests on")[0]
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


# -- tables ---------------------------------------------------------------------------------------


@pytest.fixture
def section(material):
    return assemble(material())["fairness"][0]


def tables_of(section):
    """The tables of one attribute."""
    return fairness_tables([section])[0][0]


def test_what_tables_share_is_noted_once_on_the_page(material):
    sections = assemble(material())["fairness"] * 3
    by_section, notes = fairness_tables(sections)
    marks = {row[-1] for tables in by_section for table in tables for row in table.rows}
    assert notes
    assert set(notes) <= marks
    assert len(set(notes.values())) == len(notes)


def cells(table):
    """Header of the row -> header of the column -> text."""
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


def test_a_gap_is_shown_beside_its_interval(section):
    table = cells(tables_of(section)[0])
    metric = section["metrics"]["equalized_odds_difference"]
    row = table["equalized odds difference"]
    ends = (metric["interval"]["low"], metric["interval"]["high"])
    assert row["Value"] == figure_text(metric["value"])
    assert row["95 % interval"] == " to ".join(map(figure_text, ends))


def test_a_missing_figure_has_its_reason_in_the_note(material):
    parts = {"fairness": {**SPEC["fairness"], "minimum_group_size": 10_000}}
    for table in tables_of(assemble(material(parts))["fairness"][0])[:2]:
        assert table.empty
        assert all(row[-1] for row in table.rows)
    page = " ".join(render(assemble(material(parts))).split())
    # One sentence in place of a table of dashes, with a reason that is said once.
    stated = "Rates of the groups of group: there is no figure to show. Suppressed:"
    assert page.count(stated) == 1
    assert "<caption>Rates of the groups of group</caption>" not in page


def test_epsilon_and_leakage_are_never_shown_as_less_than_they_are(material):
    document = assemble(material())
    document["privacy"]["leakage_max"] = 2.40001
    text = render(document)
    assert "at most 2.401, which bounds no guess" in text
    assert '<td class="number">2.401</td>' in text


# -- the figures of an attack on a page, whatever its kind names them -----------------------------


LONG = "the noise of the companion is drawn as the run draws its own"
_ABOUT = {
    **{"kind": "membership", "status": "done", "reason": None, "alarm": None},
    **{"statement": "Guesses.", "capabilities": [], "method": "threshold"},
}
SECTION: dict[str, Any] = {
    **_ABOUT,
    "auc": 0.5123456,
    "delta": 1e-5,
    "share": None,
    "share_reason": "too few rows",
    "claim": None,
    "shadows": None,
    "assumption": LONG,
    "interval": {"low": 0.25, "high": 0.5, "level": 0.95},
    "baseline": {"mse": 0.125, "ssim": None},
    "results": [
        {
            "noise_multiplier": 0.5,
            "nearest": {"value": 0.75, "interval": {"low": 0.5, "high": 1.0}, "reason": None},
            "groups": [{"value": "g1", "tpr": 0.25}, {"value": "g2", "tpr": None}],
        },
        {
            "noise_multiplier": 1,
            "nearest": {"value": None, "interval": None, "reason": "few"},
            "groups": [],
        },
    ],
    "reasons": {"shadows": "none are needed"},
}


def test_every_figure_is_shown_with_its_interval_or_its_reason() -> None:
    [shown] = attack_tables([SECTION])
    assert shown.title == "Membership: can a record be recognised as one of training? (threshold)"
    figures, results, groups = shown.tables
    assert {label: (value, note) for label, value, note in figures.rows} == {
        "Method": ("threshold", ""),
        "Area under the ROC curve (0.5 is guessing)": ("0.5123", ""),
        "Delta": ("1e-05", ""),
        "Share": ("–", "too few rows"),
        "Shadows": ("–", "none are needed"),
        "Assumption": ("", LONG),
        "Interval": ("0.25 to 0.5 (95 %)", ""),
        "Baseline: mean squared error": ("0.125", ""),
    }
    assert (results.caption, results.head) == ("Results", ["Noise multiplier", "Nearest"])
    assert not results.words
    assert results.rows == [["0.5", "0.75 (0.5 to 1)"], ["1", "few"]]
    assert groups.caption == "Results: noise multiplier 0.5, groups"
    assert groups.rows == [["g1", "0.25"], ["g2", "–"]]


def test_chances_of_a_false_alarm_add_up_over_attacks() -> None:
    assert false_alarm_chance([SECTION, {**SECTION, "alarm_level": None}]) is None
    tested = [{**SECTION, "alarm_level": level} for level in (0.05, 0.01)]
    assert false_alarm_chance([SECTION, *tested]) == "0.06"
    assert false_alarm_chance([{"alarm_level": 0.05}] * 40) == "1"
    # Attacks with e-values share one level, beside which stand those of earlier versions.
    weighed = {**SECTION, "alarm_level": 0.01, "e_value": 0.5}
    assert false_alarm_chance([*tested, *[weighed] * 40]) == "0.07"
