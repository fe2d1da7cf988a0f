"""The charts on a report's page: which there are, what is said beside them, and how much it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fedaudit.reports.charts.answer_pictures import answer_pictures
from fedaudit.reports.charts.report_charts import charts_of, series_of
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.spec.metrics import METRICS
from tests.reports.charts.test_charts_drawing import texts, within
from tests.reports.page.test_report_page import Page
from tests.reports.sections.test_epsilon_report import with_plan


@dataclass
class Round:
    """A round as it is stored."""

    round: int
    cluster_sizes: tuple[int, ...] = (3, 2)
    selection_loss: float | None = 0.25
    validation_loss: float | None = 0.5
    accuracy: float | None = None
    leakage_median: float | None = 1.0
    leakage_max: float | None = 2.0
    epsilon_max: float | None = None
    reasons: Mapping[str, str] = field(default_factory=lambda: {"validation_loss": "not validated"})


@dataclass
class Gaps:
    """The gaps of a round as they are stored."""

    round: int
    attribute: str
    figures: list[dict[str, object]]


def made(rounds, *, attribute="group", seed=0):
    """A series of so many rounds."""
    rng = np.random.default_rng(seed)

    def gaps():
        return [{"metric": name, "value": float(rng.random())} for name in METRICS]

    numbers = range(1, rounds + 1)
    played = [Round(one, tuple(rng.integers(0, 9, 2).tolist()), *rng.random(2)) for one in numbers]
    return series_of(played, [Gaps(one, attribute, gaps()) for one in numbers])


def rounds_of_epsilon(rounds):
    """As of a run without a leakage."""
    no_leakage = dict.fromkeys(("leakage_median", "leakage_max"))
    return [Round(one, **no_leakage, epsilon_max=one / 10) for one in range(1, rounds + 1)]


def titles(text):
    """What the figures are called."""
    return re.findall(r"<figcaption><(?:h3|strong)>([^<]*)<", text)


def test_a_run_under_metric_privacy_has_all_its_charts(material):
    text = render(assemble(material(clusters=np.arange(60) % 2)), made(41))
    assert titles(text) == [
        *("What was spent: not in force", "Who is treated worse: by group", "How good it is"),
        *("Leakage of a client, by round", "Differences between groups of group, by round"),
        "Loss, by round",
        "Uploads in each cluster, by round",
    ]
    assert "signature covers" in text
    # n/nu is a convention here: what it charges is no bound on what anybody learns.
    assert "which bounds no guess" in text
    assert "guesses that may be right" not in text
    assert "leaked" not in text


@pytest.mark.parametrize("name", ["central", "local", "records"])
def test_epsilon_takes_the_place_of_leakage(material, name):
    report = assemble(with_plan(material, name)[0])
    text = render(report, series_of(rounds_of_epsilon(4), []))
    assert "Epsilon spent, by round" in titles(text)
    assert not any("Leakage" in title for title in titles(text))
    assert ("Records with budgets" in text) == (name == "records")
    assert "It is level where" not in text
    level = [replace(one, epsilon_max=0.1 * (one.round // 2)) for one in rounds_of_epsilon(4)]
    assert "It is level where" in render(report, series_of(level, []))
    Page(text)


def test_every_chart_has_words_an_accessible_image_and_its_figures(material):
    text = render(assemble(material()), made(41), appendix=True)
    page = Page(text)
    count = len(titles(text))
    assert page.tags.count("figure") == count
    # The captions of two pictures say all of their figures.
    assert text.count("<summary>The figures behind") == count - 2
    assert page.tags.count("svg") == page.tags.count("desc") == text.count('role="img"') == count
    assert len(re.findall('aria-labelledby="[^"]*-title ', text)) == count
    assert page.tags.count("caption") == page.tags.count("table")
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert page.headings[0] == "May it be released?"
    assert page.headings[-1] == "What this does not show"


def test_nothing_is_run_or_fetched_and_names_are_escaped(material):
    found = material()
    facts = replace(found.federation, attributes={"group": ("<b>g1", "g2")})
    text = render(assemble(replace(found, federation=facts)), made(3))
    assert "<b>" not in text
    assert "&lt;b&gt;g1" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    page = Page(text)
    assert not {"script", "link", "img", "image", "use", "iframe"} & set(page.tags)
    assert not {"src", "style", "xlink:href"} & {name for name, _ in page.attributes}
    ids = {f"#{value}" for name, value in page.attributes if name == "id"}
    assert {value for name, value in page.attributes if name == "href"} <= ids
    assert not re.search(r"https?://|url\(|@import", text)


def test_rounds_that_were_not_validated_break_no_line_and_thinned_ones_are_stated(material):
    rounds = [
        Round(number, validation_loss=None if number % 5 else 1.0, selection_loss=None)
        for number in range(1, 21)
    ]
    [loss, *_] = charts_of(assemble(material()), series_of(rounds, [], every=5)).training
    assert [row[0] for row in loss.table.rows] == ["5", "10", "15", "20"]
    assert loss.drawing.body.count("M") == 1
    assert "those that 5 divides are drawn" in loss.caption
    assert "Why other rounds have no point: not validated." in loss.caption


@pytest.mark.parametrize("count", [7, 12])
def test_many_clusters_are_summed_up(material, count):
    rounds = [Round(number, tuple(range(count))) for number in (1, 2)]
    training = charts_of(assemble(material()), series_of(rounds, [])).training
    clusters = next(chart for chart in training if chart.name == "chart-clusters")
    assert clusters.table.head == ("Round", "Smallest cluster", "Median cluster", "Largest cluster")
    assert clusters.table.rows[0] == ("1", "0", str(count // 2), str(count - 1))


def test_a_long_run_stays_below_a_megabyte(material):
    report = assemble(material())
    assert len(render(report, made(500)).encode()) < 300_000
    assert len(render(report, made(5_000)).encode()) < 1_000_000


# -- the pictures below a report's answer say no more than the report does ------------------------


BANDS = ("up to 75 %", "up to 95 %", "nearly all", "all")


@pytest.mark.parametrize(
    ("epsilon", "band", "stated"),
    [
        (1.0, "up to 75 %", "right at most 74% of the time"),
        (2.0, "up to 95 %", "right at most 89% of the time"),
        (3.5, "nearly all", "right at most 98% of the time"),
        (5e6, "all", "too large to protect anyone"),
    ],
)
def test_every_band_has_a_name_and_that_of_the_value_is_bold(material, epsilon, band, stated):
    document = assemble(with_plan(material, "central")[0])
    document["privacy"] |= {"epsilon_max": epsilon, "epsilon_planned": None}
    document["privacy"]["epsilon"][0]["value"] = epsilon
    chart = answer_pictures(document)[0]
    assert within(chart.drawing)
    assert set(BANDS) < set(texts(chart.drawing))
    assert re.findall('class="here">([^<]*)<', chart.drawing.body) == [band]
    assert stated in chart.caption


def test_leakage_of_a_radius_that_follows_the_update_is_on_no_scale_of_guesses(material):
    document = assemble(material())
    chart = answer_pictures(document)[0]
    assert not {*BANDS} & {*texts(chart.drawing)}
    assert "not in force" in texts(chart.drawing)
    assert chart.drawing.body.startswith('<g class="off">')
    document["guarantee"]["in_force"] = True
    assert "not in force" not in texts(answer_pictures(document)[0].drawing)


def test_the_gap_is_a_bracket_in_words_and_a_constant_lies_on_the_axis(material):
    document = assemble(material())
    _, treated, quality = answer_pictures(document)
    assert any(one.startswith("gap 0.") for one in texts(treated.drawing))
    assert "the gap" not in texts(treated.drawing)
    document["utility"] |= {"accuracy": None, "validation_loss": 1.0, "baseline_loss": 7.5}
    document["utility"] |= {"loss_under_baseline": 6.5, "loss_under_baseline_interval": None}
    quality = answer_pictures(document)[2]
    ticks = [float(one) for one in texts(quality.drawing) if re.fullmatch(r"[\d.]+", one)]
    assert max(ticks) >= 7.5
    assert "How sure the gain is, is not known." in quality.caption
    # Accuracy says little of decisions whose threshold makes one error worse than the other.
    document["utility"] |= {"weighted_accuracy_over_baseline": 0.12, "threshold": 0.2}
    document["utility"] |= {"balanced_accuracy": 0.64}
    quality = answer_pictures(document)[2]
    assert "balanced accuracy, more is better" in texts(quality.drawing)
    one, other = "predicting the positive class wrongly", "predicting the other class wrongly"
    assert f"{other} counts 4 times as much as {one}: so counted, its acc" in quality.caption
    document["utility"] |= {"threshold": 0.992, "accuracy": 0.776, "baseline_accuracy": 0.991}
    said = answer_pictures(document)[2].caption
    assert f"{one} counts 124 times as much as {other}: so counted, its accuracy is 0.12" in said
    assert "alike it is 0.776, and always the same answer has 0.991." in said
    # The class is named, whatever is favourable.
    table = {"path": "t.csv", "client_key": "site", "target": "bad", "positive": "no"}
    spec = {"federation": {"source": "table", **table}}
    document["spec"] |= spec | {"fairness": {"favourable": {"op": "in", "value": ["yes"]}}}
    document["data"]["positive_class"] = "no"
    said = answer_pictures(document)[2].caption
    assert (
        f"By its threshold, predicting bad = no wrongly counts 124 times as much as {other}" in said
    )
