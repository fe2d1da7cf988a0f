"""What a file that is registered holds, or why it cannot be used."""

from collections.abc import Callable
from typing import Any

from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.source_kinds import file_kind
from fedaudit.spec.registration import Registration


def profile_registration(
    registration: Registration,
    *,
    files: Files,
    progress: Callable[[], None] = lambda: None,
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """Sizes and names of a federation, as JSON; small groups are hidden.

    A table is read as a stream, in memory for its clients and groups alone; images and hospital
    charges are loaded. `progress` is called now and then, `fingerprint` is what the data must
    have. Raises InvalidInputError with what loading the data would say.
    """
    kind = file_kind(registration.federation)
    return kind.profile(
        registration.fairness, files=files, progress=progress, fingerprint=fingerprint
    )
