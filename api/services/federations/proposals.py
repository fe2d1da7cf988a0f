"""Propose a registration for a table that lies below the sources folder or is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from api.http.problems import ProblemError
from api.schemas.federations import ProposalBody, ProposalRequest
from api.services.base.lookups import find_federation
from api.shared.load_pool import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller

if TYPE_CHECKING:
    from fedaudit.federations.reading.source_files import SourceFile

_MAX_ROWS = 100_000
"""Rows that are looked at; the command line reads more."""


def propose_registration(
    resources: Resources, caller: Caller, asked: ProposalRequest
) -> ProposalBody:
    """What the table seems to hold. Nothing is stored.

    Raises InvalidInputError for what is no usable table, ProblemError where there is no such file.
    """
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.proposals.proposal import proposal_yaml, propose_file

    with _opened(resources, caller, asked) as (file, name):
        stop_if_given_up()
        found = propose_file(
            file,
            name=name,
            most_rows=_MAX_ROWS,
            header=asked.header,
            client_key=asked.client_key,
            target=asked.target,
        )
    return ProposalBody(**asdict(found), yaml=proposal_yaml(found))


@contextmanager
def _opened(
    resources: Resources, caller: Caller, asked: ProposalRequest
) -> Iterator[tuple["SourceFile", str]]:
    from fedaudit.federations.reading.source_files import Files, open_path, open_stored

    below = Files(resources.settings.sources_dir, may_read=resources.may_read(caller.project_id))
    if asked.path is not None:
        with open_path(asked.path, files=below, pointer="/path") as file:
            yield file, asked.path.rpartition("/")[2]
        return
    with resources.database.read() as session:
        row = find_federation(session, caller, str(asked.id))
    name = row.file_name or row.name
    if row.status in ("deleted", "erased") or row.registration is None:
        raise ProblemError(409, "conflict", "the federation has no file; upload it again")
    if row.storage_key is None:
        path = str(row.registration["federation"]["path"])
        with open_path(path, files=below, pointer="/id") as file:
            yield file, name
        return
    with resources.storage.local(row.storage_key) as place, open_stored(place, name) as file:
        yield file, name
