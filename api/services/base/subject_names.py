"""The names of a ledger's clients, or the made-up ones that stand for erased names."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from models.repositories import ErasureRepository, FederationRepository, SubjectSetRepository
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.experiments import Experiment


def names_of(session: Session, experiment: Experiment) -> tuple[str, ...]:
    """By index. Raises ProblemError while they are being erased, LookupError where they are
    lost."""
    refuse_while_erasing(
        session, experiment.project_id, experiment.id, federation_id=experiment.federation_id
    )
    return SubjectSetRepository(session).names(experiment.subject_set_id)


def refuse_while_erasing(
    session: Session, project_id: str, owner_id: str, *, federation_id: str | None
) -> None:
    """Raises ProblemError where the clients' names of a ledger are about to be removed."""
    if ErasureRepository(session, project_id).has_names(owner_id, federation_id):
        raise ProblemError(
            409,
            "conflict",
            "the names of the clients are being erased; ask again in a few seconds",
            headers={"Retry-After": "5"},
        )


def refuse_erased(session: Session, project_id: str, ledger: DeclaredLedger) -> None:
    """Raises ProblemError where the federation of a ledger was erased: nobody can be charged."""
    if ledger.federation_id is None:
        return
    found = FederationRepository(session, project_id).get(ledger.federation_id)
    stated = ErasureRepository(session, project_id).statement(ledger.id) is not None
    if stated or (found is not None and found.status == "erased"):
        raise ProblemError(
            410,
            "gone",
            "the federation of this ledger was erased, and the names of its clients with it: it "
            "takes no more rounds; open another for data that were registered anew",
            reason="erased",
        )
