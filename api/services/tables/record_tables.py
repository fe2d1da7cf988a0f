"""Record tables: what every single record spent, as the worker stored it."""

from collections.abc import Iterator
from itertools import chain

from api.http.problems import ProblemError
from infrastructure.storage import Storage, record_table_key
from models.tables.experiments import Experiment

_BLOCK_BYTES = 2**18


def record_table_of(storage: Storage, experiment: Experiment) -> Iterator[bytes]:
    """The bytes of an experiment's record table, read while they are sent.

    Raises ProblemError where it has none, StorageError where the storage cannot answer.
    """
    if experiment.status != "succeeded":
        raise _none(f"it is {experiment.status}")
    key = record_table_key(experiment.project_id, experiment.id)
    if not storage.holds(key):
        raise _none("its run left none, as those of record-personalised do")
    blocks = _blocks(storage, key)
    # Found and opened before the response begins, because errors cannot be reported after that.
    return chain([next(blocks, b"")], blocks)


def _blocks(storage: Storage, key: str) -> Iterator[bytes]:
    with storage.local(key) as path, path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _none(why: str) -> ProblemError:
    return ProblemError(404, "not-found", f"the experiment has no record table: {why}")
