"""The order of NIST SP 800-226, and how much of it a report answers."""

import pytest

from fedaudit.reports.readings.readings import NistReading, nist_800_226
from fedaudit.reports.report import assemble
from tests.reports.reading_documents import FIXED, NOTHING, WITHOUT_NOISE, documents, gaussian

TOPICS = [
    "privacy parameters and unit",
    "guarantee and adjacency",
    "algorithm and utility",
    "bias",
    "security",
    "side channels",
    "trust model",
    "data collection",
]


def _statements(found: NistReading, topic: str) -> dict[str, tuple[str, str]]:
    [one] = [part for part in found.topics if part.topic == topic]
    return {stated.question: (stated.status, stated.statement) for stated in one.statements}


def test_topics_go_down_the_pyramid_and_each_has_a_status(material):
    for document in documents(material).values():
        found = nist_800_226(document)
        assert [part.topic for part in found.topics] == TOPICS
        assert [part.layer for part in found.topics] == ["top"] * 2 + ["middle"] * 4 + ["base"] * 2
        for part in found.topics:
            stated = {one.status for one in part.statements}
            assert part.status == (stated.pop() if len(stated) == 1 else "answered in part")
            assert all(one.statement for one in part.statements)


def test_heuristic_is_never_a_whole_answer(material):
    for spec, status in (({}, "answered in part"), (FIXED, "answered")):
        document = assemble(material(spec))
        stated = _statements(nist_800_226(document), TOPICS[1])
        found = stated["Which guarantee is claimed, and is it proven?"]
        assert found == (status, document["guarantee"]["statement"])


@pytest.mark.parametrize(("noise", "begins"), [("simulation", "No. "), ("release", "Noise was")])
def test_a_simulated_runs_model_has_no_guarantee(material, noise, begins):
    found = nist_800_226(gaussian(material, noise=noise))
    stated = _statements(found, TOPICS[1])["Does the guarantee hold for the model of this run?"]
    assert stated[1].startswith(begins)


@pytest.mark.parametrize(
    ("spec", "who"),
    [
        ({}, "Each client adds noise before anything leaves it."),
        (NOTHING, "Nobody adds noise."),
        (WITHOUT_NOISE, "Nobody adds noise."),
    ],
)
def test_who_adds_noise_follows_from_the_guarantee(material, spec, who):
    found = nist_800_226(assemble(material(spec)))
    stated = _statements(found, "trust model")[
        "Against whom does the guarantee hold, and who is trusted?"
    ]
    assert stated[1].endswith(who)


def test_what_lies_outside_the_run_is_not_shown(material):
    found = nist_800_226(gaussian(material))
    for topic, question in (
        ("privacy parameters and unit", "What else was spent on the same data?"),
        ("security", "Who can read the data and the updates, and how is that kept?"),
        ("security", "Was the model attacked?"),
        ("trust model", "Do the parties deserve that trust?"),
        (
            "data collection",
            "How was it collected: with which consent, how little of it, how long kept?",
        ),
    ):
        assert _statements(found, topic)[question][0] == "not shown by this run"
