"""The budgets of many federations at once: a handful of statements, however many there are.

The same figures as of one federation after the other, by the same rules; only what these read comes
from memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.repositories.contents.budget_pools import BookedBudget, Sharing
from models.repositories.contents.budget_rows import POOL, DeclaredSpending, in_order, sharing_of
from models.repositories.contents.held_contents import BOOKED_COLUMNS, BookedEpsilon, Counts
from models.repositories.epsilon_budgets import EpsilonBudgetRepository, Price
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.federations import Content, Federation
from models.tables.reservations import FederationBudget, Reservation
from models.values import Budget, BudgetFigure, BudgetsAcross


@dataclass
class _Stored:
    """What the database has of some federations, and of all that share their content."""

    sharings: dict[str, Sharing] = field(default_factory=dict)
    rows: defaultdict[str, list[FederationBudget]] = field(
        default_factory=lambda: defaultdict(list)
    )
    reservations: defaultdict[str, list[Reservation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    ledgers: frozenset[str] = frozenset()


def budgets_of_all(
    session: Session, federations: Sequence[tuple[str, str]], *, across: BudgetsAcross, price: Price
) -> Iterator[tuple[str, Budget]]:
    """Every budget of these federations (project id, federation id), composed where it is an
    epsilon, with the federation's id."""
    stored = _read(session, [id_ for _, id_ in federations], across)
    for project_id, federation_id in federations:
        known = _FromMemory(session, project_id, stored, across=across)
        for budget in known.budgets(federation_id):
            is_epsilon = budget.figure == "epsilon"
            yield (
                federation_id,
                known.composed(federation_id, budget, price) if is_epsilon else budget,
            )


class _FromMemory(EpsilonBudgetRepository):
    """A project's budgets, from what was read of them."""

    def __init__(
        self, session: Session, project_id: str, stored: _Stored, *, across: BudgetsAcross
    ) -> None:
        super().__init__(session, project_id, across=across)
        self._stored = stored

    def _sharing(self, federation_id: str) -> Sharing | None:
        return self._stored.sharings.get(federation_id)

    def _rows(self, sharing: Sharing) -> list[BookedBudget]:
        busy = {_place(one) for one in self._reservations(sharing)}
        return in_order(
            BookedBudget(*_place(row), row.total, row.reserved, row.spent, _place(row) in busy)
            for id_ in sharing.ids
            for row in self._stored.rows[id_]
        )

    def _declared(self, sharing: Sharing) -> DeclaredSpending:
        found = DeclaredSpending()
        for one in self._reservations(sharing):
            if one.experiment_id in self._stored.ledgers:
                found.add(tuple(getattr(one, name) for name in POOL), one.unit_key, one.spent)
        return found

    def _of_epsilon(self, counts: Counts) -> list[BookedEpsilon]:
        """All of them: what is not counted is left out afterwards."""
        return [
            BookedEpsilon(**{name: getattr(one, name) for name in BOOKED_COLUMNS})
            for id_ in counts.federation_ids
            for one in self._stored.reservations[id_]
            if one.figure == "epsilon"
        ]

    def _declared_ledgers(self, federation_id: str) -> frozenset[str]:
        return self._stored.ledgers

    def _reservations(self, sharing: Sharing) -> Iterable[Reservation]:
        return (one for id_ in sharing.ids for one in self._stored.reservations[id_])


_Place = tuple[str, str, BudgetFigure, float, str, str, str]


def _place(one: FederationBudget | Reservation) -> _Place:
    """The key of the budget that it is, or is on."""
    whose = (one.adjacency, one.observer, one.unit_key)
    return (one.federation_id, one.book, one.figure, one.delta, *whose)


def _read(session: Session, ids: Sequence[str], across: BudgetsAcross) -> _Stored:
    own = list(session.scalars(select(Federation).where(Federation.id.in_(ids))))
    prints = {one.fingerprint for one in own}
    owned = select(Content.fingerprint, Content.owner_project_id)
    owners = dict(session.execute(owned.where(Content.fingerprint.in_(prints))).all())
    same: defaultdict[str, dict[str, str]] = defaultdict(dict)
    sharing = select(Federation.fingerprint, Federation.project_id, Federation.id)
    for fingerprint, project_id, id_ in session.execute(
        sharing.where(Federation.fingerprint.in_(prints))
    ):
        same[fingerprint][project_id] = id_
    found = _Stored()
    for one in own:
        found.sharings[one.id] = sharing_of(
            one.id,
            by_project=same[one.fingerprint] if one.fingerprint in owners else None,
            owner=owners.get(one.fingerprint),
            across=across,
        )
    every = {id_ for one in found.sharings.values() for id_ in one.ids}
    for row in session.scalars(
        select(FederationBudget).where(FederationBudget.federation_id.in_(every))
    ):
        found.rows[row.federation_id].append(row)
    for held in session.scalars(select(Reservation).where(Reservation.federation_id.in_(every))):
        found.reservations[held.federation_id].append(held)
    mine = select(DeclaredLedger.id).where(DeclaredLedger.federation_id.in_(every))
    found.ledgers = frozenset(session.scalars(mine))
    return found
