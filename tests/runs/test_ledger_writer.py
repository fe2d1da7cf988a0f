"""The ledger of a run while it is being written, and its totals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.runs.ledger_writer import LedgerWriter, Spending
from fedaudit.runs.run import cell_ledger_context, training_subjects
from fedaudit.training.base.rounds import PlannedRound, RoundColumns
from tests.ledger.whole_chain import first_broken_link
from tests.spec import documents
from tests.training.specs import cell as cell_of
from tests.training.specs import groups_spec

ID = "01a2019d-eb06-707e-8176-418d586cfa12"
BY_RECORD = groups_spec(
    training__hypotheses=1,
    training__loss="mse",
    training__cohort={"sampling": "poisson", "rate": 0.3},
    training__local={"steps": 2, "step_size": 0.1},
    privacy=documents.BY_RECORD,
)


def writer(spec: dict[str, object] | None = None) -> LedgerWriter:
    """The empty ledger of a spec."""
    cell = cell_of(spec or groups_spec())
    context = cell_ledger_context(cell)
    return LedgerWriter.from_beginning(
        context, experiment_id=ID, training=training_subjects(cell, context)
    )


def played(
    number: int,
    subjects: list[int],
    outcomes: list[int] | None = None,
    compositions: dict[Observer, list[int]] | None = None,
) -> RoundColumns:
    """A round as far as the ledger looks at it."""
    count = len(subjects)
    return RoundColumns(
        round=np.array([number]),
        release=np.array([0]),
        subjects=np.array([subjects], dtype=np.int32),
        outcomes=np.array([outcomes or [Outcome.RELEASED] * count], dtype=np.uint8),
        radii=np.full((1, count), 0.5),
        releases=np.zeros((1, count), dtype=np.int32),
        chosen=np.zeros((1, count), dtype=np.int16),
        clusters=np.zeros((1, count), dtype=np.int16),
        cluster_sizes=np.array([[count]]),
        separation=np.full(1, np.nan),
        collapsed=np.zeros(1, dtype=np.bool_),
        place=np.array([-1]),
        selection_losses=np.zeros(0),
        validation_losses=np.zeros(0),
        accuracies=None,
        counts={},
        compositions={
            observer: np.array([counts], dtype=np.int32)
            for observer, counts in (compositions or {}).items()
        },
    )


def test_totals_count_releases_alone_and_links_follow_each_other() -> None:
    ledger = writer()
    written = [*ledger.record_rounds(played(1, [0, 1])).written]
    refused, withheld = int(Outcome.REFUSED), int(Outcome.WITHHELD)
    outcomes = [int(Outcome.RELEASED), refused, withheld]
    written += ledger.record_rounds(played(2, [0, 1, 2], outcomes)).written
    assert ledger.totals[:3].tolist() == [2, 1, 0]
    assert [one.releases.tolist() for one in written] == [[1, 1], [2, 1, 0]]
    assert (ledger.spending.refusals, ledger.spending.withheld) == (1, 1)
    assert (ledger.entries, ledger.last_round) == (2, 2)
    assert ledger.head == written[-1].link
    assert first_broken_link(ID, written) is None


def test_an_interrupted_round_charges_everyone_and_has_no_results() -> None:
    ledger = writer()
    subjects = np.array([0, 3], dtype=np.int32)
    [entry] = ledger.record_interrupted(PlannedRound(4, 1, subjects)).written
    assert (entry.round, entry.release, entry.interrupted) == (4, 1, True)
    assert entry.outcomes.tolist() == [Outcome.RELEASED, Outcome.RELEASED]
    assert np.isnan(entry.radii).all()
    assert ledger.clusters.max() == -1
    assert ledger.totals[[0, 3]].tolist() == [1, 1]


def test_the_largest_charges_foresee_the_worst_case_and_change_nothing() -> None:
    ledger = writer(BY_RECORD)
    groups = np.arange(len(ledger.ledger_context.subjects), dtype=np.int32)
    charges = ledger.largest_charges([PlannedRound(1, 0, groups), PlannedRound(2, 0, groups)])
    assert charges == [2] * len(ledger.ledger_context.observers)
    assert ledger.totals.max() == 0


def test_epsilon_of_a_round_does_not_follow_the_coins() -> None:
    """The busiest client took part in the first round and not in the second."""
    coins, always = writer(BY_RECORD), writer(BY_RECORD)
    groups = list(range(len(coins.ledger_context.subjects)))
    model, server = coins.ledger_context.observers
    found: dict[str, list[float | None]] = {"coins": [], "always": []}
    for number, drawn in ((1, 1), (2, 1), (3, 2)):
        of_model, everyone = [number] * len(groups), [drawn] * len(groups)
        for name, ledger, of_server in (("coins", coins, everyone), ("always", always, of_model)):
            charged = {model: of_model, server: of_server}
            recorded = ledger.record_rounds(played(number, groups, None, charged))
            found[name].append(ledger.largest_epsilon(int(recorded.most[0])))
    assert coins.compositions[server].max() == 2
    assert found["coins"] == found["always"]
    values = [value for value in found["coins"] if value is not None]
    assert len(values) == 3
    assert values == sorted(set(values))


def test_who_is_not_charged_against_an_observer_has_no_line_in_its_entry() -> None:
    ledger = writer(BY_RECORD)
    groups = list(range(len(ledger.ledger_context.subjects)))
    model, server = ledger.ledger_context.observers
    none, one = [0] * len(groups), [1] * len(groups)
    charged = played(1, groups, None, {model: one, server: none})
    of_model, of_server = ledger.record_rounds(charged).written
    assert of_model.subjects.tolist() == groups
    assert of_server.subjects.tolist() == []


def test_totals_that_differ_from_trainings_stop_the_run() -> None:
    ledger = writer()
    ledger.record_rounds(played(1, [0, 1]))
    ledger.check_totals(ledger.spending.releases.copy())
    counted = ledger.spending.releases.copy()
    counted[2] = 1
    with pytest.raises(RuntimeError, match="totals differ"):
        ledger.check_totals(counted)


CLIENTS = 12

cohorts = st.lists(
    st.tuples(
        st.lists(st.integers(0, 8), min_size=1, unique=True),
        st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=9, max_size=9),
    ),
    max_size=30,
)


@given(cohorts)
def test_median_and_maximum_are_those_of_the_report(rounds):
    # Clients 9, 10 and 11 are held out.
    training = np.arange(9, dtype=np.int32)
    spending = Spending(np.zeros(CLIENTS, dtype=np.int32), training=training)
    counted = np.zeros(CLIENTS, dtype=np.int32)
    refused = np.zeros(CLIENTS, dtype=np.int32)
    refusals = withheld = 0
    for subjects, all_outcomes in rounds:
        outcomes = np.array(all_outcomes[: len(subjects)], dtype=np.uint8)
        spending.count_rounds(np.array([subjects], dtype=np.int32), outcomes[np.newaxis])
        counted[subjects] += outcomes == 0
        refused[subjects] += outcomes == 1
        refusals += (outcomes == 1).sum()
        withheld += (outcomes == 2).sum()
    most, median = most_and_median(spending)
    assert (most, median) == (counted[training].max(), np.median(counted[training]))
    assert (spending.refusals, spending.withheld) == (refusals, withheld)
    np.testing.assert_array_equal(spending.releases, counted)
    np.testing.assert_array_equal(spending.refused, refused)


def most_and_median(spending: Spending) -> tuple[int, float]:
    """As a round without subjects counts them."""
    subjects = np.zeros((1, 0), dtype=np.int32)
    _, most, median = spending.count_rounds(subjects, subjects.astype(np.uint8))
    return int(most[0]), float(median[0])


def test_totals_that_were_stored_are_taken_up() -> None:
    releases = np.array([3, 0, 1, 0], dtype=np.int32)
    training = np.array([0, 1, 2], dtype=np.int32)
    spending = Spending(releases, training=training)
    spending.refusals, spending.withheld = 4, 5
    assert most_and_median(spending) == (3, 1.0)
    spending.count_rounds(np.array([[1, 2]], dtype=np.int32), np.array([[0, 1]], dtype=np.uint8))
    assert most_and_median(spending) == (3, 1.0)
    assert (spending.refusals, spending.withheld) == (5, 5)
    assert releases.tolist() == [3, 0, 1, 0]


@pytest.mark.parametrize("far", [5, 1 << 16])
def test_rounds_counted_together_leave_what_they_leave_one_by_one(far: int) -> None:
    random = np.random.default_rng(3)
    training = np.array([*range(5), *range(far, far + 4)], np.int32)
    none = np.zeros(far + CLIENTS, np.int32)
    together, apart = (Spending(none, training=training) for _ in range(2))
    for rounds in (1, 5, 20):
        subjects = random.permuted(np.tile(training, (rounds, 1)), axis=1)[:, :4]
        outcomes = random.choice([0, 0, 1, 2], size=subjects.shape).astype(np.uint8)
        releases, most, median = together.count_rounds(subjects, outcomes)
        for at in range(rounds):
            [[own], *alone] = apart.count_rounds(subjects[[at]], outcomes[[at]])
            assert own.tolist() == releases[at].tolist()
            assert tuple(one[0] for one in alone) == (most[at], median[at])
            assert tuple(one[0] for one in alone) == most_and_median(apart)
    np.testing.assert_array_equal(together.releases, apart.releases)
    np.testing.assert_array_equal(together.refused, apart.refused)
    assert (together.refusals, together.withheld) == (apart.refusals, apart.withheld)
