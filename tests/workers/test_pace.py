"""How many rounds are played between two flushes."""

from workers.flush import Pace


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
