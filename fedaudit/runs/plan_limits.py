"""What a spec may ask of the memory and the time of a service, estimated before it is planned."""

from dataclasses import dataclass
from typing import assert_never

from fedaudit.federations.federation import bytes_in_memory
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.training.base.cell import Cell

_BYTES_OF_A_PARAMETER = 4


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """The most that a spec may ask for."""

    model_bytes: int
    """Of all hypotheses together, before any update: training takes a multiple of it."""
    planned_records: int
    """Rows of a mechanism that plans record by record: about 20 s of one core for a million."""
    data_bytes: int
    """Of the features of such a mechanism, which has all rows in memory."""


def check_limits(cell: Cell, limits: PlanLimits) -> None:
    """Raises InvalidInputError where a spec exceeds the limits; takes no time itself."""
    faults = [*_model_faults(cell, limits), *_record_faults(cell, limits)]
    if faults:
        raise InvalidInputError(faults)


def _model_faults(cell: Cell, limits: PlanLimits) -> list[FieldError]:
    hypotheses, n = cell.spec.training.hypotheses, cell.shape.n
    needed = hypotheses * n * _BYTES_OF_A_PARAMETER
    if needed <= limits.model_bytes:
        return []
    message = (
        f"{hypotheses} hypotheses of {n} parameters take {needed} bytes, and {limits.model_bytes} "
        "are allowed (FEDAUDIT_MAX_MODEL_BYTES); ask for fewer, or for a smaller model"
    )
    return [FieldError("/training/hypotheses", message, of_spec=True)]


def _record_faults(cell: Cell, limits: PlanLimits) -> list[FieldError]:
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients" | "server":
            return []
        case "local-steps":
            rows = cell.federation.rows
        case _:
            assert_never(role)
    needed = bytes_in_memory(cell.federation)
    if rows <= limits.planned_records and needed <= limits.data_bytes:
        return []
    if rows <= limits.planned_records:
        message = (
            f"the rows of all clients train in every round, and their features take {needed} bytes "
            f"of memory, of which {limits.data_bytes} are allowed (FEDAUDIT_MAX_DATA_MEMORY_BYTES);"
            " take fewer features or another mechanism"
        )
        return [FieldError("/privacy/mechanism", message, of_spec=True)]
    message = (
        f"every record is planned by itself, and the data have more than the "
        f"{limits.planned_records} that are allowed (FEDAUDIT_MAX_PLANNED_RECORDS); take fewer "
        "rows or another mechanism"
    )
    return [FieldError("/privacy/mechanism", message, of_spec=True)]
