"""The model card: every section, its figures, and nothing that a caller's text could mark up."""

import re

from fedaudit.reports.assemble import assemble
from fedaudit.reports.readings.model_card import model_card
from tests.reports.reading_documents import documents, gaussian

SECTIONS = [
    "Verdict",
    "Model details",
    "Intended use",
    "Factors",
    "Metrics",
    "Evaluation data",
    "Training data",
    "Quantitative analyses",
    "Privacy",
    "Ethical considerations",
    "Caveats",
    "Evidence",
]


def test_every_section_is_there_and_says_something(material):
    for document in (*documents(material).values(), {}):
        parts = re.split(r"^## (.+)$", model_card(document), flags=re.MULTILINE)
        assert parts[1::2] == SECTIONS
        assert all(part.strip() for part in parts[2::2])


def test_names_and_groups_are_escaped(material):
    document = assemble(material())
    document["fairness"][0]["groups"][0]["value"] = "a|b\n# c"
    text = model_card(document)
    assert "<script>" not in text
    assert text.startswith("# Model card: \\<script\\>")
    assert "| a\\|b \\# c | " in text


def test_tables_are_regular_and_suppressed_groups_show_no_rate(material):
    document = assemble(
        material(
            {
                "fairness": {
                    "sensitive": ["group"],
                    "favourable": {"op": "ge", "value": 0},
                    "minimum_group_size": 150,
                }
            }
        )
    )
    text = model_card(document)
    assert "| g1 | suppressed | suppressed | suppressed |" in text
    widths = [
        {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    ]
    assert len(widths) >= 3
    assert all(len(width) == 1 for width in widths)


def test_figures_are_the_reports(material):
    document = gaussian(material)
    text = model_card(document)
    assert f"epsilon = {document['privacy']['epsilon_max']:.6g} against those who" in text
    assert "| validation loss | 0.5 |" in text
    assert "not for release" not in text
    assert "not for release" in model_card(assemble(material()))
