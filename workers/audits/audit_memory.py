"""Under which numberings what audits disclose is remembered."""

import hashlib
from typing import TYPE_CHECKING

from workers.disclosure_memory import ROWS_OF_FILE, Memory

if TYPE_CHECKING:
    from fedaudit.audits.audited_rows import AuditedRows

_BY_CONTENTS = "rows by what they hold"


def memories_of(project_id: str, fingerprint: str, rows: "AuditedRows") -> list[Memory]:
    """That of the file, which runs share, and those of the project's files with the same columns:
    with all of them the same, and with all but truth and prediction.

    The latter two only where rows can be known again by what they hold.
    """
    found = [Memory(fingerprint, ROWS_OF_FILE, rows.rows_of_file)]
    for contents in rows.contents:
        key = hashlib.sha256(f"{project_id} {contents.columns}".encode()).hexdigest()
        found.append(Memory(key, _BY_CONTENTS, rows.by_contents(contents)))
    return found
