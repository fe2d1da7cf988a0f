"""The rule of early stopping by itself, without a trainer."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedaudit.training.base.rounds import EarlyStopping, Followed, Progress


def at_the_start(runs: int) -> Progress:
    """The progress of so many runs before their first round."""
    none = np.zeros(runs, dtype=np.int64)
    return Progress(none, none.copy(), none.copy(), np.full(runs, np.inf), none.copy(), none.copy())


def rule(*patience: int | None) -> EarlyStopping:
    return EarlyStopping(np.full(len(patience), 9), patience, 1)


def follow(stopping: EarlyStopping, progress: Progress, losses: Sequence[object]) -> Followed:
    """Every next round is validated, with these losses: [rounds] or [rounds, runs]."""
    of_rounds = np.array(losses, dtype=np.float64).reshape(len(losses), -1)
    rounds = progress.round + 1 + np.arange(len(losses))[:, np.newaxis]
    return stopping.follow(
        progress,
        rounds,
        of_rounds,
        np.ones(of_rounds.shape, dtype=np.bool_),
        last_round=stopping.rounds,
        playing=np.ones(of_rounds.shape[1], dtype=np.bool_),
    )


def best(progress: Progress) -> list[tuple[float, int, int]]:
    columns = progress.best_loss, progress.best_round, progress.without_improvement
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_only_a_lower_loss_is_an_improvement() -> None:
    progress, stopping = at_the_start(1), rule(2)
    followed = follow(stopping, progress, (2.0, 1.0, 1.0, 1.5))
    assert (followed.improved.tolist(), followed.ends) == ([1], {0: "patience"})
    assert best(progress) == [(1.0, 2, 2)]


def test_runs_beside_one_another_end_each_by_itself_and_in_any_cuts() -> None:
    losses = np.array([[3, 3, 3], [2, 4, 4], [5, 5, np.nan], [6, 2, 1], [1, 1, 1]], dtype=float)
    together, stopping = at_the_start(3), rule(2, None, 4)
    followed = follow(stopping, together, losses)
    assert followed.kept.tolist() == [4, 5, 3]
    assert followed.improved.tolist() == [1, 4, 0]
    assert followed.ends == {0: "patience", 2: "diverged"}
    assert best(together) == [(2.0, 2, 2), (1.0, 5, 0), (3.0, 1, 1)]
    for run, kept in enumerate(followed.kept.tolist()):
        alone, own = at_the_start(1), stopping.of([run])
        for loss in losses[:kept, run]:
            ended = follow(own, alone, [loss]).ends
        assert ended.get(0) == followed.ends.get(run)
        assert best(alone) == [best(together)[run]]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_leaves_the_best_alone(loss: float) -> None:
    progress = at_the_start(1)
    assert follow(rule(2), progress, (1.0, loss, 0.5)).ends == {0: "diverged"}
    assert best(progress) == [(1.0, 1, 0)]


def test_where_losses_do_not_count_the_last_round_is_the_best() -> None:
    progress = at_the_start(1)
    stopping = EarlyStopping(np.array([9]), [None], 1, looks_at_losses=False)
    followed = follow(stopping, progress, (1.0, float("nan"), 2.0))
    assert (followed.improved.tolist(), followed.ends) == ([2], {})
    assert best(progress) == [(float("inf"), 3, 0)]


@pytest.mark.parametrize(
    ("number", "waited", "last_round", "why"),
    [
        (5, 0, 9, None),
        (5, 2, 9, "patience"),
        (9, 2, 9, "patience"),
        (9, 0, 9, "rounds"),
        (5, 0, 5, "budget"),
        (5, 0, 4, "budget"),
        (9, 0, 5, "rounds"),
    ],
)
def test_why_a_run_ends(number: int, waited: int, last_round: int, why: str | None) -> None:
    progress = at_the_start(1)
    progress.round[0], progress.without_improvement[0] = number, waited
    assert rule(2).stop_reason(progress, 0, last_round=last_round) == why
