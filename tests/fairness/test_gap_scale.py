"""Words for gaps: their size, whether they may be chance, and the one threshold there is."""

import pytest

from fedaudit.fairness.metrics import gap_size, gap_words, is_below_four_fifths


@pytest.mark.parametrize(
    ("metric", "value", "interval", "words"),
    [
        ("demographic_parity_difference", 0.268, (0.2, 0.3), "27 percentage points between two"),
        ("equalized_odds_difference", 0.05, (0.01, 0.1), "its interval excludes 0; no standard"),
        ("equalized_odds_difference", 0.05, (0.0, 0.1), "reaches 0, so the groups may fare alike"),
        ("equalized_odds_difference", 0.05, None, "whether it may be chance is not known; no"),
        ("demographic_parity_ratio", 0.38, (0.3, 0.5), "(its interval 0.3 to 0.5): below four"),
        ("demographic_parity_ratio", 0.8 - 1e-12, None, "at least four fifths, the threshold of"),
        ("equalized_odds_ratio", 0.5, None, ""),
        ("loss_difference", 2.0, (1.0, 3.0), ""),
    ],
)
def test_a_gap_has_its_size_its_chance_and_its_standard(
    metric: str, value: float, interval: tuple[float, float] | None, words: str
) -> None:
    said = gap_words(metric, value, interval=interval)
    assert words in said
    assert bool(said) == bool(words)
    assert gap_size(metric, value) in said
    for adjective in ("small", "large", "fair", "acceptable"):
        assert f" {adjective} " not in said.replace("too large", "")


def test_a_rounding_error_is_not_below_four_fifths() -> None:
    assert not is_below_four_fifths(4 / 5 - 1e-16)
    assert is_below_four_fifths(0.799)
