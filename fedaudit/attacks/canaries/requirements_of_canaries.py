"""What canaries require of the data. No torch."""

from fedaudit.attacks.canaries.canary_pool import pool_faults
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.errors import FieldError
from fedaudit.training.base.cell import Cell


def faults(spec: CanariesSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Every reason why these canaries cannot be planted; `pointer` is that of the attack."""
    return pool_faults(spec, cell, pointer=pointer)
