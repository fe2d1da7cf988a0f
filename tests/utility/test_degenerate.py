"""Which models decide nothing."""

import pytest

from fedaudit.judgement import Gained, judge_model

GOOD = Gained(0.1, shown=True)


def judged(accuracy=GOOD, loss=GOOD, outcome=None, share=0.7, truth=0.6):
    return judge_model(
        accuracy=accuracy, loss=loss, outcome=outcome, prediction_share=share, outcome_share=truth
    )


@pytest.mark.parametrize(
    ("figures", "degenerate", "reason"),
    [
        ({}, False, None),
        ({"share": None, "truth": None}, False, None),
        ({"accuracy": None}, False, None),
        ({"outcome": GOOD}, False, None),
        # Better in neither.
        ({"accuracy": Gained(0.0, False), "loss": Gained(-0.1, False)}, True, "is no better than"),
        ({"accuracy": None, "loss": Gained(-0.1, False)}, True, "is no better than"),
        # The two disagree, as of rare classes.
        ({"accuracy": Gained(-0.05, False)}, None, "by accuracy_over_baseline the model is no"),
        ({"outcome": Gained(0.0, False)}, None, "predictions of the favourable outcome"),
        # Not shown.
        ({"accuracy": Gained(0.01, False)}, None, "of its gain in accuracy reaches 0"),
        ({"accuracy": None, "loss": Gained(0.1, False)}, None, "in loss_under_baseline reaches 0"),
        ({"loss": Gained(0.1, False)}, False, None),
        ({"accuracy": None, "loss": None}, None, "nothing says"),
        # One prediction for nearly everybody.
        ({"share": 1.0, "truth": 1.0}, True, "equal rates mean nothing"),
        ({"share": 0.995, "truth": 0.5}, True, "equal rates mean nothing"),
        ({"share": 0.9807, "truth": 0.604}, True, "equal rates mean nothing"),
        # One in 200 has the rare outcome, and it is predicted about as often: not overlooked.
        ({"share": 0.996, "truth": 0.995}, False, None),
        ({"share": 0.9985, "truth": 0.995}, True, "equal rates mean nothing"),
        # Cautious, and not constant.
        ({"share": 0.96, "truth": 0.9}, False, None),
    ],
)
def test_what_decides(figures, degenerate, reason):
    found = judged(**figures)
    assert found.degenerate is degenerate
    assert found.reason is None if reason is None else reason in found.reason
