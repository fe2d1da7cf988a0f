"""The model card: every section, its figures, and nothing that a caller's text could mark up."""

import re

import pytest
import yaml

from fedaudit.reports.readings.readings import model_card
from fedaudit.reports.report import assemble
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
    for document in documents(material).values():
        parts = re.split(r"^## (.+)$", model_card(document), flags=re.MULTILINE)
        assert parts[1::2] == SECTIONS
        assert all(part.strip() for part in parts[2::2])


def test_names_and_groups_are_escaped(material):
    document = assemble(material())
    document["fairness"][0]["groups"][0]["value"] = "a|b\n# c"
    text = model_card(document)
    assert "<script>" not in text
    assert "\n---\n\n# Model card: \\<script\\>" in text
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


KEYS = {"library_name", "model_name", "tags", "metrics", "fedaudit"}
"""Of these `ModelCardData` (huggingface_hub 2.4) names all but our own, which it takes as it is."""


def in_front(text):
    """The YAML in front of a card, and what follows."""
    before, matter, after = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    assert before == ""
    return yaml.safe_load(matter), after


def test_yaml_in_front_has_the_keys_of_the_hub(material):
    for document in documents(material).values():
        values, card = in_front(model_card(document))
        assert set(values) <= KEYS
        assert values["library_name"] == "fedaudit"
        assert all(isinstance(one, str) for one in values["fedaudit"].values())
        assert card.startswith("\n\n# Model card: ")


def test_a_name_comes_back_from_the_yaml_as_it_is(material):
    document = assemble(material())
    name = '---\n"a: <b> & `c` \\ \x00\x85\u2028 ä 😀'
    document["experiment"]["name"] = name
    text = model_card(document)
    assert in_front(text)[0]["model_name"] == name
    assert "<b>" not in text


def test_only_a_proven_epsilon_of_secret_noise_is_tagged_as_differential_privacy(material):
    def tags(document):
        return in_front(model_card(document))[0]["tags"]

    assert tags(gaussian(material)) == ["federated-learning", "differential-privacy"]
    for other in (gaussian(material, noise="simulation"), assemble(material())):
        assert tags(other) == ["federated-learning"]
        assert in_front(model_card(other))[0]["fedaudit"]["guarantee"].endswith("not in force")


@pytest.mark.integrations
def test_hugging_face_reads_the_card(material):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra `integrations`")
    document = gaussian(material)
    card = hub.ModelCard(model_card(document), ignore_metadata_errors=False)
    assert card.data.library_name == "fedaudit"
    assert card.data.model_name == document["experiment"]["name"]
    assert card.data.to_dict()["fedaudit"]["experiment_id"] == document["experiment"]["id"]
    assert "# Model card" in card.text
