"""The content of a registered file, or the reason why it cannot be used."""

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import raise_errors
from fedaudit.federations.groups.label_agreement import label_faults
from fedaudit.federations.profiles.profile import NUMERIC_TARGET
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.source_kinds import file_kind
from fedaudit.spec.registration import Registration


def profile_registration(
    registration: Registration,
    *,
    files: Files,
    progress: Callable[[], None] = lambda: None,
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """Sizes and names of a federation, as JSON; small groups are suppressed.

    A table is read as a stream, with memory for its clients and groups only; images and hospital
    charges are loaded. `progress` is called now and then, `fingerprint` is the expected one of the
    data. Raises InvalidInputError with the same message as loading the data.
    """
    kind = file_kind(registration.federation)
    figures = kind.profile(
        registration.fairness, files=files, progress=progress, fingerprint=fingerprint
    )
    attributes = {name: tuple(found["groups"]) for name, found in figures["attributes"].items()}
    codes = {figures["target"]: figures["classes"], **attributes}
    raise_errors(label_faults(registration.federation.labels, codes))
    return figures


def lay_out_registered(
    registration: Registration,
    figures: Mapping[str, Any],
    *,
    files: Files,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Lay a large table out as experiments will ask for it that take what was registered.

    `figures`: its profile. Raises InvalidInputError where such experiments would be refused.
    """
    classification = figures.get("reasons", {}).get("class_balance") != NUMERIC_TARGET
    asked = _asked(registration, files, progress, classification=classification)
    file_kind(registration.federation).lay_out(asked)


def index_registered(
    registration: Registration,
    *,
    files: Files,
    place: BinaryIO,
    progress: Callable[[], None] = lambda: None,
) -> bool:
    """Write the index of a large table to the start of `place`, from which experiments on it are
    planned.

    False where there is none, as for small files, which are read instead. Raises InvalidInputError
    where a column cannot be read, which need not be one that is used; OSError.
    """
    asked = _asked(registration, files, progress, classification=False)
    file_kind(registration.federation).write_index(asked, place)
    return place.tell() > 0


def _asked(
    registration: Registration,
    files: Files,
    progress: Callable[[], None],
    *,
    classification: bool,
) -> LoadRequest:
    return LoadRequest(
        fairness=registration.fairness,
        classification=classification,
        seed=0,
        files=files,
        budgets=None,
        keyed=False,
        progress=progress,
    )


def registered_row_hashes(
    registration: Registration,
    *,
    files: Files,
    keep: int,
    progress: Callable[[], None] = lambda: None,
) -> NDArray[np.int64] | None:
    """The `keep` smallest hashes of a registered table's rows; None for what is no table.

    Raises InvalidInputError where a column cannot be read, which need not be one that is used.
    """
    kind = file_kind(registration.federation)
    return kind.row_hashes(files=files, keep=keep, progress=progress)
