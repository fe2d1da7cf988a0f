"""How much a cost is, said with its doubts."""

import pytest

from fedaudit.privacy.guarantees.cost_sentences import MOST, doubted_cost_words, guessed_words


@pytest.mark.parametrize(
    ("adjacency", "every", "hypotheses", "words"),
    [
        ("add-or-remove-one", True, 1, "whether a record's data were used"),
        ("replace-one", True, 1, "which of two versions of a record's data was used"),
        (None, False, 2, "which of two updates within the radius a record made"),
        (None, True, 1, "which of two datasets a record has"),
        (None, True, 2, "which of two datasets that choose the same hypotheses a record has"),
    ],
)
def test_what_is_guessed_follows_from_what_the_bound_is_of(adjacency, every, hypotheses, words):
    found = guessed_words(
        unit="record", adjacency=adjacency, bounds_every_dataset=every, hypotheses=hypotheses
    )
    assert found == words


def said(exponent: float | None, **changes: object) -> str:
    asked = {"kind": "formal", "in_force": True, "bounds_every_dataset": True} | changes
    return doubted_cost_words(exponent, guessed="x", delta=1e-5, **asked)


def test_each_doubt_is_said_before_the_measure() -> None:
    assert said(0.5).startswith("That is a gain of at most 13 percentage points")
    assert said(0.5, kind="heuristic").startswith("Were it proven, that would be a gain")
    assert said(0.5, in_force=False).startswith("Were the noise secret, that would be a gain")
    both = said(50.0, kind="heuristic", in_force=False)
    assert both.startswith("Were it proven and were the noise secret, that would be practically no")
    assert "That is" not in both
    assert said(None, kind="heuristic", in_force=False) == "Nothing bounds what was disclosed."


@pytest.mark.parametrize("kind", ["formal", "heuristic"])
@pytest.mark.parametrize("exponent", [0.0, 0.5, MOST])
def test_a_small_figure_within_the_radius_alone_measures_nothing(kind, exponent):
    words = said(exponent, kind=kind, bounds_every_dataset=False)
    assert "cannot be said" in words
    assert "percentage points" not in words


def test_a_large_figure_within_the_radius_is_as_bad_as_it_looks() -> None:
    assert "practically no protection" in said(MOST + 1e-9, bounds_every_dataset=False)
    assert said(None, bounds_every_dataset=False) == "Nothing bounds what was disclosed."
