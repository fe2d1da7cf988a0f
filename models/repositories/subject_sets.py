"""Subject names, stored once per set of clients."""

import hashlib
from collections.abc import Sequence

from sqlalchemy import bindparam, select

from models.json_text import to_json
from models.prepared import Prepared
from models.repositories.base import Repository
from models.tables.subject_sets import SubjectSet

# Locked, so that no erasure removes it before this transaction refers to it.
_HELD = Prepared(
    select(SubjectSet.id).where(SubjectSet.id == bindparam("id")).with_for_update(key_share=True)
)


class SubjectSetRepository(Repository):
    """Sets of names, known by their content: without a project, reached by an experiment."""

    def put(self, names: Sequence[str]) -> str:
        """The id of the set with these names in this order, stored if it is new."""
        text = to_json(list(names))
        set_id = hashlib.sha256(text.encode()).hexdigest()
        while not _HELD.rows(self.session, id=set_id):
            if self._insert_absent(SubjectSet, {"id": set_id, "names": list(names)}):
                break
        return set_id

    def names(self, id: str) -> tuple[str, ...]:  # noqa: A002
        """The names by index. Raises LookupError where there is no such set."""
        names = self.session.scalar(select(SubjectSet.names).where(SubjectSet.id == id))
        if names is None:
            raise LookupError(f"subject set {id}: there is no such set")
        return tuple(names)
