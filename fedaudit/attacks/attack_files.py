"""The confidential files of attacks: tables, and all files of a run as one archive. No torch.

The archive is a zip file, stored without compression and without times: the same files have the
same bytes.
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


def csv_table(lines: Iterable[Mapping[str, object]]) -> bytes:
    """A CSV file of lines that all have the columns of the first; empty without lines."""
    text, table = io.StringIO(), None
    for line in lines:
        if table is None:
            table = csv.DictWriter(text, list(line), lineterminator="\n")
            table.writeheader()
        table.writerow(line)
    return text.getvalue().encode()


@dataclass(frozen=True, order=True)
class AttackFile:
    """One file of an attack."""

    position: int
    """Position of the attack in its spec."""
    name: str
    size_bytes: int


def packed(attacks: Iterable[Mapping[str, bytes]]) -> bytes:
    """The archive of the files of each attack in order, by name."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for position, files in enumerate(attacks):
            for name, data in sorted(files.items()):
                target.writestr(zipfile.ZipInfo(f"{position}/{name}"), data)
    return archive.getvalue()


def files_in(archive: Path) -> list[AttackFile]:
    """The files of an archive, by attack and name."""
    with zipfile.ZipFile(archive) as source:
        members = [(one.filename.partition("/"), one.file_size) for one in source.infolist()]
    return sorted(AttackFile(int(position), name, size) for (position, _, name), size in members)


def file_in(archive: Path, *, position: int, name: str) -> bytes | None:
    """The content of a file; None if the archive has no such file."""
    with zipfile.ZipFile(archive) as source:
        try:
            return source.read(f"{position}/{name}")
        except KeyError:
            return None
