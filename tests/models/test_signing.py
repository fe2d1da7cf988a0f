"""Keys in use and retired; checkpoints that are inserted once."""

from models.database import Database
from models.repositories import LedgerCheckpointRepository, SigningKeyRepository
from tests.models.rows import queued


def test_a_new_key_retires_the_others_and_one_that_comes_back_is_in_use(database: Database) -> None:
    def use(key_id: str) -> list[tuple[str, bool]]:
        with database.write() as session:
            keys = SigningKeyRepository(session)
            keys.use(key_id, algorithm="ed25519", public_key=f"PEM of {key_id}")
            return [(key.key_id, key.retired_at is None) for key in keys.list()]

    assert use("a") == [("a", True)]
    assert use("a") == [("a", True)]
    assert use("b") == [("a", False), ("b", True)]
    assert use("a") == [("a", True), ("b", False)]


def test_a_checkpoint_is_stored_once_and_the_end_stands_last(database: Database) -> None:
    project_id, new = queued(database)
    with database.write() as session:
        checkpoints = LedgerCheckpointRepository(session, project_id)
        for number, (entries, status) in enumerate(
            [(3, "failed"), (3, "running"), (1, "running"), (3, "failed")]
        ):
            checkpoints.add(
                new.id, project_id, entries=entries, status=status, envelope={"number": number}
            )
        stored = checkpoints.envelopes(new.id)
        assert [envelope["number"] for envelope in stored] == [2, 1, 0]
        assert LedgerCheckpointRepository(session, "another").envelopes(new.id) == []
