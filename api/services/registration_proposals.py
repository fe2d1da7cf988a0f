"""Proposals of registrations: what a table seems to hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from api.http.problems import conflict
from api.schemas.federations import ProposalBody, ProposalRequest
from api.services.lookups import find_federation
from api.shared.concurrency import stop_if_given_up
from api.shared.resources import Resources
from api.shared.security import Caller

if TYPE_CHECKING:
    from fedaudit.federations.reading.source_files import SourceFile

_SURVEYED_ROWS = 100_000
"""Rows that a proposal is made from; the command line reads more."""


def propose_registration(
    resources: Resources, caller: Caller, asked: ProposalRequest
) -> ProposalBody:
    """What a table seems to hold, below the sources folder or of a federation. Nothing is stored.
    Raises InvalidInputError for an unusable table, ProblemError where there is no such file."""
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.proposals.proposal import proposal_yaml, propose_file

    with _opened_source(resources, caller, asked) as (file, name):
        stop_if_given_up()
        found = propose_file(
            file,
            name=name,
            most_rows=_SURVEYED_ROWS,
            header=asked.header,
            client_key=asked.client_key,
            target=asked.target,
        )
    return ProposalBody(**asdict(found), yaml=proposal_yaml(found))


@contextmanager
def _opened_source(
    resources: Resources, caller: Caller, asked: ProposalRequest
) -> Iterator[tuple["SourceFile", str]]:
    from fedaudit.federations.reading.source_files import Files, open_path, open_stored

    path, pointer = asked.path, "/path"
    name = "" if path is None else path.rpartition("/")[2]
    if path is None:
        pointer = "/id"
        with resources.database.read() as session:
            row = find_federation(session, caller, str(asked.id))
        name = row.file_name or row.name
        if row.status in ("deleted", "erased") or row.registration is None:
            raise conflict("the federation has no file; upload it again")
        if row.storage_key is not None:
            with (
                resources.storage.local(row.storage_key) as place,
                open_stored(place, name) as file,
            ):
                yield file, name
            return
        path = str(row.registration["federation"]["path"])
    below = Files(resources.settings.sources_dir, may_read=resources.may_read(caller.project_id))
    with open_path(path, files=below, pointer=pointer) as file:
        yield file, name
