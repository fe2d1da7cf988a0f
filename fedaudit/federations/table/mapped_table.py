"""Tables that are laid out on disk once, and mapped by everybody who needs them later."""

import errno
import hashlib
import json
from pathlib import Path

from fedaudit.federations.federation import Federation
from fedaudit.federations.mapped.array_files import read_federation, write_federation
from fedaudit.federations.mapped.map_folder import WORTH_A_MAP, MapFolder, making_folder
from fedaudit.federations.reading.data_room import DataRoom
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.table_federation import load_table
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.table import Table
from fedaudit.version import __version__

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DECIDE_NO_ROW = {"path", "id", "labels", "scoring"}
_DECIDE_WITH_SEED = {"validation_fraction", "validation_unit"}
"""Fields that say who is held out: the data depend on it where they depend on the seed."""


def mapped_table(source: Table, file: SourceFile, asked: LoadRequest) -> Federation:
    """The federation in a table, mapped where it was laid out before.

    Laid out anew where it was not, or where the file's content changed; a small file is read.
    Raises InvalidInputError.
    """
    try:
        maps = map_folder(asked.files.room)
        if maps is None or file.size < WORTH_A_MAP:
            return _for_one_run(source, file, asked, None if maps is None else maps.folder)
        key = map_key(source, asked)
        found = maps.find(maps.fingerprint(file, asked.progress), key)
        if found is not None:
            return found
        with maps.making() as folder:
            federation = load_table(source, file, asked, folder=folder)
            file.check_unchanged()
            return maps.keep(federation, folder, key)
    except OSError as error:
        if error.errno in _FULL:
            raise _full(file) from None
        raise


def map_folder(room: DataRoom) -> MapFolder | None:
    """Where data are laid out; None where nothing is kept, or nothing can be written."""
    if room.maps_dir is None:
        return None
    maps = MapFolder(room.maps_dir, room.maps_bytes)
    return maps if maps.is_usable else None


def _for_one_run(
    source: Table, file: SourceFile, asked: LoadRequest, below: Path | None
) -> Federation:
    """Read, and laid out only where it is large, without a name."""
    with making_folder(below) as folder:
        federation = load_table(source, file, asked, folder=folder)
        if not federation.is_large:
            return federation
        write_federation(federation, folder)
        return read_federation(folder) or federation


def map_key(source: Table, asked: LoadRequest) -> str:
    """A digest of all that the data depend on beside the file, and of what read it."""
    seeded = source.traits.draws_data
    left_out = _DECIDE_NO_ROW | (set() if seeded else _DECIDE_WITH_SEED)
    told = [
        __version__,
        "numbers before cuts",
        source.model_dump(mode="json", exclude=left_out),
        asked.fairness.sensitive,
        asked.fairness.edges,
        asked.classification,
        asked.seed if seeded else None,
        asked.budgets,
        asked.keyed,
        source.validation_unit if asked.keyed else None,
    ]
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _full(file: SourceFile) -> InvalidInputError:
    return file.fault(
        "takes more room than is left on the disk where the service lays out data; name fewer "
        "features, or free some of it (FEDAUDIT_MAX_MAPPED_BYTES bounds what is kept there)"
    )
