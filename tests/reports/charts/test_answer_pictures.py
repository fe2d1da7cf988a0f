"""The pictures below a report's answer say no more than the report does."""

import re

import pytest

from fedaudit.reports.charts.answer_pictures import answer_pictures
from fedaudit.reports.report import assemble
from tests.reports.charts.test_charts_drawing import texts, within
from tests.reports.sections.test_epsilon_report import with_plan

BANDS = ("to 75 %", "to 95 %", "nearly all", "all")


def spent(document):
    return answer_pictures(document)[0]


@pytest.mark.parametrize(
    ("epsilon", "band", "stated"),
    [
        (1.0, "to 75 %", "right at most 74% of the time"),
        (2.0, "to 95 %", "right at most 89% of the time"),
        (3.5, "nearly all", "right at most 98% of the time"),
        (5e6, "all", "too large to protect anyone"),
    ],
)
def test_every_band_has_a_name_and_that_of_the_value_is_bold(material, epsilon, band, stated):
    document = assemble(with_plan(material, "central")[0])
    document["privacy"] |= {"epsilon_max": epsilon, "epsilon_planned": None}
    document["privacy"]["epsilon"][0]["value"] = epsilon
    chart = spent(document)
    assert within(chart.drawing)
    assert set(BANDS) < set(texts(chart.drawing))
    assert re.findall('class="here">([^<]*)<', chart.drawing.body) == [band]
    assert stated in chart.caption


def test_leakage_of_a_radius_that_follows_the_update_stands_on_no_scale_of_guesses(material):
    document = assemble(material())
    chart = spent(document)
    assert not {*BANDS} & {*texts(chart.drawing)}
    assert "not in force" in texts(chart.drawing)
    assert chart.drawing.body.startswith('<g class="off">')
    document["guarantee"]["in_force"] = True
    assert "not in force" not in texts(spent(document).drawing)


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
