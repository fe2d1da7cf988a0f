"""The rows whose membership is guessed, and shadow runs as cells. No torch.

The split draws at random who is held out, so members and non-members are exchangeable: nothing but
training distinguishes them, and a guess by the data alone has an AUC of 0.5. The seed of a run
determines its split, so an attacker who knew the seed would have nothing to guess.

A shadow run trains as the run did, with another seed: on another half of the clients, from another
start, with other cohorts and noise. The halves are of *all* clients, including those that the run
held out, so whether a shadow trained on a row is independent of whether the run did. Where records
are held out, the halves are of all records.
"""

from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from fedaudit.arrays import Bools, Ints
from fedaudit.fairness.disclosure import why_too_few
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.split import training_clients, validation_clients
from fedaudit.privacy.records.record_use import drawn_budgets
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.attacks import MIN_SHADOWS_EACH, ClientInferenceSpec, MembershipSpec
from fedaudit.spec.errors import FieldError
from fedaudit.spec.fairness import Fairness
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.training import AllocationCohort, FixedCohort, PoissonCohort
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of, training_records

MAX_ROWS_EACH = 25_000
"""Members, and non-members, that are attacked at most: enough for rates at 0.1 %."""
MAX_SCORES = 1 << 24
"""Rows times models that are evaluated: 128 MiB for each figure of theirs."""
MIN_ROWS = 30
"""Members, and non-members: with fewer an AUC is mostly chance."""
MIN_CLIENTS = 10
"""Fewest clients of which shadow runs draw halves: fewer have hardly different halves."""
HALF = 0.5
_ATTEMPTS = 50
_BUDGETS = "budget"


@dataclass(frozen=True, eq=False)
class AttackedRows:
    """The rows that are attacked, client after client; arrays [rows]."""

    place: Ints
    """Where the row is in the federation's arrays, ascending."""
    client: Ints
    """Its client's index in the federation."""
    member: Bools
    """Whether it was trained on."""

    def __len__(self) -> int:
        return len(self.place)


def trained_rows(cell: Cell) -> Bools:
    """Which rows a run of the cell trains on: bool [rows of the federation]."""
    trained = np.zeros(cell.federation.rows, dtype=np.bool_)
    trained[training_records(cell.spec, cell.federation).place] = True
    return trained


