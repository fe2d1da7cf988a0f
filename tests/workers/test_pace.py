"""How many rounds are played between two flushes."""

from workers.flush import Pace


def test_slow_rounds_are_flushed_one_by_one() -> None:
    pace = Pace()
    assert pace.rounds(experiments=1, cohort=100) == 1
    pace.took(1, 3.0)
    assert pace.rounds(experiments=1, cohort=100) == 1


def test_quick_rounds_grow_to_a_quarter_of_a_second() -> None:
    pace = Pace()
    sizes = []
    for _ in range(6):
        sizes.append(pace.rounds(experiments=1, cohort=7))
        pace.took(sizes[-1], sizes[-1] * 0.002)
    assert sizes == [1, 4, 16, 64, 125, 125]


def test_a_block_holds_at_most_60_000_entries_and_1_000_rounds_of_all_experiments() -> None:
    for experiments, cohort, most in ((1, 1000, 60), (10, 7, 100), (1, 7, 1000), (1, 70_000, 1)):
        pace = Pace()
        for _ in range(8):
            rounds = pace.rounds(experiments=experiments, cohort=cohort)
            pace.took(rounds, rounds * 1e-6)
        assert rounds == most


def test_one_slow_block_makes_the_next_smaller() -> None:
    pace = Pace()
    for _ in range(5):
        rounds = pace.rounds(experiments=1, cohort=7)
        pace.took(rounds, rounds * 0.001)
    pace.took(rounds, rounds * 0.1)
    assert pace.rounds(experiments=1, cohort=7) == 2