def choose_rows(
    cell: Cell, source: Source, *, models: int, share: float | None = None
) -> AttackedRows:
    """Members and non-members of the cell's run, a random sample if there are very many.

    Records that never enter a step, because their budgets are too small, are neither, nor are only
    rows of clients where rows are held out of those with more, nor held-out rows that
    `fairness.exclude` leaves out. So that the number of non-members does not say how many these
    are, it is then a power of two. `models`: how many are evaluated. `share`: of each client's rows
    so many, at least one; if there are too many, clients keep one row before any keeps two.
    """
    trained = trained_rows(cell)
    candidates = np.ones(cell.federation.rows, dtype=np.bool_)
    if cell.spec.scores_training_clients:
        candidates = cell.federation.counts[cell.federation.client_of] > 1
    left_out = cell.federation.left_out
    if left_out is not None:
        candidates = candidates & (trained | ~left_out)
    use = record_use_of(cell.spec, cell.federation)
    if use is not None:
        place = training_records(cell.spec, cell.federation).place
        candidates[place[use.left_out]] = False
    bound = min(MAX_ROWS_EACH, MAX_SCORES // (2 * models))
    sides = [np.flatnonzero(candidates & trained), np.flatnonzero(candidates & ~trained)]
    if share is not None:
        sides = [_share_of_each(rows, cell, source, share=share) for rows in sides]
    for number, rows in enumerate(sides):
        coarse = number == 1 and left_out is not None
        most = min(bound, 1 << (len(rows).bit_length() - 1)) if coarse else bound
        if share is not None:
            sides[number] = rows[:most]
        elif len(rows) > most:
            words = source.wide_words(
                purpose=Purpose.ATTACK, round_=number + 1, counters=np.arange(len(rows)), count=1
            )
            sides[number] = rows[np.argsort(words[..., 0].reshape(-1), kind="stable")[:most]]
    place = np.sort(np.concatenate(sides))
    return AttackedRows(place, cell.federation.client_of[place], trained[place])


def _share_of_each(rows: Ints, cell: Cell, source: Source, *, share: float) -> Ints:
    """Draw a random share of each client's rows, at least one; the first of each come first."""
    clients = cell.federation.client_of[rows]
    words = source.wide_words(purpose=Purpose.ATTACK, round_=5, counters=rows, count=1)
    order = np.lexsort((words[..., 0].reshape(-1), clients))
    _, first, counts = np.unique(clients[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, counts)
    within = rank < np.repeat(np.ceil(share * counts), counts)
    kept = np.lexsort((words[..., 0].reshape(-1)[order][within], rank[within]))
    return rows[order[within][kept]]


def shadow_training_clients(clients: int) -> int:
    """How many of a federation's clients a shadow run trains on, if clients are held out."""
    return clients - validation_clients(clients, validation_fraction=HALF)


def draw_shadows(
    cell: Cell, rows: AttackedRows, source: Source, *, shadows: int
) -> tuple[list[Cell], Bools]:
    """The cells of the shadow runs, and which rows each trains on: bool [shadows, rows].

    Every row is in at least `MIN_SHADOWS_EACH` of them and outside of as many: halves are drawn
    again until that holds. Raises RuntimeError if it never does; `faults` refuses specs for which
    that is likely.
    """
    base = _shadow_cell(cell)
    for attempt in range(_ATTEMPTS):
        words = source.wide_words(
            purpose=Purpose.SHADOWS, round_=attempt, counters=np.arange(shadows), count=1
        )
        seeds = (words.reshape(-1) >> np.uint64(11)).tolist()  # below 2**53
        cells = [replace(base, spec=base.spec.model_copy(update={"seed": seed})) for seed in seeds]
        trained = np.stack([trained_rows(one)[rows.place] for one in cells])
        within = trained.sum(0)
        if min(within.min(), (shadows - within).min()) >= MIN_SHADOWS_EACH:
            return cells, trained
    raise RuntimeError(
        f"of {shadows} shadow runs no draw of halves has every row in {MIN_SHADOWS_EACH} and "
        "outside of as many; more shadow runs would"
    )


def _shadow_cell(cell: Cell) -> Cell:
    """The cell of any shadow run: it counts no groups, and its noise is no release.

    All of them share one federation, so that a stack holds its rows once.
    """
    spec, federation = cell.spec, replace(cell.federation, attributes=())
    privacy = spec.privacy.model_copy(update={"noise": "simulation"})
    if isinstance(privacy, RecordPersonalised) and privacy.budgets.column is None:
        # A record's budget depends on the seed, and a shadow's record must have the run's.
        budgets = drawn_budgets(spec, keys=record_keys(federation))
        federation = replace(federation, record_budgets=budgets)
        column = privacy.budgets.model_copy(update={"distribution": None, "column": _BUDGETS})
        privacy = privacy.model_copy(update={"budgets": column})
    cohort = spec.training.drawn_cohort
    match cohort:
        case FixedCohort():
            # The same share of those who train, so that a client takes part as often; and as many
            # as there are hypotheses, since fewer cannot be clustered.
            most = shadow_training_clients(federation.clients)
            share = cohort.clients / training_clients(federation.clients, spec.federation)
            least = min(most, spec.training.hypotheses)
            clients = max(least, min(most, round(share * most)))
            cohort = cohort.model_copy(update={"clients": clients})
        case PoissonCohort() | AllocationCohort():
            pass
        case _:
            assert_never(cohort)
    changed = spec.model_copy(
        update={
            "federation": spec.federation.model_copy(update={"validation_fraction": HALF}),
            "training": spec.training.model_copy(update={"cohort": cohort}),
            "privacy": privacy,
            "fairness": Fairness(),
            "attacks": [],
            "gates": [],
            "repeats": 1,
        }
    )
    return replace(cell, spec=changed, federation=federation)


def faults(
    spec: MembershipSpec | ClientInferenceSpec, cell: Cell, *, pointer: str
) -> list[FieldError]:
    """Every reason why the attack cannot be carried out on the cell's data."""
    found = []
    if cell.spec.fairness.noise is not None:
        message = (
            "rates of this attack follow from the held-out people exactly, and `fairness.noise` "
            "promises that nothing but counts with noise does; leave one of the two out"
        )
        found.append(FieldError(f"{pointer}/kind", message, of_spec=True))
    left_out, rows = cell.federation.left_out, trained_rows(cell)
    fairness = cell.spec.fairness
    for which, side in (
        ("train", rows),
        ("are held out", ~rows if left_out is None else ~rows & ~left_out),
    ):
        clients = cell.federation.client_of[side]
        if len(clients) >= MIN_ROWS and why_too_few(fairness, clients) is None:
            continue
        # No numbers of the data: over many seeds they would give the sizes of clients.
        message = (
            f"too few rows {which}; to distinguish members from others this attack needs "
            f"{max(MIN_ROWS, fairness.minimum_group_size)} that train and as many that do not, of "
            f"{fairness.minimum_group_clients} clients or more, so choose a share in between, or "
            "data with more rows"
        )
        found.append(FieldError("/federation/validation_fraction", message))
        break
    if spec.shadows is None:
        return found
    if cell.federation.left_out is not None:
        message = (
            "shadow runs would train on rows that `fairness.exclude` leaves out of every figure; "
            "use the method `threshold`, or leave `exclude` out"
        )
        found.append(FieldError(f"{pointer}/shadows", message, of_spec=True))
    units = cell.federation.rows
    if not cell.spec.federation.holds_out_rows:
        units, k = cell.federation.clients, cell.spec.training.hypotheses
        if units < MIN_CLIENTS or shadow_training_clients(units) < k:
            message = (
                f"shadow runs train on halves of the clients; use data with {MIN_CLIENTS} clients "
                "or more, ask for fewer `training.hypotheses` than a half has clients, or choose "
                "the method `threshold`, which needs no shadow runs"
            )
            found.append(FieldError(f"{pointer}/shadows", message, of_spec=True))
    # The API asks, too, and starts without it.
    from scipy.special import bdtr

    if not found and 2 * units * float(bdtr(MIN_SHADOWS_EACH - 1, spec.shadows, 0.5)) > 1:
        message = (
            f"of {spec.shadows} random halves some of so many clients or records would be in fewer "
            f"than {MIN_SHADOWS_EACH}, or outside of fewer; ask for more shadow runs, 128 or 256"
        )
        found.append(FieldError(f"{pointer}/shadows", message))
    return found
